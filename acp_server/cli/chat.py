"""`acp-server chat`: a conversation at the terminal with the built-in agent, or with any other.

The terminal is the main thread's, for that is where Python delivers Ctrl-C; the connection lives in an event loop in
another thread, which puts what happens into a queue.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

import anyio
import click
from anyio.from_thread import BlockingPortal, start_blocking_portal

from acp_server import __version__
from acp_server.cli.options import COMMAND
from acp_server.cli.screen import Screen, choose, use_standard_output
from acp_server.client import Handlers, Patience, RemoteAgent, RemoteSession, spawn_agent
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, AuthRequired, ConnectionClosed, UsageError
from acp_server.schema import AuthMethodAgent, Implementation, PromptResponse, RequestPermissionRequest, SessionUpdate

_WHO: Final = Implementation(name="acp-server", title="acp-server chat", version=__version__)

_PATIENCE: Final = Patience(closed=2, terminated=1)
"""A user who leaves sits and waits."""

_NOTICE: Final = 0.2
"""Seconds until an interrupt is noticed, at the latest."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--cwd", type=click.Path(exists=True, file_okay=False), default=".", help="The session's folder; here by default."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def chat(cwd: str, command: tuple[str, ...]) -> int:
    """Talk to an agent at the terminal: the built-in one, or the one that COMMAND starts.

    Ctrl-C stops what the agent is doing; at the prompt it leaves, as does Ctrl-D.
    """
    use_standard_output()
    try:
        import readline  # noqa: F401  # pyright: ignore[reportUnusedImport] - input() edits lines once it is there
    except ImportError:
        pass
    with start_blocking_portal() as portal:
        return _Chat(portal, command or COMMAND, os.path.abspath(cwd)).run()


@contextmanager
def _at_interrupt(handler: Callable[[int, FrameType | None], object]) -> Generator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Chat:
    def __init__(self, portal: BlockingPortal, command: Sequence[str], cwd: str) -> None:
        self._portal = portal
        self._command = command
        self._cwd = cwd
        self._screen = Screen()
        self._happened: SimpleQueue[Callable[[], object]] = SimpleQueue()
        """What the main thread is to do, in order."""
        self._interrupts = 0
        """How often the user has pressed Ctrl-C during the turn."""

    def run(self) -> int:
        handlers = Handlers(permission=self._permission)
        try:
            agents = spawn_agent(self._command, handlers, cwd=self._cwd, on_stderr=self._heard, patience=_PATIENCE)
            with self._portal.wrap_async_context_manager(agents) as agent:
                self._converse(self._open(agent))
        except OSError as error:
            raise UsageError(f"{self._command[0]} cannot be started: {error.strerror}") from None
        except AcpError as error:
            self._catch_up()
            self._screen.error(error)
            return 1
        self._screen.fresh()
        return 0

    # -- in the main thread

    def _open(self, agent: RemoteAgent) -> RemoteSession:
        info = self._portal.call(partial(agent.initialize, client_info=_WHO))
        who = info.agent_info
        name = "an agent without a name" if who is None else f"{who.title or who.name} {who.version}"
        self._screen.line(f"{name}, in {self._cwd}. Ctrl-C stops a turn, Ctrl-D leaves.", bold=True)
        new_session = partial(agent.new_session, self._cwd, on_update=self._updated)
        try:
            return self._portal.call(new_session)
        except AuthRequired:
            self._log_in(agent)
            return self._portal.call(new_session)

    def _log_in(self, agent: RemoteAgent) -> None:
        assert agent.info is not None
        methods = [method for method in agent.info.auth_methods if isinstance(method, AuthMethodAgent)]
        chosen = choose(self._screen, "Log in by", [method.name for method in methods]) if methods else None
        if chosen is None:
            raise AuthRequired
        self._portal.call(agent.authenticate, methods[chosen].id)

    def _converse(self, session: RemoteSession) -> None:
        while True:
            self._catch_up()
            self._screen.fresh()
            try:
                text = input("> ").strip()
            except (EOFError, KeyboardInterrupt):
                self._screen.line()
                return
            if text:
                self._turn(session, text)

    def _turn(self, session: RemoteSession, text: str) -> None:
        answers: list[PromptResponse] = []
        errors: list[AcpError] = []

        over = stopping = False

        def end() -> None:
            nonlocal over
            over = True

        async def drive() -> None:
            try:
                answers.append(await session.run(text))
            except AcpError as error:
                errors.append(error)
            self._happened.put(end)

        def interrupted(*_: object) -> None:
            self._interrupts += 1
            self._happened.put(lambda: None)

        self._interrupts = 0
        self._portal.start_task_soon(drive)
        # Not in the middle of what is being shown, and not behind all that is still to be shown.
        with _at_interrupt(interrupted):
            while not over:
                try:
                    self._next()()
                except KeyboardInterrupt:  # the user was being asked something
                    self._interrupts += 1
                if self._interrupts > 1:
                    raise KeyboardInterrupt
                if self._interrupts and not stopping:
                    stopping = True
                    # Behind the ^C that the terminal has shown.
                    self._screen.say("  stopping ...\n", fg="yellow")
                    self._portal.call(session.cancel)
        for error in errors:
            if isinstance(error, ConnectionClosed):
                raise error
            self._screen.error(error)
        for answer in answers:
            if answer.stop_reason != "end_turn":
                self._screen.line(f"  ({answer.stop_reason})", fg="yellow")

    def _next(self) -> Callable[[], object]:
        while True:
            try:
                # Not in one go: an interrupt just before the waiting (on Windows, any) is noticed only after it.
                return self._happened.get(timeout=_NOTICE)
            except Empty:
                continue

    def _catch_up(self) -> None:
        while not self._happened.empty():
            self._happened.get()()

    def _ask(self, request: RequestPermissionRequest, reply: Callable[[int | None], bool]) -> None:
        call = request.tool_call
        self._screen.update(call)
        # While the user types, an interrupt ends that at once.
        with _at_interrupt(signal.default_int_handler):
            if self._interrupts:
                return
            chosen = choose(self._screen, call.title or call.tool_call_id, [option.name for option in request.options])
        if not self._portal.call(reply, chosen):
            self._screen.line("  (the agent does not ask for that any more)", fg="yellow")

    # -- in the loop's thread

    def _updated(self, update: SessionUpdate) -> None:
        self._happened.put(lambda: self._screen.update(update))

    def _heard(self, line: str) -> None:
        self._happened.put(lambda: self._screen.line(line, dim=True))

    async def _permission(self, request: RequestPermissionRequest) -> PermissionAnswer:
        answered = anyio.Event()
        chosen: list[int] = []
        withdrawn = False

        def reply(index: int | None) -> bool:
            if index is not None:
                chosen.append(index)
            answered.set()
            return not withdrawn

        # Unless it has been withdrawn by the time that the user could be asked.
        self._happened.put(lambda: None if withdrawn else self._ask(request, reply))
        try:
            await answered.wait()
        finally:
            withdrawn = True
        return request.options[chosen[0]] if chosen else None
