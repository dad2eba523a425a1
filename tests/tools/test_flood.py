"""Tools that say more than anybody can read: the cancel is heard all the same, and what was said is kept."""

import time
from collections.abc import AsyncGenerator

import pytest

from acp_server import Agent, ToolContext
from acp_server.schema import Diff
from tests.session.editor import CANCELLED, editing
from tests.tools.calls import calling, shown, updates

pytestmark = pytest.mark.anyio

LONG = 10.0
"""Seconds after which a flood ends by itself, so that the test does if the cancel is not heard."""


def lines(call: ToolContext, until: float) -> None:
    while not call.is_cancelled and time.monotonic() < until:
        call.progress("a line\n")


def titles(call: ToolContext, until: float) -> None:
    while not call.is_cancelled and time.monotonic() < until:
        call.set_title("still at it")


def places(call: ToolContext, until: float) -> None:
    while not call.is_cancelled and time.monotonic() < until:
        call.locate("/a", 1)


async def test_many_changes_of_files_are_shown_in_few_updates() -> None:
    agent = Agent("changing")

    @agent.tool(name="change")
    async def tool(call: ToolContext) -> None:
        for number in range(1000):
            call.progress(Diff(path=f"/{number}", old_text="a\n" * 50, new_text="b\n" * 50))

    calling(agent, "change")
    seen = await updates(agent)
    assert len(seen[-1]["content"]) == 1000
    assert len(seen) < 10


@pytest.mark.parametrize("flood", [lines, titles, places])
async def test_a_thread_that_never_pauses_does_not_keep_the_cancel_from_being_heard(flood) -> None:  # type: ignore[no-untyped-def]
    agent = Agent("flooding")
    until = time.monotonic() + LONG

    @agent.tool(name="flood")
    def tool(call: ToolContext) -> None:
        flood(call, until)

    calling(agent, "flood")
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await editor.client.expect(lambda m: any(u.get("status") == "in_progress" for u in shown(editor)))
        await editor.cancel(session)
        assert await editor.answer(prompt) == CANCELLED
        assert time.monotonic() < until
        assert shown(editor)[-1]["status"] == "failed"


async def test_a_generator_that_never_pauses_does_not_keep_the_cancel_from_being_heard() -> None:
    agent = Agent("flooding")
    until = time.monotonic() + LONG

    @agent.tool
    async def flood() -> AsyncGenerator[str]:
        while time.monotonic() < until:
            yield "a line\n"

    calling(agent, "flood")
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await editor.client.expect(lambda m: "a line" in str(shown(editor)))
        await editor.cancel(session)
        assert await editor.answer(prompt) == CANCELLED
        assert time.monotonic() < until
        last = shown(editor)[-1]
        assert last["status"] == "failed"
        assert last["content"][0]["content"]["text"].endswith("a line\n")
