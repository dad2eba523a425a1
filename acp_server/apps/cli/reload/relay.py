"""Forwards messages between client and agent, and replaces the agent's process when its code has changed.

A process is replaced when it owes the client no response. Meanwhile the requests of the client are buffered for the new
process. First the relay sends the state of the old process to the new process, and keeps the responses to itself.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Final, Literal, cast

import anyio

from acp_server.agent.log import standard_error
from acp_server.agent.record import LONGEST_LINE
from acp_server.apps.cli.reload.conversation import Conversation
from acp_server.errors import INTERNAL_ERROR
from acp_server.peer.stream import Stream
from acp_server.processes.child import ChildProcess
from acp_server.wire import codec
from acp_server.wire.framing import Line, LineFramer, TooLong
from acp_server.wire.messages import Notification, Request, RequestId, Response, classify

logger: logging.Logger = logging.getLogger("acp_server.apps.cli")

_MOST_HELD: Final = 16 * 1024 * 1024
"""The most bytes from the client that are buffered for a new process. Beyond that the client's input is not read
(backpressure)."""
_END: Final = 15.0
"""Seconds in which the agent's output is still forwarded after the agent's input was closed. By then the agent has
ended, because of its `Limits`."""
_LAST_WRITE: Final = 5.0
"""Seconds that the client has, at the very end, to read the output of a process."""
_REFUSAL: Final = "The agent has ended. It starts again when its code changes. Its log says why."
_LOST: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Relay:
    """One client, and successive processes that `command` starts."""

    def __init__(self, client: Stream, command: Sequence[str]) -> None:
        self._client = client
        self._writing = anyio.Lock()
        self._command = command
        self._conversation = Conversation()
        self._news = anyio.Event()
        self._state: Literal["starting", "running", "ended"] = "starting"
        self._held: deque[tuple[Line, Any]] = deque()
        self._held_bytes = 0
        self._changed: Sequence[str] = ()
        """The files that have changed since the last process was started."""
        self._over = False
        """Whether the client is gone, or a signal ends the relay."""
        self._agent: ChildProcess | None = None
        self._gone = False
        """Whether the agent's output has ended."""
        self._signals: set[int] = set()
        self.code = 0
        """The exit code of the last process, in the form that a shell uses."""
        self._ids = count(1)
        self._waiting: dict[RequestId, tuple[anyio.Event, list[Response]]] = {}
        """Requests of this relay to the process."""
        self._reopened: str | None = None
        """The session that is being opened again. The client knows its history, so its updates are dropped."""

    async def run(self) -> None:
        """Serve until the client is gone, or a signal ends it."""
        async with anyio.create_task_group() as tasks:
            if sys.platform != "win32":
                tasks.start_soon(self._pass_signals_on)
            tasks.start_soon(self._listen)
            while not self._over:
                await self._serve_with_one_process()
            tasks.cancel_scope.cancel()

    def change(self, files: Sequence[str]) -> None:
        """Record that `files` have changed. A new process serves as soon as no request of the client is open and no
        turn runs."""
        self._changed = files
        when = "" if self._conversation.is_quiet else " when it has answered"
        logger.warning("%s changed, so the agent is restarted%s", _names(files), when)
        self._tell()

    # -- what happens

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._news.wait()

    def _serves(self, state: Literal["running", "ended"]) -> None:
        self._state = state
        self._tell()

    def _end(self) -> None:
        self._over = True
        self._tell()

    async def _pass_signals_on(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as numbers:
            async for number in numbers:
                self._signals.add(number)
                if self._agent is not None and self._agent.exit_code is None:
                    with suppress(ProcessLookupError):  # it has just ended
                        os.kill(self._agent.pid, number)
                if number != signal.SIGINT or self._state == "ended":
                    self.code = 128 + number
                    self._end()

    # -- one process

    async def _serve_with_one_process(self) -> None:
        self._changed, self._gone = (), False
        self._state = "starting"
        agent = self._agent = await ChildProcess.start(self._command, on_stderr=standard_error().write)
        hearing, starting = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear, agent, hearing)
            tasks.start_soon(self._bring_up, agent, starting)
            await self._until(lambda: self._gone or self._over or bool(self._changed and self._conversation.is_quiet))
            if not self._over:
                self._state = "starting"
            starting.cancel()
            await agent.stream.aclose()
            with anyio.move_on_after(_END):
                await self._until(lambda: self._gone)
            if not self._gone:
                agent.kill()
            # The client gets all output of the process, however slow it reads, unless the relay ends.
            await self._until(lambda: self._gone or self._over)
            with anyio.move_on_after(_LAST_WRITE):
                await self._until(lambda: self._gone)
            hearing.cancel()
        await agent.aclose()
        self._agent = None
        await self._finish_with_client()
        code = _as_shell(agent.exit_code)
        self.code: int = code
        if any(code == 128 + number for number in self._signals):
            self._end()
        if not self._over and not self._changed:
            logger.error("the agent has ended with exit code %d; it is restarted when its code changes", code)
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        self._serves("ended")
        async with self._patience():
            while self._held:
                await self._refuse(self._held.popleft()[1])
        self._held_bytes = 0
        await self._until(lambda: self._over or bool(self._changed))

    async def _bring_up(self, agent: ChildProcess, scope: anyio.CancelScope) -> None:
        with scope:
            await self._replay(agent)
            # If the process has to end already, the rest stays buffered for the next one.
            while self._held and not scope.cancel_called:
                line, value = self._held.popleft()
                self._held_bytes -= len(line)
                await self._to_agent(line, value)
            if not scope.cancel_called:
                self._serves("running")

    async def _replay(self, agent: ChildProcess) -> None:
        """Send the state of the previous process to a new process."""
        talk = self._conversation
        if talk.initialize is None:
            return
        offered = (await self._ask(agent, talk.initialize.method, talk.initialize.params)).result
        if not isinstance(offered, dict):
            logger.warning("the new process of the agent refuses initialize")
            return
        offered = cast("dict[str, Any]", offered)
        if offered != talk.offered:
            logger.warning("the agent's capabilities have changed; a client sees them when it connects again")
            talk.offered = offered
        if talk.login is not None:
            await self._ask(agent, talk.login.method, talk.login.params)
        method, kept = talk.reopening(offered), 0
        if method is not None:
            for session, params in list(talk.sessions.items()):
                self._reopened = session
                kept += (await self._ask(agent, method, params)).error is None
        logger.warning("the agent was restarted; %d of %d sessions continue", kept, len(talk.sessions))

    async def _ask(self, agent: ChildProcess, method: str, params: Any) -> Response:
        """Send a request of this relay; returns the response. The wait is cancelled if the process ends without a
        response."""
        id = f"reload-{next(self._ids)}"
        answered, answers = self._waiting[id] = anyio.Event(), []
        request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        try:
            await _send_to(agent, codec.encode(request))
            await answered.wait()
        finally:
            del self._waiting[id]
        (answer,) = answers
        if answer.error is not None:
            logger.warning("%s failed in the new process of the agent: %s", method, answer.error.get("message"))
        return answer

    async def _finish_with_client(self) -> None:
        """Answer the client's open requests with an error, and withdraw the requests of the process."""
        left, asked = self._conversation.forget_process()
        async with self._patience():
            for id in left:
                await self._to_client(codec.encode(_refusal(id)))
            for id in asked:
                withdrawal = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}
                await self._to_client(codec.encode(withdrawal))

    @asynccontextmanager
    async def _patience(self) -> AsyncGenerator[None]:
        """Enter a block that writes to the client, however slowly it reads. Once the relay ends, the client has
        `_LAST_WRITE` seconds."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hurry, tasks.cancel_scope)
            yield
            tasks.cancel_scope.cancel()

    async def _hurry(self, scope: anyio.CancelScope) -> None:
        await self._until(lambda: self._over)
        scope.deadline = anyio.current_time() + _LAST_WRITE

    # -- from the client

    async def _listen(self) -> None:
        framer = LineFramer(LONGEST_LINE)
        try:
            while data := await self._client.receive():
                for line in framer.feed(data):
                    await self._client_says(line)
            if (rest := framer.finish()) is not None:
                await self._client_says(rest)
        except _LOST as error:
            logger.warning("cannot read from the client: %s", error)
        self._end()

    async def _client_says(self, line: Line) -> None:
        value = _decoded(line)
        if self._state == "running" or isinstance(classify(value), Response):
            # A new process may send requests while the relay replays the state.
            await self._to_agent(line, value)
        elif self._state == "starting":
            self._held.append((line, value))
            self._held_bytes += len(line)
            if self._held_bytes > _MOST_HELD:
                await self._until(lambda: self._state != "starting")
        else:
            await self._refuse(value)

    async def _to_agent(self, line: Line, value: Any) -> None:
        said = self._conversation.from_client(value)
        if self._agent is None or isinstance(line, TooLong) or (said is None and value is not None):
            return
        await _send_to(self._agent, bytes(line) + b"\n" if said is value else codec.encode(said))

    async def _refuse(self, value: Any) -> None:
        messages = cast("list[Any]", value) if isinstance(value, list) else [value]
        answers = [_refusal(each.id) for each in map(classify, messages) if isinstance(each, Request)]
        if answers:
            await self._to_client(codec.encode(answers if isinstance(value, list) else answers[0]))

    # -- from the agent

    async def _hear(self, agent: ChildProcess, scope: anyio.CancelScope) -> None:
        framer = LineFramer(LONGEST_LINE)
        with scope:
            while data := await agent.stream.receive():
                await self._to_client(b"".join(map(self._agent_says, framer.feed(data))))
        self._gone = True
        self._tell()

    def _agent_says(self, line: Line) -> bytes:
        """Return the bytes for the client."""
        value = _decoded(line)
        if self._is_for_us(value) or isinstance(line, TooLong):
            return b""
        said = self._conversation.from_agent(value)
        self._tell()
        if said is None and value is not None:
            return b""
        return bytes(line) + b"\n" if said is value else codec.encode(said)

    def _is_for_us(self, value: Any) -> bool:
        match classify(value):
            case Response(id=str() as id) as answer if id in self._waiting:
                answered, answers = self._waiting[id]
                answers.append(answer)
                answered.set()
                # Updates after the response are news, such as the current commands.
                self._reopened = None
                return True
            case Notification(method="session/update", params={"sessionId": session}):
                return session is not None and session == self._reopened
            case _:
                return False

    async def _to_client(self, data: bytes) -> None:
        if not data:
            return
        try:
            async with self._writing:
                await self._client.send(data)
        except _LOST:
            self._end()


async def _send_to(agent: ChildProcess, data: bytes) -> None:
    try:
        await agent.stream.send(data)
    except _LOST:
        pass  # it has ended, and what it owes is answered when its output has been read


def _decoded(line: Line) -> Any:
    """Return the value of a line; None if it is not JSON. Such a line is forwarded unchanged."""
    if isinstance(line, TooLong):
        logger.warning("dropped a line of more than %d bytes", LONGEST_LINE)
        return None
    try:
        return codec.decode(line)
    except codec.DecodeError:
        return None


def _refusal(id: RequestId) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": _REFUSAL}}


def _names(files: Sequence[str]) -> str:
    shown = ", ".join(os.path.relpath(file) for file in files[:3])
    return shown if len(files) <= 3 else f"{shown} and {len(files) - 3} more"


def _as_shell(code: int | None) -> int:
    return 1 if code is None else code if code >= 0 else 128 - code
