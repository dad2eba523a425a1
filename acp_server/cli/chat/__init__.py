"""`acp-server chat`: a conversation at the terminal with the built-in agent, or with any other.

conversation  prompts, turns, questions; commands, those of the chat itself
opening       the agent started, logged in, and a session opened
user          what a conversation needs of the user, and the user line by line; terminal, drawn; typed, the keys
live_screen   what is drawn

Here: the options, and one prompt for a script, with its exit status. The answer is on standard output, or everything
that happens as JSON, one object a line:

{"type": "session", "sessionId": ..., "agent": ...}
{"type": "update", "update": {...}}                       as the protocol has it
{"type": "permission", "request": {...}, "answer": ...}   the option's id; null for none
{"type": "result", "stopReason": ..., "text": ...}
{"type": "error", "message": ..., "code": ...}            in place of a result
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click

from acp_server.agent.log import entry
from acp_server.cli.chat import opening
from acp_server.cli.chat.commands import show_sessions
from acp_server.cli.chat.opening import LAST, Answer, Wishes
from acp_server.cli.chat.user import PlainUser, User
from acp_server.cli.screen import Screen, clean, use_standard_output
from acp_server.cli.target import agent_command
from acp_server.client import LocalTerminals, RemoteAgent, allow_once, reject_once
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, AuthRequired, RequestCancelled, RpcError, UsageError
from acp_server.schema import (
    AgentMessageChunk,
    PermissionOption,
    RequestPermissionRequest,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallUpdate,
)
from acp_server.wire import codec


class Exit(IntEnum):
    """The exit status. 2, for a mistake on the command line, is the same for every command."""

    DONE = 0
    """The user has left, or the one prompt has been answered to its end."""
    FAILED = 1
    """The agent died, answered with an error, or with something that cannot be read."""
    USAGE = 2
    """The command line is wrong, or the agent cannot be started."""
    REFUSED = 3
    """The agent refused the prompt (stop reason `refusal`)."""
    LIMIT = 4
    """The agent stopped at a limit (`max_tokens`, `max_turn_requests`), or for a reason that is not known."""
    LOGIN = 5
    """The agent wants the user to log in first."""
    CANCELLED = 130
    """Ctrl-C."""


_BY_REASON = {"end_turn": Exit.DONE, "refusal": Exit.REFUSED, "cancelled": Exit.CANCELLED}


def of_stop_reason(reason: str) -> Exit:
    """The exit status for the way in which the one turn ended."""
    return _BY_REASON.get(reason, Exit.LIMIT)


def of_error(error: AcpError) -> Exit:
    """The exit status for what went wrong."""
    if isinstance(error, UsageError):
        return Exit.USAGE
    if isinstance(error, AuthRequired):
        return Exit.LOGIN
    return Exit.CANCELLED if isinstance(error, RequestCancelled) else Exit.FAILED


_HELP = """Talk to an agent at the terminal: the built-in one, or the one that AGENT means.

AGENT is a Python file (agent.py, agent.py:attribute), a module (module:attribute), or a command with its arguments.

Ctrl-C stops what the agent is doing; at the prompt it leaves, as does Ctrl-D. /help lists what can be typed.

\b
Exit status: 0 the user has left, or the prompt is answered; 1 the agent failed;
2 wrong usage, or the agent cannot be started; 3 the agent refused; 4 it stopped
at a limit; 5 it wants a login; 130 Ctrl-C. With -p all of them, else 0, 1, 2, 5
and 130."""


@click.command(context_settings={"allow_interspersed_args": False}, help=_HELP)
@click.option(
    "--cwd", type=click.Path(exists=True, file_okay=False), default=".", help="The session's folder; here by default."
)
@click.option("-p", "--prompt", metavar="TEXT", help="Send one prompt, print the answer, and end; - reads it.")
@click.option("--json", "as_json", is_flag=True, help="With -p: print everything that happens as JSON, one a line.")
@click.option("--yes", is_flag=True, help="Allow whatever the agent asks for.")
@click.option("--deny", is_flag=True, help="Refuse whatever the agent asks for.")
@click.option("--resume", metavar="ID", help="Go on with a session: its id, the beginning of it, or `last`.")
@click.option("--continue", "last", is_flag=True, help="The same as --resume last.")
@click.option("--sessions", is_flag=True, help="List the agent's sessions of the folder, and end.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Record both directions in this file; `acp-server trace` shows it.",
)
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    help="The version of the protocol to speak; by default 1, or 2 if the agent does not have 1.",
)
@click.option("--plain", is_flag=True, help="One line after the other, also where the terminal can be drawn on.")
@click.argument("agent", nargs=-1, type=click.UNPROCESSED)
def chat(
    cwd: str,
    prompt: str | None,
    as_json: bool,
    yes: bool,
    deny: bool,
    resume: str | None,
    last: bool,
    sessions: bool,
    record: Path | None,
    protocol: str | None,
    plain: bool,
    agent: tuple[str, ...],
) -> int:
    """See `_HELP`."""
    use_standard_output()
    if as_json and prompt is None and not sessions:
        raise UsageError("--json goes with -p or --sessions")
    if yes and deny:
        raise UsageError("--yes and --deny exclude each other")
    if prompt is not None and sessions:
        raise UsageError("-p and --sessions exclude each other")
    answer: Answer = "yes" if yes else "no" if deny or prompt is not None else "ask"
    command = agent_command(agent)
    if command.is_served_here:
        _check_order(agent)
    wishes = Wishes(
        command,
        os.path.abspath(cwd),
        resume=LAST if last else resume,
        record=record,
        answer=answer,
        protocol=None if protocol is None else 1 if protocol == "1" else 2,
    )
    if sessions:
        return _run(partial(list_sessions, wishes, as_json=as_json))
    if prompt is not None:
        text = sys.stdin.read() if prompt == "-" else prompt
        return _run(partial(one_shot, wishes, text, as_json=as_json))

    from acp_server.cli.chat.conversation import Conversation

    async def talk() -> int:
        return await Conversation(_user(plain), wishes).run()

    return _run(talk)


def _check_order(agent: tuple[str, ...]) -> None:
    """Behind a file or a module stand options of `serve`. Raises UsageError for those of the chat."""
    from acp_server.cli.commands import serve

    known = {word for param in serve.params for word in param.opts}
    ours = {word for param in click.get_current_context().command.params for word in param.opts} - known
    for word in agent[1:]:
        if word.partition("=")[0] in ours:
            raise UsageError(f"{word} is an option of the chat: it goes before {agent[0]}")


def _run(what: Any) -> int:
    try:
        return int(anyio.run(what))
    except KeyboardInterrupt:
        return 130


def _user(plain: bool) -> User:
    if not plain and os.isatty(0) and os.isatty(1) and os.environ.get("TERM", "") not in ("", "dumb", "unknown"):
        try:
            from acp_server.cli.chat.terminal import TerminalUser
        except ModuleNotFoundError:
            pass  # without the extra `chat`
        else:
            return TerminalUser()
    return PlainUser()


async def one_shot(wishes: Wishes, text: str, *, as_json: bool) -> Exit:
    """Have the prompt answered. Questions are answered as `wishes` say, and with no if they say nothing of it."""
    out = _Json() if as_json else _Text()
    try:
        async with _agent(wishes, out) as agent:
            name = await opening.initialized(agent, wishes)
            session = await opening.open_session(agent, wishes, lambda _: None)
            out.session(session.id, name)
            session.on_update = out.update
            answer = await session.run(text)
            out.result(answer.stop_reason)
            return of_stop_reason(answer.stop_reason)
    except AcpError as error:
        out.error(opening.without_last_words(error))
        return of_error(error)


async def list_sessions(wishes: Wishes, *, as_json: bool) -> Exit:
    """Show the agent's sessions of the folder."""
    out = _Json() if as_json else _Text()
    try:
        async with _agent(wishes, out) as agent:
            await opening.initialized(agent, wishes)
            known = await opening.sessions(agent, wishes.cwd)
            if as_json:
                for info in known:
                    _write_json({"type": "session", **info.to_wire()})
            else:
                show_sessions(Screen(), known)
            return Exit.DONE
    except AcpError as error:
        out.error(opening.without_last_words(error))
        return of_error(error)


@asynccontextmanager
async def _agent(wishes: Wishes, out: _Text | _Json) -> AsyncGenerator[RemoteAgent]:
    async def permission(request: RequestPermissionRequest) -> PermissionAnswer:
        answer = await (allow_once if wishes.answer == "yes" else reject_once)(request)
        out.permission(request, answer if isinstance(answer, PermissionOption) else None)
        return answer

    async with opening.started(wishes, permission, LocalTerminals(), _complain) as agent:
        yield agent


def _complain(line: str) -> None:
    sys.stderr.write(entry(line))


class _Text:
    """What the agent says, on standard output; all else on standard error."""

    def __init__(self) -> None:
        self._line_start = True

    def session(self, id: str, name: str) -> None:
        """The session is open."""

    def update(self, update: SessionUpdate) -> None:
        """The agent says or does something."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            self._write(clean(update.content.text))
        elif isinstance(update, ToolCall | ToolCallUpdate) and update.title is not None:
            _complain(f"* {update.title}")

    def permission(self, request: RequestPermissionRequest, answer: PermissionOption | None) -> None:
        """The agent has asked, and was answered."""
        what = request.tool_call.title or request.tool_call.tool_call_id
        _complain(f"? {what}: {'none' if answer is None else answer.name}")

    def result(self, reason: str) -> None:
        """The turn is over."""
        self._end_line()
        if reason != "end_turn":
            _complain(f"({reason})")

    def error(self, error: AcpError) -> None:
        """There is no result."""
        self._end_line()
        _complain(f"acp-server: {error}")

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._line_start:
            self._write("\n")


class _Json:
    """Everything, on standard output."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def session(self, id: str, name: str) -> None:
        """See `_Text`."""
        _write_json({"type": "session", "sessionId": id, "agent": name})

    def update(self, update: SessionUpdate) -> None:
        """See `_Text`."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            self._said.append(update.content.text)
        _write_json({"type": "update", "update": update.to_wire()})

    def permission(self, request: RequestPermissionRequest, answer: PermissionOption | None) -> None:
        """See `_Text`."""
        chosen = None if answer is None else answer.option_id
        _write_json({"type": "permission", "request": request.to_wire(), "answer": chosen})

    def result(self, reason: str) -> None:
        """See `_Text`."""
        _write_json({"type": "result", "stopReason": reason, "text": "".join(self._said)})

    def error(self, error: AcpError) -> None:
        """See `_Text`."""
        code = error.code if isinstance(error, RpcError) else None
        _write_json({"type": "error", "message": str(error), "code": code})


def _write_json(value: dict[str, Any]) -> None:
    sys.stdout.write(codec.encode(value).decode())
    sys.stdout.flush()
