"""The parameters of a new session, and lists of sessions of several pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from acp_conformance.agent.subject import Agent
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import INVALID_PARAMS, begin, refused, session_of, short
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable
from acp_conformance.core.schema import announced

SETUP = "Session setup"
LIST = "Session list"
MANY = 12
"""Sessions of one folder. Real pages are longer; if one page holds them all, nothing can be tested."""


@case("v2-sessions/relative-directories", level=SHOULD, source=SOURCE, section=SETUP)
async def relative_directories(agent: Agent) -> None:
    """An additional directory that is not absolute is refused with -32602."""
    if not announced((await begin(agent)).get("capabilities") or {}, "session.additionalDirectories"):
        not_applicable("it does not announce session.additionalDirectories")
    params = {"cwd": str(agent.cwd), "additionalDirectories": ["some/folder"]}
    await refused(agent, "session/new", params, INVALID_PARAMS)


@case("v2-sessions/unknown-transport", level=MUST, source=SOURCE, section=SETUP)
async def unknown_transport(agent: Agent) -> None:
    """An MCP server with a transport that the agent does not support is refused with -32602."""
    await begin(agent)
    server = {"type": "_conformance/pigeon", "name": "far"}
    await refused(agent, "session/new", {"cwd": str(agent.cwd), "mcpServers": [server]}, INVALID_PARAMS)


@case("v2-sessions/bad-cursor", level=SHOULD, source=SOURCE, section=LIST)
async def bad_cursor(agent: Agent) -> None:
    """A cursor that the agent did not make is refused."""
    await session_of(agent)
    await (await agent.request("session/list", {"cursor": "_conformance-no-such-cursor"})).error()


@case("v2-sessions/pages", level=MUST, source=SOURCE, section=LIST, after="v2-sessions/list")
async def pages(agent: Agent) -> None:
    """Over all pages of a list each session is listed once, and the last page has no cursor."""
    folder = agent.cwd / "pages"
    folder.mkdir()
    made = [await session_of(agent, cwd=str(folder)) for _ in range(MANY)]
    found, number = await _listed(agent, str(folder))
    if number == 1:
        not_applicable(f"one page holds {len(found)} sessions")
    counts = Counter(str(each.get("sessionId")) for each in found)
    if twice := [id for id, count in counts.items() if count > 1]:
        fail(f"{len(twice)} sessions are listed more than once, the first is {short(twice[0])}")
    missing = [id for id in made if id not in counts]
    if missing and len(missing) < MANY:
        fail(f"{len(missing)} of {MANY} sessions are on no page, the first is {short(missing[0])}")


async def _listed(agent: Agent, folder: str) -> tuple[list[Mapping[str, Any]], int]:
    """The sessions of a folder over all pages, and the number of pages."""
    found: list[Mapping[str, Any]] = []
    asked: dict[str, object] = {"cwd": folder}
    for number in range(1, 2 * MANY + 1):
        result = await (await agent.request("session/list", asked)).result()
        page = result.get("sessions") if isinstance(result, dict) else None
        found += [each for each in page or () if isinstance(each, dict)]
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if cursor is None:
            return found, number
        asked = {"cwd": folder, "cursor": cursor}
    return fail(f"after {2 * MANY} pages for {MANY} sessions there is still a cursor")
