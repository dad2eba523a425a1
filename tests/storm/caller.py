"""A program that drives an agent: what it calls, and when it thinks better of it, is drawn by lot.

Each of its calls is held to its time and to the errors that the documentation has for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio

from acp_server.client import CancelUnanswered, Handlers, RemoteAgent, RemoteSession, RemoteTurn, SessionTaken
from acp_server.client.turn import CANCEL_SECONDS
from acp_server.errors import (
    CapabilityMissing,
    ConnectionClosed,
    InternalError,
    MalformedResponse,
    RequestTimeout,
    RpcError,
    UsageError,
)
from acp_server.schema import (
    CreateElicitationResponse,
    CreateTerminalResponse,
    ElicitationDeclineAction,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionRequest,
    SessionUpdate,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)

DOCUMENTED = (
    RpcError,
    ConnectionClosed,
    MalformedResponse,
    CancelUnanswered,
    RequestTimeout,
    SessionTaken,
    CapabilityMissing,
)
SLACK = 0.5
"""Seconds that what ends at once may take: some for each handler that all answers have to wait for."""
TIMES = (0.0, 0.001, 0.05, 1.0, 7.0, 20.0)


class _Left(Exception):
    """The program leaves a block by an error of its own."""


@dataclass
class TurnTaken:
    """What a program saw of a turn."""

    prompt: str
    session: str
    seen: list[int] = field(default_factory=list)
    is_whole: bool = False
    """Whether it was iterated over until its end, which was not a cancel."""


class Offers:
    """What the program offers: files, terminals, answers. They take their time, fail, or never come."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def handlers(self) -> Handlers:
        """All of them."""
        return Handlers(
            permission=self._permission,
            files=self,
            terminals=self,
            form=self._form,
            methods={"_echo": self._echo},
            notifications={"_note": self._note},
        )

    async def pause(self) -> None:
        """Take some time, or fail."""
        seconds = self._random.choice((None, 0.0, 0.0, 0.0, 0.1, 5.0, 1000.0))
        if seconds is not None:
            await anyio.sleep(seconds)
        if self._random.random() < 0.1:
            raise self._random.choice((ValueError("no"), InternalError("refused")))

    async def read_text_file(self, _request: Any, /) -> ReadTextFileResponse:
        await self.pause()
        return ReadTextFileResponse(content="x" * self._random.choice((1, 100_000)))

    async def write_text_file(self, _request: Any, /) -> None:
        await self.pause()

    async def create(self, _request: Any, /) -> CreateTerminalResponse:
        await self.pause()
        return CreateTerminalResponse(terminal_id="t")

    async def output(self, _request: Any, /) -> TerminalOutputResponse:
        return TerminalOutputResponse(output="x", truncated=False)

    async def wait_for_exit(self, _request: Any, /) -> WaitForTerminalExitResponse:
        await anyio.sleep_forever()
        raise AssertionError

    async def kill(self, _request: Any, /) -> None:
        await self.pause()

    async def release(self, _request: Any, /) -> None:
        await self.pause()

    async def aclose(self) -> None:
        await anyio.sleep(0.01)

    async def _permission(self, request: RequestPermissionRequest) -> PermissionOption | None:
        await self.pause()
        return self._random.choice((*request.options, None))

    async def _form(self, _request: Any) -> CreateElicitationResponse:
        await self.pause()
        return ElicitationDeclineAction()

    async def _echo(self, params: dict[str, Any]) -> Any:
        return params

    async def _note(self, _params: dict[str, Any]) -> None:
        await anyio.sleep(0.001)


class Caller:
    """One program. `complaints`: what took too long, or raised what it may not."""

    def __init__(self, agent: RemoteAgent, random: Random, backend: str) -> None:
        self.complaints: list[str] = []
        self.turns: list[TurnTaken] = []
        self._agent = agent
        self._random = random
        self._backend = backend

    async def run(self) -> None:
        """Some tasks side by side, each with a few calls."""
        await self._call("initialize", 60.0, lambda: self._agent.initialize(timeout=5.0))
        async with anyio.create_task_group() as group:
            for _ in range(self._random.randint(1, 4)):
                group.start_soon(self._some)

    async def _some(self) -> None:
        for _ in range(self._random.randint(1, 5)):
            sessions = list(self._agent.sessions.values())
            if sessions and self._random.random() < 0.7:
                await self._turn(self._random.choice(sessions))
            else:
                await self._other(sessions)

    async def _other(self, sessions: list[RemoteSession]) -> None:
        agent, random = self._agent, self._random
        id = f"s{random.randint(0, 5)}"
        on_update = random.choice((None, lambda _: None, _slowly))
        calls: list[Callable[[], Awaitable[Any]]] = [
            *([lambda: agent.new_session("/project", on_update=on_update)] * 6),
            lambda: agent.load_session(id, "/project", on_update=on_update),
            lambda: agent.resume_session(id, "/project"),
            agent.list_sessions,
            lambda: agent.close_session(id),
            lambda: agent.delete_session(id),
            lambda: agent.request("_any", {"x": 1}, timeout=random.choice((0.01, 1.0))),
        ]
        if sessions:
            session = random.choice(sessions)
            calls += [lambda: session.set_mode("m"), lambda: session.set_config_option("o", True), session.close]
        await self._call("a call", random.choice(TIMES), random.choice(calls))

    # -- turns

    async def _turn(self, session: RemoteSession) -> None:
        taken = TurnTaken(f"prompt {len(self.turns)}", session.id)
        self.turns.append(taken)
        ways = {
            "whole": self._take_whole,
            "cancel": self._cancel,
            "leave": self._leave,
            "raise": self._leave,
            "wait": self._wait,
            "run": self._run,
        }
        if self._backend == "asyncio":
            ways["native"] = self._native
        name = self._random.choice(list(ways))
        after = self._random.choice(TIMES)
        # Before it begins, it may have to wait for a turn that is being cancelled.
        patience = CANCEL_SECONDS + after + (CANCEL_SECONDS if name in ("cancel", "leave", "raise", "wait") else 0)
        limit = after if name in ("whole", "run") else 1000.0
        await self._call(name, limit, lambda: ways[name](session, taken, after), patience)

    async def _take_whole(self, session: RemoteSession, taken: TurnTaken, _after: float) -> None:
        async with session.prompt(taken.prompt) as turn:
            await self._iterate(turn, taken)
            taken.is_whole = not turn.cancelled and turn.stop_reason is not None

    async def _run(self, session: RemoteSession, taken: TurnTaken, _after: float) -> None:
        async def on_update(update: SessionUpdate) -> None:
            await anyio.lowlevel.checkpoint()
            _see(taken, update)

        await session.run(taken.prompt, on_update=on_update)

    async def _cancel(self, session: RemoteSession, taken: TurnTaken, after: float) -> None:
        async with anyio.create_task_group() as group, session.prompt(taken.prompt) as turn:

            async def cancel() -> None:
                await anyio.sleep(after)
                self._random.choice((turn, session)).cancel()

            group.start_soon(cancel)
            try:
                await self._iterate(turn, taken)
            finally:
                group.cancel_scope.cancel()

    async def _wait(self, session: RemoteSession, taken: TurnTaken, after: float) -> None:
        async with session.prompt(taken.prompt) as turn:
            with anyio.move_on_after(after):
                await turn.wait()
            turn.cancel()
            await turn.wait()

    async def _leave(self, session: RemoteSession, taken: TurnTaken, after: float) -> None:
        try:
            async with session.prompt(taken.prompt) as turn:
                with anyio.move_on_after(after):
                    await self._iterate(turn, taken)
                    return
                if self._random.random() < 0.5:
                    raise _Left
        except _Left:
            pass

    async def _native(self, session: RemoteSession, taken: TurnTaken, after: float) -> None:
        task = asyncio.ensure_future(session.run(taken.prompt))
        await asyncio.wait([task], timeout=after)
        task.cancel()
        began = anyio.current_time()
        try:
            await task
        except asyncio.CancelledError:
            pass
        finally:
            if anyio.current_time() - began > SLACK:
                self.complaints.append(f"a native cancel took {anyio.current_time() - began:.2f} s")

    async def _iterate(self, turn: RemoteTurn, taken: TurnTaken) -> None:
        async for update in turn:
            _see(taken, update)
            if self._random.random() < 0.1:
                await anyio.sleep(0.05)

    # -- every call

    async def _call(
        self, what: str, limit: float, call: Callable[[], Awaitable[Any]], patience: float | None = None
    ) -> None:
        began = anyio.current_time()
        try:
            with anyio.move_on_after(limit):
                await call()
        except DOCUMENTED:
            pass
        except ExceptionGroup as group:
            if group.split(DOCUMENTED)[1] is not None and group.split(UsageError)[1] is not None:
                self.complaints.append(f"{what} raised {group!r}")
        except UsageError as error:
            if not any(reason in str(error) for reason in ("still running", "is being closed")):
                self.complaints.append(f"{what} raised {error!r}")
        except Exception as error:
            self.complaints.append(f"{what} raised {error!r}")
        took = anyio.current_time() - began
        if took > min(limit, limit if patience is None else patience) + SLACK:
            self.complaints.append(f"{what} took {took:.2f} s")


def _see(taken: TurnTaken, update: SessionUpdate) -> None:
    data = update.to_wire()
    if data["sessionUpdate"] == "agent_message_chunk":
        taken.seen.append(int(data["content"]["text"]))


async def _slowly(_update: SessionUpdate) -> None:
    await anyio.sleep(0.01)
