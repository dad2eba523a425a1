"""What a store has to do with the answer of a prompt: nothing."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn
from acp_server.errors import INVALID_REQUEST
from acp_server.session.live_session import LiveSession
from tests.session.agents import talker
from tests.session.editor import CANCELLED, END_TURN, QUICK, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])


@BOTH_CANCELS
@pytest.mark.behaviour("F3", "E1")
async def test_a_cancel_while_a_finished_turn_is_being_saved_changes_nothing(by: str) -> None:
    from acp_server import MemoryStore

    saving, saved = anyio.Event(), anyio.Event()

    class SlowStore(MemoryStore):
        def save(self, record: Any) -> Any:
            super().save(record)
            return self._slow() if record.turns else None

        async def _slow(self) -> None:
            saving.set()
            await saved.wait()

    agent = Agent("slow to save", store=SlowStore())
    turns: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await saving.wait()
        await (editor.cancel(session) if by == "session" else editor.withdraw(id))
        # Its answer is not out yet, so it still runs as far as the client can know.
        assert await editor.code(await editor.prompt(session)) == INVALID_REQUEST
        saved.set()
        assert await editor.answer(id) == END_TURN
        assert turns[0].cause is None
        assert turns[0].state.value == "completed"


async def test_a_save_that_ends_behind_a_later_one_leaves_nothing_to_be_saved() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    ends = [anyio.Event(), anyio.Event()]
    async with editing(agent) as editor:
        await editor.open()
        (session,) = sessions
        assert isinstance(session, LiveSession)
        async with anyio.create_task_group() as group:
            for end in ends:
                store.waits["save"] = end
                group.start_soon(session.save)
                await anyio.wait_all_tasks_blocked()
            assert session.unsaved
            for end in reversed(ends):
                end.set()
                await anyio.wait_all_tasks_blocked()
                assert not session.unsaved


async def test_a_choice_that_is_taken_back_behind_a_later_save_is_still_to_be_saved() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        await editor.open()
        (session,) = sessions
        assert isinstance(session, LiveSession)
        store.waits["save"] = failing = anyio.Event()
        undone: list[bool] = []

        async def choose() -> None:
            with pytest.raises(OSError, match="secret path"):
                await session.change(lambda: lambda: undone.append(True))

        async with anyio.create_task_group() as group:
            group.start_soon(choose)
            await store.reached.wait()
            del store.waits["save"]
            await session.save()
            assert not session.unsaved
            store.fails.add("save")
            failing.set()
        store.fails.clear()
        assert undone
        # What the later one has saved is not so any more.
        assert session.unsaved


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.behaviour("F2", "F13")
async def test_a_store_that_fails_or_hangs_at_the_end_of_a_turn_does_not_change_its_answer(
    how: str, cancelled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = TestStore()
    agent = Agent("cannot save", store=store)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.say("here")
        if cancelled:
            await anyio.sleep_forever()

    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        if how == "fails":
            store.fails.add("save")
        else:
            store.waits["save"] = anyio.Event()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        if cancelled:
            await editor.cancel(session)
        assert await editor.answer(id) == (CANCELLED if cancelled else END_TURN)
    assert "was not saved" in caplog.text
