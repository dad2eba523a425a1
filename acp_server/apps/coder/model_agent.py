"""The built-in agent with a model, which answers the user's prompts and calls the workspace's tools.

The model and the requests to it are in `acp_server.integrations`. For a model the engines return their results as
bounded text. Users see the results with the call. `report` has the tools for users without a model. The tools that
change files are the same for both, in `change`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from anyio import to_thread

from acp_server import Agent, ToolContext, Turn, __version__
from acp_server.apps.coder import change, panel, report
from acp_server.apps.coder.batches import Batches
from acp_server.apps.coder.read import Passage, Reading, Skipped, read_text
from acp_server.apps.coder.roots import Refusal, Roots, open_roots
from acp_server.apps.coder.run import MOST_TOLD, Ended, always_run, ask_run, end_of, execute, run_title
from acp_server.apps.coder.search import Hit, Search
from acp_server.apps.coder.walk import files_below
from acp_server.integrations.messages import cut
from acp_server.integrations.model import find_model
from acp_server.integrations.pydantic_ai import MODEL, offer_models, prompt_handler
from acp_server.session.typed import EMPTY, entitle, is_empty
from acp_server.tools.output import Output

logger: logging.Logger = logging.getLogger("acp_server.apps.coder")

INSTRUCTIONS: Final = "AGENTS.md"
"""The file in a session's directory with instructions for the project."""

MOST_REQUESTS: Final = 200
"""The most requests to the model in one turn."""

_BASICS: Final = """\
You work on the user's project, with tools that look into its files, change them and run commands. The user sees each \
call of a tool, and is asked before a file is changed or a command is run; what the user does not allow is not done, \
so do not try it again in another way. Look before you change: read what you edit, and keep to the style that is \
there. Change what was asked for and nothing else. Check what you have done, by the project's tests if there are some. \
Answer shortly, in Markdown, and say what you have not done or could not check.
"""

_PLACE: Final = """\
The project's directory: {cwd}
{more}The system: {system}
"""


def model_agent(
    *models: str, base_url: str | None = None, pass_env: Sequence[str] = (), mcp_trusted: Sequence[str] = ()
) -> Agent:
    """Return the built-in agent, driven by a model named `PROVIDER:NAME`. It runs on asyncio only.

    If several models are given, the user chooses one in each session, and the first is the default. `base_url`: the URL
    of another server than the provider's. Commands get the environment without variables that the providers read, such
    as keys, except the names in `pass_env`. Sessions have the tools of their MCP servers if the extra `mcp` is
    installed; `mcp_trusted`: see `Agent`. Raises UsageError, see `find_model`.
    """
    reads: set[str] = set()
    found = {model: find_model(model, base_url=base_url, reads=reads) for model in models}
    agent = Agent(
        "acp-server-model",
        version=__version__,
        title=f"acp-server with {' or '.join(found)}",
        accepts=["image", "embedded_context"] if any(map(_takes_images, found.values())) else ["embedded_context"],
        mcp=find_spec("mcp") is not None,
        mcp_trusted=mcp_trusted,
        approvals=panel.ModeApprovals(),
        system_prompt="override",
        unstable={"fork", "title", "archive", "status", "options", "end_turn_usage"},
    )
    add_tools(agent, frozenset(reads.difference(pass_env)))
    offer_models(agent, list(found))
    panel.offer_thinking(agent, list(found.values()))
    panel.offer_modes(agent)
    agent.session(open_roots)
    assistant = import_module("pydantic_ai").Agent(found[models[0]])
    limits = import_module("pydantic_ai").UsageLimits(request_limit=MOST_REQUESTS)

    async def work(turn: Turn, command: str = "") -> None:
        await entitle(turn)
        if is_empty(turn):
            await turn.say(f"{EMPTY}\n")
        elif not _takes_images(found[str(turn.session.config(MODEL))]) and _has_images(turn):
            await turn.say("This model does not take images.\n")
        else:
            told = partial(_instructions, command=command)
            settings = panel.thinking
            answer = prompt_handler(assistant, usage_limits=limits, models=found, instructions=told, settings=settings)
            await answer(turn)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await work(turn)

    panel.add_commands(agent, work)
    return agent


def _takes_images(model: Any) -> bool:
    return model.profile.get("supports_image_input", True)


def _has_images(turn: Turn) -> bool:
    return any(block["type"] == "image" for block in turn.record.prompt)


async def _instructions(turn: Turn, command: str) -> str:
    """Return the instructions before the conversation. They are computed in each turn. The client may replace
    `_BASICS`. It cannot replace the rest: the project's directory and instructions, the mode, and the `command` that
    the user has typed."""
    roots: Roots = turn.session.data
    further = "".join(f"Another directory of it: {directory}\n" for directory in roots.directories[1:])
    place = _PLACE.format(cwd=roots.cwd, more=further, system=sys.platform)
    project = await to_thread.run_sync(_of_project, roots)
    mode = panel.PLANNING if turn.session.mode == panel.PLAN else ""
    parts = [turn.session.instructions(_BASICS), place, mode, command]
    parts.append(f"{INSTRUCTIONS} of the project says:\n\n{project}" if project else "")
    if turn.session.mcp_servers:
        parts.append(turn.session.mcp.instructions)
    return "\n".join(filter(None, parts))


def _of_project(roots: Roots) -> str:
    try:
        return cut(read_text(roots.place(INSTRUCTIONS)[1], INSTRUCTIONS) or "")
    except Refusal as refusal:
        logger.warning("the project's instructions for the model are ignored: %s", refusal)
        return ""


MOST_CHARACTERS: Final = 30_000
"""The most characters of one result. Models are paid for each of them, and again in each later request."""

MOST_HITS: Final = 200
MOST_FILES: Final = 1_000


def add_tools(agent: Agent, without: Collection[str] = ()) -> None:
    """Add the tools to the agent. `without`: the variables that commands do not get."""
    agent.tool(name="plan", kind="think", title="Update the plan")(panel.plan)
    agent.tool(name="list_files", kind="search", title=list_title)(list_files)
    agent.tool(name="search", kind="search", title=report.search_title)(search)
    agent.tool(name="read", kind="read", title=read_title)(read)
    agent.tool(
        name="edit",
        kind="edit",
        title=change.edit_title,
        approval=panel.outside_of_plans(change.ask_edit),
        approval_key=change.always_changed,
        auto_approve=True,
        description="Replace `old`, a text that is in the file `path` exactly once, by `new`. Take some lines around "
        "what changes, exactly as `read` shows them.",
    )(change.edit)
    agent.tool(
        name="write",
        kind="edit",
        title=change.write_title,
        approval=panel.outside_of_plans(change.ask_write),
        approval_key=change.always_changed,
        auto_approve=True,
        description="Make the file `path`, or replace all that is in it, by `content`.",
    )(change.write)

    async def run(command: str, call: ToolContext) -> Output:
        """Run a command of the shell in the project's directory, and wait for its end: what it prints, and how it ends.
        It gets no input. What it has started ends with it, except for processes that have left its process group."""
        return _printed(await execute(command, call, without))

    agent.tool(
        kind="execute",
        title=run_title,
        approval=panel.outside_of_plans(ask_run),
        approval_key=always_run,
        auto_approve=True,
    )(run)


def list_title(path: str | None = None) -> str:
    """Return the title of the call for the user."""
    return "List the files" if path is None else f"List the files in {report.quoted(path)}"


async def list_files(call: ToolContext, path: str | None = None) -> str:
    """List the files of the project, or the files below the directory `path`, without files that git ignores."""
    call.verbatim()
    roots: Roots = call.session.data
    found: list[str] = []
    _locate(call, path)
    with closing(Batches(_paths(roots, path))) as batches:
        async for batch in batches:
            found += map(roots.display, batch)
            if len(found) >= MOST_FILES:
                break
    return _lines(found, MOST_FILES, "files", "name a directory") or "There are no files."


def _locate(call: ToolContext, path: str | None) -> None:
    """Send the client the location. Raises Refusal."""
    if path is not None:
        roots: Roots = call.session.data
        report.locate(call, [(roots.place(path)[0], None)])


def _paths(roots: Roots, path: str | None) -> Generator[str | None]:
    for item in files_below(roots, path):
        yield None if isinstance(item, Skipped) else item


async def search(pattern: str, call: ToolContext, path: str | None = None) -> str:
    """Search the files of the project, or those below `path`, for a regular expression. `(?i)` at its beginning ignores
    case. Each hit is a line: path, number of the line, number of the column, text."""
    call.verbatim()
    roots: Roots = call.session.data
    _locate(call, path)
    # Compiling the largest patterns takes tens of milliseconds.
    engine = await to_thread.run_sync(Search, roots, pattern, path)
    hits: list[Hit] = []
    with closing(Batches(engine.run())) as batches:
        async for batch in batches:
            hits += batch
            report.locate(call, [(hit.path, hit.line) for hit in batch])
            if len(hits) >= MOST_HITS:
                break
    lines = [f"{roots.display(hit.path)}:{hit.line}:{hit.column}: {hit.text}" for hit in hits]
    words = _lines(lines, MOST_HITS, "hits", "look for something more special") or "There are no hits."
    if engine.gave_up:
        words += "\n[the pattern is too slow, so not all files were searched]"
    return words


def read_title(path: str, first_line: int | None = None, last_line: int | None = None) -> str:
    """Return the title of the call for the user."""
    return report.read_title(_target(path, first_line, last_line))


async def read(path: str, call: ToolContext, first_line: int | None = None, last_line: int | None = None) -> str:
    """Read a text file, or its lines from `first_line` to `last_line`, counted from 1. If the file is
    long, only the first part is shown, with the number of the next line to read."""
    call.verbatim()
    reading = Reading(call.session.data, _target(path, first_line, last_line))
    found = await to_thread.run_sync(reading.find)
    async for (passage,) in Batches(reading.run(await report.in_editor(call, found))):
        call.raw_output = {"first": passage.first, "last": passage.last}
        report.locate(call, [(passage.path, passage.first)])
        return _read(passage)
    raise RuntimeError("read() ended without returning a passage")


def _target(path: str, first_line: int | None, last_line: int | None) -> str:
    if first_line is None and last_line is None:
        return path
    return f"{path}:{1 if first_line is None else first_line}-{'' if last_line is None else last_line}"


def _read(passage: Passage) -> str:
    if not passage.text:
        return "The file is empty."
    text = passage.text
    if len(text) <= MOST_CHARACTERS:
        return text if passage.left_out is None else f"{text}\n[{passage.left_out}]"
    end = text.rfind("\n", 0, MOST_CHARACTERS)
    if end < 0:
        return f"{text[:MOST_CHARACTERS]}\n[line {passage.first} is cut here]"
    following = passage.first + text.count("\n", 0, end) + 1
    return f"{text[:end]}\n[more from line {following} on]"


def _printed(ended: Ended) -> Output:
    printed = end_of(ended.output, MOST_TOLD)
    # The output has been shown already.
    told = Output(f"{printed}\n[{ended}]".lstrip("\n"), said=True)
    told.text = str(ended)
    return told


def _lines(lines: list[str], most: int, what: str, advice: str) -> str:
    """Return as many of the lines as fit, joined by newlines."""
    room = MOST_CHARACTERS
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if number == most or room < 0:
            return "\n".join([*lines[:number], f"[there are more {what}: {advice}]"])
    return "\n".join(lines)
