"""Decisions for all further calls of a tool: how long they hold, and where they are kept."""

import pytest

from acp_server import Agent, Session
from tests.session.editor import editing
from tests.tools.kept import PERMISSION, Kept, selected

pytestmark = pytest.mark.anyio


async def test_a_decision_for_always_holds_for_the_tool_and_the_session_only() -> None:
    for option, status in (("allow_always", "completed"), ("reject_always", "rejected")):
        kept = Kept()
        async with editing(kept.agent) as editor:
            editor.client.answer(PERMISSION, selected(option))
            first, second = await editor.open(), await editor.open()
            await editor.ask(first)
            await editor.ask(first)
            assert len(editor.asked(PERMISSION)) == 1
            assert kept.status == status
            await editor.ask(second)
            assert len(editor.asked(PERMISSION)) == 2


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
async def test_a_decision_for_this_time_is_asked_for_again_the_next_time(option: str) -> None:
    kept = Kept()
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, selected(option))
        session = await editor.open()
        for asked in (1, 2):
            await editor.ask(session)
            assert len(editor.asked(PERMISSION)) == asked


async def test_an_author_can_keep_decisions_longer() -> None:
    class Store:
        def __init__(self) -> None:
            self.decisions: dict[str, bool] = {}

        async def get(self, session: Session, tool: str) -> bool | None:
            return self.decisions.get(tool)

        async def put(self, session: Session, tool: str, allowed: bool) -> None:
            self.decisions[tool] = allowed

    store = Store()
    kept = Kept(Agent("a", approvals=store))
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        await editor.ask(await editor.open())
        await editor.ask(await editor.open())
        assert len(editor.asked(PERMISSION)) == 1
    assert (store.decisions, kept.ran) == ({"touch": True}, 2)


async def test_a_store_of_decisions_that_fails_means_asking(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def get(self, session: Session, tool: str) -> bool | None:
            raise OSError

        async def put(self, session: Session, tool: str, allowed: bool) -> None:
            raise OSError

    kept = Kept(Agent("a", approvals=Broken()))
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        session = await editor.open()
        await editor.ask(session)
        await editor.ask(session)
        assert len(editor.asked(PERMISSION)) == 2
    assert kept.ran == 2
    assert len(caplog.records) == 4
