"""The built-in agent: `/search`, `/read`, `/scan`, `/help` on the session's directories, without a network.

It joins the commands with what shows them; what they find is the engines' matter.
"""

from __future__ import annotations

import os

from anyio import to_thread

from acp_server import __version__
from acp_server.agent.app import Agent
from acp_server.schema.updates import AvailableCommand, UnstructuredCommandInput
from acp_server.session.params import problem
from acp_server.session.session import Session
from acp_server.session.turn import Turn
from acp_server.workspace.commands import COMMANDS, ReadCommand, ScanCommand, SearchCommand, help_text, parse_command
from acp_server.workspace.refusal import Refusal
from acp_server.workspace.report import show_passage, show_scan, show_search
from acp_server.workspace.roots import Roots

agent = Agent("acp-server", version=__version__, title="acp-server workspace")


@agent.session
async def prepare(session: Session) -> None:
    """Find out where the session may look, and offer the commands."""
    session.data = await to_thread.run_sync(_roots, session.cwd, session.record.additional_directories)
    await session.set_commands(
        [
            AvailableCommand(
                name=command.name,
                description=command.description,
                input=UnstructuredCommandInput(hint=command.hint) if command.hint else None,
            )
            for command in COMMANDS
        ]
    )


def _roots(cwd: str, directories: list[str]) -> Roots:
    if not os.path.isdir(cwd):
        raise problem("cwd", "is not a directory")
    try:
        return Roots(cwd, directories)
    except (Refusal, ValueError):
        raise problem("additionalDirectories", "has a path that cannot exist here") from None


@agent.prompt
async def prompt(turn: Turn) -> None:
    """Carry out one command. What cannot be done is said in a sentence; anything that is no command gets help."""
    roots: Roots = turn.session.data
    try:
        command = parse_command(turn.text)
        if isinstance(command, SearchCommand):
            await show_search(turn, roots, command)
        elif isinstance(command, ReadCommand):
            await show_passage(turn, roots, command)
        elif isinstance(command, ScanCommand):
            await show_scan(turn, roots, command)
        elif command is None:
            await turn.say(f"I carry out commands and do not chat. This is what I can do:\n\n{help_text()}\n")
        else:
            await turn.say(f"{help_text()}\n")
    except Refusal as refusal:
        await turn.say(f"{refusal}\n")
