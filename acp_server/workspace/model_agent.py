"""The built-in agent with a model: the tools of the workspace, driven by what a model makes of a user's message.

Which model there is and how it is talked to is the matter of `acp_server.integrations`.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from anyio import to_thread

from acp_server import __version__
from acp_server.agent.app import Agent
from acp_server.integrations.messages import cut
from acp_server.integrations.model import find_model
from acp_server.integrations.pydantic_ai import offer_models, prompt_handler
from acp_server.session.turn import Turn
from acp_server.workspace.disk import read_text
from acp_server.workspace.model_tools import add_tools
from acp_server.workspace.roots import Roots, entitle, open_roots
from acp_server.workspace.shown import Refusal

logger = logging.getLogger("acp_server.workspace")

INSTRUCTIONS: Final = "AGENTS.md"
"""The file in a session's directory that says how to work on the project."""

MOST_REQUESTS: Final = 200
"""To the model, for one message of the user."""

_BASICS: Final = """\
You work on the user's project, with tools that look into its files, change them and run commands. The user sees each \
call of a tool, and is asked before a file is changed or a command is run; what the user does not allow is not done, \
so do not try it again in another way. Look before you change: read what you edit, and keep to the style that is \
there. Change what was asked for and nothing else. Check what you have done, by the project's tests if there are some. \
Answer shortly, in Markdown, and say what you have not done or could not check.

The project's directory: {cwd}
{more}The system: {system}
"""


def model_agent(*models: str, base_url: str | None = None) -> Agent:
    """The built-in agent, driven by a model that is named as `PROVIDER:NAME`; on asyncio only. Of several the user
    chooses one in each session, and begins with the first. `base_url`: of another server than the provider's own.
    Sessions have the tools of their MCP servers where the extra `mcp` is installed. Raises UsageError, see
    `find_model`."""
    found = {model: find_model(model, base_url=base_url) for model in models}
    assistant = import_module("pydantic_ai").Agent(found[models[0]], instructions=_instructions)
    limits = import_module("pydantic_ai").UsageLimits(request_limit=MOST_REQUESTS)
    choice = found if len(found) > 1 else {}
    answer = prompt_handler(assistant, deps=_turn, usage_limits=limits, models=choice)
    agent = Agent(
        "acp-server",
        version=__version__,
        title=f"acp-server with {' or '.join(found)}",
        accepts=["image", "embedded_context"],
        mcp=find_spec("mcp") is not None,
    )
    add_tools(agent)
    offer_models(agent, list(choice))
    agent.session(open_roots)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await entitle(turn)
        await answer(turn)

    return agent


def _turn(turn: Turn) -> Turn:
    """What the instructions are made from."""
    return turn


async def _instructions(context: Any) -> str:
    """What the model is told before the conversation, found anew in each turn."""
    turn: Turn = context.deps
    roots: Roots = turn.session.data
    further = "".join(f"Another directory of it: {directory}\n" for directory in roots.directories[1:])
    basics = _BASICS.format(cwd=roots.cwd, more=further, system=sys.platform)
    project = await to_thread.run_sync(_of_project, roots)
    parts = [basics, f"{INSTRUCTIONS} of the project says:\n\n{project}" if project else ""]
    if turn.session.mcp_servers:
        parts.append(turn.session.mcp.instructions)
    return "\n".join(filter(None, parts))


def _of_project(roots: Roots) -> str:
    try:
        return cut(read_text(str(roots.resolve(INSTRUCTIONS)), INSTRUCTIONS) or "")
    except Refusal as refusal:
        logger.warning("the instructions of the project are not used: %s", refusal)
        return ""
