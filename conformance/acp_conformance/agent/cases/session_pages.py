"""Lists of sessions that have several pages, and the replay of conversations of several turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from acp_conformance.agent.cases.sessions import end
from acp_conformance.agent.cases.sessions_known import LIST, LOADING, capable, reopen
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Update
from acp_conformance.core.case import MUST, belongs_to, fail, not_applicable

ACP = "ACP v1"
PAGES = f"{LIST}, Pagination"
MANY = 12
"""Sessions of one folder. Real pages are longer; if one page holds them all, nothing can be tested."""

MOST_PAGES = 2 * MANY


async def _pages(agent: Agent, **params: object) -> list[list[Mapping[str, Any]]]:
    """Return the sessions of each page, up to the last page, or until a cursor is repeated."""
    pages: list[list[Mapping[str, Any]]] = []
    cursors: set[str] = set()
    asked = params
    while len(pages) < MOST_PAGES:
        result = await (await agent.request("session/list", asked)).result()
        listed = result.get("sessions") if isinstance(result, dict) else None
        pages.append([each for each in listed or () if isinstance(each, dict)])
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if cursor is None or str(cursor) in cursors:
            break
        cursors.add(str(cursor))
        asked = {**params, "cursor": cursor}
    return pages


async def _many(agent: Agent, *, folders: int = 1) -> tuple[list[str], list[list[Mapping[str, Any]]]]:
    """Create the same number of sessions in several folders, and return the pages with the sessions of the first
    folder."""
    await capable(agent, "sessionCapabilities.list")
    made: list[str] = []
    for number in range(folders):
        folder = agent.cwd / f"pages-{number}"
        folder.mkdir(exist_ok=True)
        made += [await agent.session(cwd=str(folder)) for _ in range(MANY)]
    pages = await _pages(agent, cwd=str(agent.cwd / "pages-0"))
    if len(pages) < 2:
        not_applicable(f"one page holds {len(pages[0])} sessions")
    return made[:MANY], pages


@case("sessions/pages-list-each-once", level=MUST, source=ACP, section=PAGES, after="sessions/pages-end")
async def pages_list_each_once(agent: Agent) -> None:
    """The pages together list each session exactly once."""
    made, pages = await _many(agent)
    counts = Counter(str(each.get("sessionId")) for page in pages for each in page)
    if twice := [id for id, count in counts.items() if count > 1]:
        fail(f"{len(twice)} sessions are listed more than once, the first is {twice[0]!r}")
    missing = [id for id in made if id not in counts]
    if missing and len(missing) < len(made):
        fail(f"{len(missing)} of {len(made)} sessions are on no page, the first is {missing[0]!r}")


@case("sessions/pages-keep-the-filter", level=MUST, source=ACP, section=f"{LIST}, Listing Sessions")
async def pages_keep_the_filter(agent: Agent) -> None:
    """Every page lists only sessions of the requested working directory."""
    _, pages = await _many(agent, folders=2)
    for number, page in enumerate(pages, 1):
        strangers = {each.get("cwd") for each in page} - {str(agent.cwd / "pages-0")}
        if strangers:
            fail(f"page {number} lists sessions of {strangers}")


@case("sessions/pages-end", level=MUST, source=ACP, section=PAGES)
async def pages_end(agent: Agent) -> None:
    """The last page has no cursor, so a client that follows the cursors comes to an end."""
    await capable(agent, "sessionCapabilities.list")
    folder = agent.cwd / "pages-0"
    folder.mkdir()
    for _ in range(MANY):
        await agent.session(cwd=str(folder))
    seen: set[str] = set()
    asked: dict[str, object] = {"cwd": str(folder)}
    for _ in range(MOST_PAGES):
        result = await (await agent.request("session/list", asked)).result()
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if cursor is None:
            return
        if str(cursor) in seen:
            fail(f"the cursor {str(cursor)[:100]!r} leads to itself")
        seen.add(str(cursor))
        asked = {**asked, "cursor": cursor}
    fail(f"after {MOST_PAGES} pages for {MANY} sessions there is still a cursor")


@case("sessions/list-null-cursor", level=MUST, source=ACP, section="Schema, ListSessionsRequest", shared=True)
async def list_null_cursor(agent: Agent) -> None:
    """A cursor or a working directory that is null means the same as a missing one."""
    await capable(agent, "sessionCapabilities.list")
    await (await agent.request("session/list", {"cursor": None, "cwd": None})).result()


@case("sessions/list-dates", level=MUST, source=ACP, section=f"{LIST}, Listing Sessions", needs="quick", shared=True)
async def list_dates(agent: Agent) -> None:
    """The time of a session's last activity is a date and time in ISO 8601 with the offset from UTC."""
    await capable(agent, "sessionCapabilities.list")
    await (await agent.prompt(await agent.session(), "quick")).result()
    dates = [each.get("updatedAt") for page in await _pages(agent) for each in page]
    dates = [date for date in dates if date is not None]
    if not dates:
        not_applicable("no session has a date")
    for date in dates:
        if not _is_timestamp(date):
            fail(f"updatedAt is {date!r:.100}")


def _is_timestamp(date: object) -> bool:
    try:
        return "T" in str(date) and datetime.fromisoformat(str(date)).tzinfo is not None
    except ValueError:
        return False


def _told(updates: list[Update]) -> list[tuple[str, str]]:
    """Return the texts and tool calls in order. Chunks of one message are joined, and a chunk without text is
    omitted."""
    told: list[tuple[str, str]] = []
    for update in updates:
        match update.kind:
            case "user_message_chunk" | "agent_message_chunk":
                who = update.kind.partition("_")[0]
                if _is_empty(update):
                    continue
                if told and told[-1][0] == who:
                    told[-1] = (who, told[-1][1] + update.text)
                else:
                    told.append((who, update.text))
            case "tool_call":
                told.append(("tool", str(update.body.get("toolCallId"))))
            case _:
                pass
    return told


def _is_empty(update: Update) -> bool:
    content = update.body.get("content")
    return isinstance(content, dict) and content.get("type") == "text" and not update.text


async def replay(agent: Agent, session: str) -> list[Update]:
    """Close the session if possible, send `session/load`, and return the replay."""
    if agent.can("sessionCapabilities.close"):
        await end(agent, session)
    since = len(agent.received)
    with belongs_to("sessions/load-replays-user"):
        await (await reopen(agent, "session/load", session)).result()
    return agent.updates(session, since=since)


async def _replayed(agent: Agent, session: str) -> list[tuple[str, str]]:
    return _told(await replay(agent, session))


@case("sessions/load-twice-the-same", level=MUST, source=ACP, section=LOADING, needs="quick")
async def load_twice_the_same(agent: Agent) -> None:
    """A session that is loaded twice replays the same conversation, because a replay is not added to the
    conversation."""
    await capable(agent, "loadSession")
    session = await agent.session()
    await (await agent.prompt(session, "quick")).result()
    once, twice = [await _replayed(agent, session) for _ in range(2)]
    if once != twice:
        fail(f"the first replay has {len(once)} steps, the second {len(twice)}: {twice!s:.300}")


@case("sessions/load-keeps-the-order", level=MUST, source=ACP, section=LOADING, needs="quick")
async def load_keeps_the_order(agent: Agent) -> None:
    """A conversation of several turns is replayed completely and in order, with its tool calls."""
    await capable(agent, "loadSession")
    session = await agent.session()
    lived: list[tuple[str, str]] = []
    for situation in ("quick", "tool", "stream"):
        if situation in agent.profile.situations:
            since = len(agent.received)
            await (await agent.prompt(session, situation)).result()
            lived.append(("user", agent.text_of(situation)))
            lived += _told([each for each in agent.updates(session, since=since) if each.kind != "user_message_chunk"])
    replayed = await _replayed(agent, session)
    if replayed != lived:
        at = next((n for n, pair in enumerate(zip(lived, replayed, strict=False)) if pair[0] != pair[1]), len(replayed))
        was, now = (str(each[at : at + 1] or "nothing") for each in (lived, replayed))
        fail(f"step {at + 1} of the conversation was {was:.150}, the replay has {now:.150}")


@case(
    "sessions/loads-again", level=MUST, source=ACP, section=LOADING, needs="quick", after="sessions/load-replays-user"
)
async def loads_again(agent: Agent) -> None:
    """A session that is loaded again replays the same conversation, because a replay is not added to the
    conversation."""
    await capable(agent, "loadSession", "sessionCapabilities.close")
    session = await agent.session()
    await (await agent.prompt(session, "quick")).result()
    replays: list[list[tuple[str, str]]] = []
    for _ in range(3):
        await end(agent, session)
        since = len(agent.received)
        await (await reopen(agent, "session/load", session)).result()
        replays.append(_told(agent.updates(session, since=since)))
    if replays[0] != replays[2]:
        fail(f"the first replay has {len(replays[0])} steps, {replays[0]!s:.200}, the third {replays[2]!s:.400}")
