"""The parts of a conversation: lines, requests of either side, and the reasons for a missing response."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from acp_conformance.core.case import Outcome, Verdict, fail, skip
from acp_conformance.core.schema import JsonId, same_id

T = TypeVar("T")


class NoAnswer(Outcome):
    """An expected message did not arrive in time. `find` returns the message if it arrives later."""

    def __init__(self, what: str, seconds: float, find: Callable[[], object] = lambda: None) -> None:
        super().__init__(Verdict.FAIL, f"{what} did not come within {seconds:.3g} s")
        self.what = what
        self.seconds = seconds
        self.find = find


class Ended(Outcome):
    """The subject's output ended while a message was expected."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(Verdict.FAIL, f"{why} before {what} came")


class Flooded(Ended):
    """The subject wrote more than the suite keeps, while the suite waited for a message."""


@dataclass(frozen=True, slots=True)
class Received:
    """One line of the subject."""

    position: int
    """Its index in `received`."""
    at: float
    """`time.monotonic()` of its arrival."""
    line: bytes
    message: Any
    """The JSON value; None if the line is not JSON."""


@dataclass(frozen=True, slots=True)
class Update:
    """One `session/update` of the agent."""

    position: int
    """Index in `agent.received`."""
    session: str
    kind: str
    """Its `sessionUpdate`."""
    body: Mapping[str, Any]
    """`params.update`."""

    @property
    def text(self) -> str:
        """The text of a message or thought chunk; empty for other updates."""
        content = self.body.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        return text if isinstance(text, str) else ""


class Side(Protocol):
    """The interface of a conversation that its requests use."""

    @property
    def received(self) -> Sequence[Received]:
        """All lines of the subject."""
        ...

    async def wait_for(self, find: Callable[[], T | None], what: str, *, within: float | None = None) -> T:
        """Wait until `find` finds something."""
        ...

    def post(self, message: object) -> None:
        """Queue a message."""
        ...

    async def flush(self) -> None:
        """Wait until all queued messages are written."""
        ...

    def wants_login(self, method: str, error: object) -> bool:
        """Whether an error only says that the user must authenticate first."""
        ...


@dataclass(eq=False)
class Pending:
    """A request of the suite. A response must have the same id in the same JSON type: the id "1" does not answer the
    request 1."""

    peer: Side
    id: JsonId
    method: str
    since: int
    """Position in `received` when it was sent."""

    @property
    def answered(self) -> list[tuple[int, dict[str, Any]]]:
        """Position and message of each response so far, including responses inside an array."""
        return [
            (entry.position, message)
            for entry in self.peer.received[self.since :]
            for message in (entry.message if isinstance(entry.message, list) else [entry.message])
            if isinstance(message, dict)
            and "method" not in message
            and "id" in message
            and same_id(message["id"], self.id)
        ]

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The responses so far. A correct subject sends exactly one."""
        return [message for _, message in self.answered]

    @property
    def position(self) -> int | None:
        """Position of the first response in `received`; None before that response."""
        return next((position for position, _ in self.answered), None)

    async def answer(self, *, within: float | None = None) -> dict[str, Any]:
        """Wait for the first response, and return the whole message.

        Raises:
            NoAnswer: No response arrived within `within` seconds, by default the conversation's patience.
            Ended: The subject's output ended first.
        """
        return await self.peer.wait_for(
            lambda: next(iter(self.answers), None), f"the answer to {self.method} (id {self.id!r})", within=within
        )

    async def result(self, *, within: float | None = None) -> Any:
        """Wait for the response, and return its result. If the response is an error, the case fails."""
        answer = await self._answer_but_login(within)
        if "result" not in answer:
            fail(f"{self.method} was answered with an error: {_short(answer.get('error'))}", at=self.position)
        return answer["result"]

    async def error(self, *codes: int, within: float | None = None) -> dict[str, Any]:
        """Wait for the response, and return its error. The case fails if the response is a result, or if its code is
        not in `codes` and `codes` is not empty."""
        answer = await self._answer_but_login(within)
        error = answer.get("error")
        if not isinstance(error, dict):
            came = _short(answer.get("result"))
            fail(f"{self.method} was answered with a result instead of an error: {came}", at=self.position)
        if codes and error.get("code") not in codes:
            wanted = " or ".join(map(str, codes))
            code = error.get("code")
            fail(f"{self.method} was answered with the code {code!r} instead of {wanted}", at=self.position)
        return error

    async def _answer_but_login(self, within: float | None) -> dict[str, Any]:
        answer = await self.answer(within=within)
        if self.peer.wants_login(self.method, answer.get("error")):
            skip(f"{self.method} wants the user to authenticate first")
        return answer


@dataclass(eq=False)
class Incoming:
    """A request of the subject."""

    peer: Side
    id: JsonId
    method: str
    params: Any
    position: int
    answered: bool = False
    withdrawals: list[int] = field(default_factory=list)
    """Positions of the `$/cancel_request` notifications that name it."""

    async def answer(self, result: object) -> None:
        """Answer the request with a result."""
        self.answer_now(result)
        await self.peer.flush()

    async def refuse(self, code: int, message: str = "refused by the case") -> None:
        """Answer the request with an error."""
        self.refuse_now(code, message)
        await self.peer.flush()

    async def withdrawn(self, *, within: float | None = None) -> None:
        """Wait for the `$/cancel_request` that names this request."""
        await self.peer.wait_for(
            lambda: self.withdrawals or None, f"$/cancel_request for {self.method} (id {self.id!r})", within=within
        )

    def answer_now(self, result: object) -> None:
        """Queue a result as the response, without waiting until it is written."""
        self.answered = True
        self.peer.post({"jsonrpc": "2.0", "id": self.id, "result": result})

    def refuse_now(self, code: int, message: str) -> None:
        """Queue an error as the response, without waiting until it is written."""
        self.answered = True
        self.peer.post({"jsonrpc": "2.0", "id": self.id, "error": {"code": code, "message": message}})


def code_of(answer: object) -> object:
    """Return the code of an error response; None for any other response."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "..."
