"""What a turn says: notices, and what the user sees of a compaction. On version 1 that is said to clients that announce
that they can show it."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn
from tests.session import editor as v1
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio

CAPABLE = {"session": {"notices": {}, "compaction": {}}}


def shortener(turns: list[Turn]) -> Agent:
    agent = Agent("shortener")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)
        await turn.notice("Long", severity="warning", description="It is getting long.")
        async with turn.compaction() as compaction:
            await compaction.summarize("What was said: ")
            if turn.text == "hang":
                await anyio.sleep_forever()
            if turn.text == "fail":
                raise ValueError("secret")
            await compaction.summarize("nothing.")
        await turn.say("done")

    return agent


def told(updates: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """What was said, but for messages and states."""
    return [
        (one["sessionUpdate"], one.get("status", one.get("title", one.get("content", {}).get("text"))))
        for one in updates
        if one["sessionUpdate"].startswith(("notice", "compaction"))
    ]


WHOLE = [
    ("notice", "Long"),
    ("compaction_update", "in_progress"),
    ("compaction_summary_chunk", "What was said: "),
    ("compaction_summary_chunk", "nothing."),
    ("compaction_update", "completed"),
]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_user_sees_a_notice_and_the_summary(version: int) -> None:
    opened = v1.editing(shortener([]), capabilities=CAPABLE) if version == 1 else v2.editing(shortener([]))
    async with opened as editor:
        session = await editor.open()
        assert await editor.ask(session) == {"stopReason": "end_turn"}
        assert told(editor.client.updates(session)) == WHOLE
        notice = editor.client.updates(session)[0 if version == 1 else 2]
        assert (notice["severity"], notice["description"]) == ("warning", "It is getting long.")
        ids = {one["compactionId"] for one in editor.client.updates(session) if "compactionId" in one}
        assert len(ids) == 1


@pytest.mark.parametrize("announced", [{}, {"session": {"notices": {}}}, {"session": {"compaction": {}}}])
async def test_a_client_of_version_1_is_told_what_it_can_show(announced: dict[str, Any]) -> None:
    can = announced.get("session", {})
    async with v1.editing(shortener([]), capabilities=announced) as editor:
        session = await editor.open()
        await editor.ask(session)
        assert told(editor.client.updates(session)) == [
            (kind, what) for kind, what in WHOLE if ("notices" if kind == "notice" else "compaction") in can
        ]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_compaction_that_is_cancelled_says_so_before_the_turn_has_ended(version: int) -> None:
    opened = v1.editing(shortener([]), capabilities=CAPABLE) if version == 1 else v2.editing(shortener([]))
    async with opened as editor:
        session = await editor.open()
        prompt = await editor.prompt(session, "hang")
        await editor.client.expect(lambda message: "compaction_summary_chunk" in str(message))
        await editor.cancel(session)
        if version == 1:
            assert await editor.answer(prompt) == v1.CANCELLED
        else:
            assert isinstance(editor, v2.Editor)
            assert await editor.idle(session) == v1.CANCELLED
        assert told(editor.client.updates(session))[-1] == ("compaction_update", "cancelled")


async def test_a_compaction_that_fails_says_so_and_nothing_of_the_reason() -> None:
    turns: list[Turn] = []
    async with v2.editing(shortener(turns)) as editor:
        session = await editor.open()
        assert (await editor.ask(session, "fail"))["stopReason"] == "error"
        assert told(editor.client.updates(session))[-1] == ("compaction_update", "failed")
        assert "secret" not in str(editor.client.received)


async def test_a_compaction_that_outlasts_its_turn_tells_nothing_and_raises_nothing() -> None:
    turns: list[Turn] = []
    async with v2.editing(shortener(turns)) as editor:
        session = await editor.open()
        agent_is_done = await editor.ask(session)
        before = editor.client.updates(session)
        await turns[0].compaction().__aexit__(None, None, None)
        assert agent_is_done == {"stopReason": "end_turn"}
        assert editor.client.updates(session) == before
