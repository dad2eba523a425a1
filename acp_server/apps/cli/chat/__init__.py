"""`acp-server chat`: a conversation at the terminal with the built-in agent, or with any other.

conversation  prompts, turns, questions; commands, the commands of the chat itself
opening       the agent started, logged in, and a session opened
user          the interface to the user, and the user line by line; terminal, drawn; typed, the keys
live_screen   the output that is drawn
one_shot      one prompt for a script; report, its output

Here: the options, and the exit status.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import click

from acp_server.apps.cli.chat.opening import LAST, Answer, Wishes
from acp_server.apps.cli.chat.user import PlainUser, User, readable
from acp_server.apps.cli.commands import record_option, serve
from acp_server.apps.cli.screen import use_standard_output
from acp_server.apps.cli.target import COMMAND as SERVE
from acp_server.apps.cli.target import AgentCommand, agent_command, is_address
from acp_server.errors import AcpError, AuthRequired, RequestCancelled, UsageError


class Exit(IntEnum):
    """The exit status of `chat`. The value 2 means a mistake on the command line, as for every command."""

    DONE = 0
    """The user has left, or the one prompt has been answered to its end."""
    FAILED = 1
    """The agent died, or answered with an error or with an unreadable message, or the output cannot be written."""
    USAGE = 2
    """The command line is wrong, or the agent cannot be started."""
    REFUSED = 3
    """The agent refused the prompt (stop reason `refusal`)."""
    LIMIT = 4
    """The agent stopped at a limit (`max_tokens`, `max_turn_requests`), or for an unknown reason."""
    LOGIN = 5
    """The agent wants the user to log in first."""
    CANCELLED = 130
    """Ctrl-C."""


_BY_REASON = {"end_turn": Exit.DONE, "refusal": Exit.REFUSED, "cancelled": Exit.CANCELLED}


def of_stop_reason(reason: str) -> Exit:
    """Return the exit status for the stop reason of the only turn."""
    return _BY_REASON.get(reason, Exit.LIMIT)


def of_error(error: AcpError) -> Exit:
    """Return the exit status for an error."""
    if isinstance(error, UsageError):
        return Exit.USAGE
    if isinstance(error, AuthRequired):
        return Exit.LOGIN
    return Exit.CANCELLED if isinstance(error, RequestCancelled) else Exit.FAILED


_HELP = """Talk to an agent at the terminal: the built-in one, or what AGENT means.

AGENT is a Python file (agent.py, agent.py:attribute), a module (module:attribute), or a command with its arguments.

Ctrl-C stops what the agent is doing; at the prompt it leaves, as does Ctrl-D. /help lists what can be typed.

\b
Exit status: 0 the user has left, or the prompt is answered; 1 the agent failed,
or nothing can be written; 2 wrong usage, or the agent cannot be started; 3 the
agent refused; 4 it stopped at a limit; 5 it wants a login; 130 Ctrl-C. With -p
all of them, else 0, 1, 2, 5 and 130."""


class _Chat(click.Command):
    """Options after an agent's command belong to the agent. Options after an address belong to `chat`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        found, _, _ = self.make_parser(ctx).parse_args([*args])
        words = found.get("agent")
        # Without words click has None, an empty tuple or its own marker, by its version.
        if isinstance(words, (tuple, list)) and words and is_address(cast("Sequence[str]", words)[0]):
            # Unknown options are for `acp-server connect`.
            ctx.allow_interspersed_args = ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)


# click keeps the help option of the first context, which has no parent where a shell asks for completions.
_CONTEXT = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}


@click.command(cls=_Chat, context_settings=_CONTEXT, help=_HELP)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The session's folder; by default the current one.",
)
@click.option(
    "-p",
    "--prompt",
    metavar="TEXT",
    help="Send one prompt, print the response, and end; - reads it from standard input.",
)
@click.option("--json", "as_json", is_flag=True, help="With -p: print everything that happens as JSON, one a line.")
@click.option("--yes", is_flag=True, help="Grant every permission request.")
@click.option("--deny", is_flag=True, help="Refuse every permission request.")
@click.option("--resume", metavar="ID", help="Resume a session: its id, the beginning of its id, or `last`.")
@click.option("--continue", "last", is_flag=True, help="The same as --resume last.")
@click.option("--mode", metavar="ID", help="Enter this mode before the first prompt.")
@click.option("--config", "options", metavar="ID=VALUE", multiple=True, help="Set this option before the first prompt.")
@click.option("--sessions", is_flag=True, help="List the agent's sessions of the folder, and end.")
@record_option
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    help="The version of the protocol to speak; by default 1, or 2 if the agent does not have 1.",
)
@click.option("--plain", is_flag=True, help="Print plain lines, even on a terminal that can be drawn on.")
@click.argument("agent", nargs=-1, type=click.UNPROCESSED)
def chat(
    cwd: str,
    prompt: str | None,
    as_json: bool,
    yes: bool,
    deny: bool,
    resume: str | None,
    last: bool,
    mode: str | None,
    options: tuple[str, ...],
    sessions: bool,
    record: Path | None,
    protocol: str | None,
    plain: bool,
    agent: tuple[str, ...],
) -> int:
    """See `_HELP`."""
    context = click.get_current_context()
    use_standard_output()
    if as_json and prompt is None and not sessions:
        raise UsageError("--json needs -p or --sessions")
    with _mistakes_as_json() if as_json else nullcontext():
        if yes and deny:
            raise UsageError("--yes and --deny cannot be used together")
        if last and resume is not None:
            raise UsageError("--continue and --resume cannot be used together")
        if prompt is not None and sessions:
            raise UsageError("-p and --sessions cannot be used together")
        answer: Answer = "yes" if yes else "no" if deny else "ask"
        command = agent_command(agent)
        if command.is_served_here:
            if not {*agent[1:]}.isdisjoint(context.help_option_names):
                # After an agent that `serve` runs, the words are options of `serve`. A user who asks for help means
                # `chat`.
                click.echo(context.get_help())
                return 0
            _check_order(agent)
            _check_served(agent, command)
        pairs = [_pair(option) for option in options]
        text = None if prompt is None else _prompt(prompt)
    wishes = Wishes(
        command,
        os.path.abspath(cwd),
        resume=LAST if last else resume,
        record=record,
        answer=answer,
        protocol=None if protocol is None else 1 if protocol == "1" else 2,
        mode=mode,
        options=pairs,
    )
    from acp_server.apps.cli.chat.one_shot import OneShot, list_sessions

    if sessions:
        return _run(partial(list_sessions, wishes, as_json=as_json))
    if text is not None:

        async def ask() -> int:
            return await OneShot(wishes, text, as_json=as_json).run()

        return _run(ask)

    from acp_server.apps.cli.chat.conversation import Conversation

    async def talk() -> int:
        return await Conversation(_user(plain), wishes).run()

    return _run(talk)


def _pair(option: str) -> tuple[str, str]:
    id, equals, value = option.partition("=")
    if not (id and equals):
        raise UsageError(f"--config must be ID=VALUE, not {option!r}")
    return id, value


def _prompt(given: str) -> str:
    """Return the text of the prompt. Raises UsageError if the prompt should be read from standard input, which is
    closed."""
    if given != "-":
        return readable(given)
    if not sys.stdin:  # which is None if the descriptor was closed when Python started
        raise UsageError("-p - reads the prompt from standard input, which is closed")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return readable(sys.stdin.read())


def _check_order(agent: tuple[str, ...]) -> None:
    """Check that no option of `chat` comes after a file or a module. Options there belong to `serve`. Raises
    UsageError."""
    known = {word for param in serve.params for word in param.opts}
    ours = {word for param in click.get_current_context().command.params for word in param.opts} - known
    for word in agent[1:]:
        if word.partition("=")[0] in ours:
            raise UsageError(f"{word} is an option of chat: write it before {agent[0]}")


def _check_served(agent: tuple[str, ...], command: AgentCommand) -> None:
    """Check the words for `serve` before it is started. Raises UsageError if it cannot read them."""
    try:
        # With our root as the parent: click takes the names of its help option from its first context, and keeps them.
        root = click.get_current_context().find_root()
        serve.make_context("serve", list(command.words[len(SERVE) :]), parent=root)
    except click.UsageError as error:
        what = error.format_message().rstrip(".")
        usage = f"acp-server chat [OPTIONS] {agent[0]} [OPTIONS OF serve]"
        raise UsageError(f"chat: {what}, behind {agent[0]}. Usage: {usage}") from None


@contextmanager
def _mistakes_as_json() -> Generator[None]:
    """Report a UsageError in this block as an object on standard output."""
    try:
        yield
    except UsageError as error:
        from acp_server.apps.cli.chat.report import JsonReport

        JsonReport().error(error)
        raise click.exceptions.Exit(Exit.USAGE) from None


def _run(what: Any) -> int:
    try:
        return int(anyio.run(what))
    except KeyboardInterrupt:
        return 130


def _user(plain: bool) -> User:
    if not plain and os.isatty(0) and os.isatty(1) and os.environ.get("TERM", "") not in ("", "dumb", "unknown"):
        try:
            from acp_server.apps.cli.chat.terminal import TerminalUser
        except ModuleNotFoundError:
            pass  # without the extra `chat`
        else:
            return TerminalUser()
    return PlainUser()
