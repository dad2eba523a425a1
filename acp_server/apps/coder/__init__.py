"""The built-in agent: searches, reads, counts, edits and runs commands in a real project directory, without a network.

Its engines (`search`, `read`, `scan`, with `roots`, `walk` and `commands`) do not know the protocol. They are plain
generators that `batches` runs in a worker thread. `report`, `change` and `run` are the tools for the commands. This
module connects the commands with the tools. `model_agent` is the same agent driven by a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp_server import Agent, Call, Session, Turn, __version__
from acp_server.apps.coder import change, report, run
from acp_server.apps.coder.commands import (
    COMMANDS,
    EditCommand,
    ReadCommand,
    RunCommand,
    ScanCommand,
    SearchCommand,
    WriteCommand,
    find_command,
    help_text,
    wrong,
)
from acp_server.apps.coder.roots import Refusal, open_roots
from acp_server.session.typed import EMPTY, entitle, is_empty, typed
from acp_server.tools.approval import for_users

if TYPE_CHECKING:
    from acp_server import Tool

agent: Agent = Agent("acp-server", version=__version__, title="acp-server workspace", accepts=["embedded_context"])

_SEARCH = agent.tool(kind="search", title=report.search_title)(report.search)
_READ = agent.tool(kind="read", title=report.read_title)(report.read)
_SCAN = agent.tool(kind="read", title=report.scan_title)(report.scan)
_EDIT = agent.tool(
    name="edit",
    kind="edit",
    title=change.edit_title,
    approval=change.ask_edit,
    approval_key=change.always_changed,
    auto_approve=True,
)(change.edit_and_say)
_WRITE = agent.tool(
    name="write",
    kind="edit",
    title=change.write_title,
    approval=change.ask_write,
    approval_key=change.always_changed,
    auto_approve=True,
)(change.write_and_say)
_RUN = agent.tool(
    kind="execute", title=run.run_title, approval=run.ask_run, approval_key=run.always_run, auto_approve=True
)(run.run)


@agent.authenticate("none", name="Go on", description="No login is needed: everything stays on this machine.")
async def no_login(_call: Call) -> None:
    """Accept every login. The agent has a login method because the registry of agents requires one."""


@agent.session
async def prepare(session: Session) -> None:
    """Determine the directories of the session, and offer the commands."""
    from acp_server.schema import AvailableCommand, UnstructuredCommandInput

    await open_roots(session)
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


@agent.prompt
async def prompt(turn: Turn) -> None:
    """Run one command. If the command is refused, the user sees the reason. Any other text is answered with help."""
    await entitle(turn)
    try:
        match find_command(typed(turn)):
            case SearchCommand(pattern, paths):
                await report.show_search(turn, _SEARCH, pattern, paths or [None])
            case ReadCommand(target):
                await _do(turn, _READ, target=target)
            case ScanCommand(path):
                await _do(turn, _SCAN, **({} if path is None else {"path": path}))
            case EditCommand(path, old, new):
                await _do(turn, _EDIT, path=path, old=old, new=new)
            case WriteCommand(path, content):
                await _do(turn, _WRITE, path=path, content=_attached(turn) if content is None else content)
            case RunCommand(command):
                await run.show_run(turn, _RUN, command)
            case None if is_empty(turn):
                await turn.say(f"{EMPTY} `/help` says what I can do.\n")
            case None:
                await turn.say(f"I carry out commands and do not chat. This is what I can do:\n\n{help_text()}\n")
            case _:
                await turn.say(f"{help_text()}\n")
    except Refusal as refusal:
        await turn.say(f"{refusal}\n")


async def _do(turn: Turn, tool: Tool[Any], **arguments: Any) -> None:
    result = await turn.run_tool(tool, arguments)
    if result.message and (result.status == "failed" or tool.approval):
        await turn.say(f"{for_users(result.message)}\n")


def _attached(turn: Turn) -> str:
    """Return the text of the file that comes with the prompt. Raises Refusal if there is not exactly one file."""
    from acp_server.schema import EmbeddedResource, TextResourceContents

    resources = [content.resource for content in turn.prompt if isinstance(content, EmbeddedResource)]
    texts = [resource.text for resource in resources if isinstance(resource, TextResourceContents)]
    if len(texts) != 1:
        raise wrong("The text is missing" if not texts else "There is more than one attached file", "write")
    return texts[0]
