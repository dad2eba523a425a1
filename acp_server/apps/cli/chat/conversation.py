"""A conversation: prompts of the user, turns of the agent, and questions, until the user or the agent leaves.

`acp_server.apps.cli.chat.user` shows the conversation, `acp_server.apps.cli.chat.opening` starts the agent.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup

from acp_server.apps.cli.chat import Exit, of_error, opening
from acp_server.apps.cli.chat.answers import Answers
from acp_server.apps.cli.chat.children import Children
from acp_server.apps.cli.chat.commands import OFFERED, LocalCommands
from acp_server.apps.cli.chat.opening import Wishes
from acp_server.apps.cli.chat.user import Interrupts, User
from acp_server.client import LocalTerminals, RemoteAgent, RemoteSession, allow_once, reject_once
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, AgentExited, AuthRequired, ConnectionClosed
from acp_server.schema import (
    AvailableCommandsUpdate,
    RequestPermissionRequest,
    SessionInfo,
    SessionUpdate,
    SubagentUpdate,
)


class Conversation:
    """One chat with one agent. A conversation has one session at a time."""

    def __init__(self, user: User, wishes: Wishes) -> None:
        self.user = user
        self.wishes = wishes
        self.agent: RemoteAgent | None = None
        self.session: RemoteSession | None = None
        self._screen = user.screen
        self._commands = LocalCommands(self)
        self._whole = anyio.CancelScope()
        self._exit = Exit.DONE
        self._at_prompt = False
        self._reading = anyio.CancelScope()
        self._gone = False
        """Whether the agent's process has ended."""
        self._stopping = False
        """Whether the user has stopped the current turn."""
        self._asking = anyio.Lock()
        """Held during a question to the user, so that there is one question at a time."""
        self._heard = False
        """Whether the agent has written to standard error. That text was shown."""
        self._last_line = ""
        self._repeated = 0

    async def run(self) -> Exit:
        """Talk until the user leaves, or the agent is gone. Raises CannotWrite if nothing can be shown any more."""
        signals = Interrupts()
        signals.take()
        try:
            with self._screen.output.needed():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(signals.deliver, self._signalled)
                    async with self.user.open(self._interrupted):
                        with self._whole:
                            await self._run(tasks)
                    tasks.cancel_scope.cancel()
        finally:
            signals.release()
        return self._exit

    async def _run(self, tasks: TaskGroup) -> None:
        try:
            self.user.waiting(f"starting {self.wishes.command.name}")
            terminals = LocalTerminals(on_output=self._screen.command_wrote)
            async with opening.started(self.wishes, self._permission, terminals, self._said) as agent:
                self.agent = agent
                self._children = Children(self._screen, agent)
                name = await opening.initialized(agent, self.wishes, opening.SHOWS)
                self._screen.line(f"{name}, in {self.wishes.cwd}", bold=True)
                self._screen.line("Ctrl-C stops a turn, Ctrl-D leaves.", dim=True)
                self.session = await self._opened(agent)
                self.user.waiting(None)
                self._offer()
                tasks.start_soon(self._watch, agent)
                await self._converse()
        except AcpError as error:
            self.user.waiting(None)
            self._screen.turn_over()
            if not opening.is_repeated(error, self._last_line):
                self._screen.error(opening.without_last_words(error) if self._heard else error)
            self._exit = of_error(error)

    async def _opened(self, agent: RemoteAgent) -> RemoteSession:
        try:
            return await opening.open_session(agent, self.wishes, self._updated)
        except AuthRequired as error:
            await opening.logged_in(agent, self._log_in, error)
            return await opening.open_session(agent, self.wishes, self._updated)

    async def _log_in(self, methods: Sequence[str]) -> int | None:
        self._screen.line("  ? Log in by", fg="magenta", bold=True)
        self._screen.answers(methods)
        return await self.user.choose(Answers(len(methods)))

    async def _converse(self) -> None:
        while (text := await self._next()) is not None:
            if text.strip() and not await self._commands.run(text.strip()):
                await self.turn(text.strip())

    async def _next(self) -> str | None:
        """Return the next prompt. Raises AgentExited if the agent is gone, or exits meanwhile.

        No other code runs between reading a prompt and beginning its turn, so Ctrl-C belongs either to the input or to
        the turn.
        """
        self._at_prompt = True
        try:
            with anyio.CancelScope() as self._reading:
                if not self._gone:
                    return await self.user.read()
        finally:
            self._at_prompt = False
        assert self.agent is not None
        assert self.agent.process is not None
        raise AgentExited(None, self.agent.process.exit_code, self.agent.process.stderr)

    async def _watch(self, agent: RemoteAgent) -> None:
        """End the conversation if the agent exits while the user types."""
        assert agent.process is not None
        await agent.process.last_words(math.inf)
        self._gone = True
        self._reading.cancel()

    async def turn(self, text: str) -> None:
        """Have the agent answer a prompt. An error is shown, unless the agent is gone."""
        assert self.session is not None
        self._stopping = False
        self.user.waiting("working")
        try:
            answer = await self.session.run(text)
        except ConnectionClosed:
            raise
        except AcpError as error:
            self._screen.turn_over()
            self._screen.error(error)
        else:
            self._screen.turn_over()
            if answer.stop_reason != "end_turn":
                self._screen.line(f"  ({answer.stop_reason})", fg="yellow")
        finally:
            self._say_repeated()
            self.user.waiting(None)

    async def load(self, info: SessionInfo | None) -> None:
        """Continue with another session, or with a new one."""
        assert self.agent is not None
        before = self.session
        self.user.waiting("opening the session")
        try:
            if info is None:
                self.session = await self.agent.new_session(self.wishes.cwd, on_update=self._updated)
            else:
                self.session = await opening.take_up(self.agent, info, self._updated)
        finally:
            self.user.waiting(None)
        self._screen.turn_over()
        if before is not None and before is not self.session:
            before.on_update = None
        self._offer()

    # -- what the agent does

    async def _updated(self, update: SessionUpdate) -> None:
        self._screen.update(update)
        if isinstance(update, SubagentUpdate):
            self._children.told(update)
        if isinstance(update, AvailableCommandsUpdate):
            self._offer()
        await self.user.keep_up()

    def _said(self, line: str) -> None:
        self._heard = True
        if line == self._last_line:
            # The user does not want to see the same line again and again.
            self._repeated += 1
            return
        self._say_repeated()
        self._last_line = line
        self._screen.line(line, dim=True)

    def _say_repeated(self) -> None:
        if self._repeated:
            self._screen.line(f"(the same {self._repeated:,} times more)", dim=True)
        self._last_line, self._repeated = "", 0

    async def _permission(self, request: RequestPermissionRequest) -> PermissionAnswer:
        async with self._asking:
            show_all = self._screen.question(request)
            if self.wishes.answer != "ask":
                return await self._answered_already(request)
            try:
                chosen = await self.user.choose(Answers.of(request.options), show_all)
            except BaseException:
                if not self._stopping:
                    self._screen.line("  (the agent does not ask for that any more)", fg="yellow")
                raise
            if chosen is None:
                self._screen.line("    none of them", dim=True)
                return None
            return request.options[chosen]

    async def _answered_already(self, request: RequestPermissionRequest) -> PermissionAnswer:
        answer = await (allow_once if self.wishes.answer == "yes" else reject_once)(request)
        said = "none of them" if answer is None else getattr(answer, "name", "")
        self._screen.line(f"    {said} (--{'yes' if self.wishes.answer == 'yes' else 'deny'})", fg="yellow")
        return answer

    def _offer(self) -> None:
        commands = [] if self.session is None else self.session.available_commands
        self.user.offer([*OFFERED, *self._commands.of_agent(commands)])

    # -- what the user does

    def _signalled(self, number: int) -> None:
        if number == signal.SIGINT:
            self._interrupted()
        else:
            self.leave(Exit.CANCELLED)

    def _interrupted(self) -> None:
        """Ctrl-C: stop the turn. Leave if no turn runs, or if the turn is already being stopped.

        At the prompt Ctrl-C takes back the prompts that were not read yet, or drops the draft, or leaves.
        """
        if self._at_prompt:
            if not (self.user.take_back() or self.user.discard_draft()):
                self.leave(Exit.DONE)
        elif self.session is not None and self.session.turn is not None and not self._stopping:
            self._stopping = True
            self._screen.line("  stopping ...", fg="yellow")
            self.user.take_back()
            self.session.cancel()
        else:
            self.leave(Exit.CANCELLED)

    def leave(self, code: Exit = Exit.DONE) -> None:
        """End the conversation."""
        self._exit = code
        self._whole.cancel()
