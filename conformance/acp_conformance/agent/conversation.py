"""The conversation of a case with its subject: requests and notifications in both directions, over a channel of lines.

A well-behaved editor (`agent.editor`) answers the subject's requests, except methods that the case takes over by `on`
or `hold`. So a case handles only the messages that its rule is about.

Sessions and prompts, which only agents have, are in `subject`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from acp_conformance.core.checker import Checker
from acp_conformance.core.process import Process
from acp_conformance.core.schema import JsonId, same_id

from .channel import Channel
from .editor import HOLD, Editor, Refuse
from .exchange import Incoming, Pending, Received


class Conversation(Channel):
    """One conversation with one new process."""

    def __init__(
        self, process: Process, checker: Checker, editor: Editor, *, patience: float, start_patience: float
    ) -> None:
        super().__init__(process, checker, patience=patience, start_patience=start_patience)
        self.editor = editor
        self.requests: list[Incoming] = []
        """The subject's requests, in order."""
        self.yields_to_cancel = True
        """Whether a held request that the subject withdraws is answered with -32800 at once."""
        self._handlers: dict[str, Callable[[Incoming], object]] = {}
        self._seen: dict[str | None, int] = {}
        self._before = 0
        """How many requests of the subject belong to earlier cases in the same process."""
        self._asked: list[Pending] = []
        self._next_id = 1

    def begin_case(self) -> int:
        """See `Channel.begin_case`. Held methods and earlier requests no longer count."""
        self.let_go()
        self.yields_to_cancel = True
        self.editor.commands_end = True
        self._seen.clear()
        self._before = len(self.requests)
        return super().begin_case()

    # Sending.

    async def request(self, method: str, params: object = None, *, id: JsonId | None = None) -> Pending:
        """Send a request, and return its handle without waiting. If `params` is None, the request has no params.
        Without `id` the request gets a new integer."""
        if id is None:
            id, self._next_id = self._next_id, self._next_id + 1
        pending = self._pending(id, method)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        await self.send(message if params is None else {**message, "params": params})
        return pending

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification. If `params` is None, the notification has no params."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        await self.send(message if params is None else {**message, "params": params})

    def expect(self, id: JsonId, method: str = "a message") -> Pending:
        """Return a handle for the later responses to the request `id`, which the caller sends in any way."""
        self.checker.expect(id)
        return self._pending(id, method)

    def new_id(self) -> int:
        """Return an id that no request had, for messages that a case builds itself."""
        id, self._next_id = self._next_id, self._next_id + 1
        return id

    def wants_login(self, method: str, error: object) -> bool:
        """Whether an error only says that the user must authenticate first. Only a conversation with an agent can
        tell."""
        return False

    # Waiting.

    async def next_request(self, method: str | None = None, *, within: float | None = None) -> Incoming:
        """Return the next request of the subject, of this method if a method is given. Each request is returned once.

        The editor or a handler may already have answered the request. A case that answers the request itself must first
        `hold` the method.
        """

        def find() -> Incoming | None:
            for request in self.requests[self._seen.get(method, self._before) :]:
                if method in (None, request.method):
                    return request
            return None

        found = await self.wait_for(find, f"a request {method or 'of the subject'}", within=within)
        self._seen[method] = self.requests.index(found) + 1
        return found

    async def next_null_answer(self, *, within: float | None = None, since: int = 0) -> dict[str, Any]:
        """Return the first response with the id null at or after position `since`. Unreadable input has such a
        response."""
        return await self.wait_for(
            lambda: next(iter(self.null_answers(since)), None), "an error with the id null", within=within
        )

    def null_answers(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the responses with the id null at or after position `since`."""
        return Pending(self, None, "", since).answers

    def unasked(self, since: int = 0) -> list[Received]:
        """Return the lines at or after position `since` that are neither calls nor responses to requests of the
        suite."""
        owed = {pending.position for pending in self._asked}
        return [
            entry
            for entry in self.received[since:]
            if entry.position not in owed and not (isinstance(entry.message, dict) and "method" in entry.message)
        ]

    async def next_array(self, *, within: float | None = None, since: int = 0) -> list[Any]:
        """Return the first array at or after position `since`, which is the response to a batch."""
        return await self.wait_for(
            lambda: next((entry.message for entry in self.received[since:] if isinstance(entry.message, list)), None),
            "an array of answers",
            within=within,
        )

    # Answering.

    def on(self, method: str, handler: Callable[[Incoming], object]) -> None:
        """Answer this method by `handler(request)`, which returns the result or `HOLD`, or raises `Refuse`."""
        self._handlers[method] = handler

    def hold(self, *methods: str) -> None:
        """Leave requests of these methods unanswered. The case gets them by `next_request`, and may answer them at any
        time."""
        for method in methods:
            self._handlers[method] = lambda _request: HOLD

    def let_go(self) -> None:
        """Let the editor answer all methods again. Requests that are already held stay held."""
        self._handlers.clear()

    def held(self, method: str | None = None) -> Sequence[Incoming]:
        """Return the requests without a response, of this method if a method is given."""
        return [each for each in self.requests[self._before :] if not each.answered and method in (None, each.method)]

    def take(self, message: Any, position: int) -> None:
        """See `Channel.take`. Serve requests, and note the withdrawn ones."""
        for each in message if isinstance(message, list) else [message]:
            match each:
                case {"method": str(method), "id": int() | str() | None as id}:
                    request = Incoming(self, id, method, each.get("params"), position)
                    self.requests.append(request)
                    self._serve(request)
                case {"method": "$/cancel_request", "params": {"requestId": id}}:
                    self._withdraw(id, position)
                case _:
                    pass

    def _serve(self, request: Incoming) -> None:
        handler = self._handlers.get(request.method, self.editor.handle)
        try:
            result = handler(request)
        except Refuse as refusal:
            request.refuse_now(refusal.code, refusal.message)
            return
        if result is not HOLD:
            request.answer_now(result)

    def _withdraw(self, id: object, position: int) -> None:
        for request in self.requests:
            if same_id(request.id, id):
                request.withdrawals.append(position)
                if not request.answered and self.yields_to_cancel:
                    request.refuse_now(-32800, "Request cancelled")

    def _pending(self, id: JsonId, method: str) -> Pending:
        pending = Pending(self, id, method, len(self.received))
        self._asked.append(pending)
        return pending
