"""A session's life on one connection: which event leads where, and what each state refuses."""

import anyio
import pytest

from acp_server import Limits, Session, SessionClosed, schema
from acp_server.errors import INVALID_REQUEST, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from acp_server.session.live_session import LiveSession
from acp_server.session.state import SessionEvent, SessionState
from tests.session.agents import setup, talker
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.store.stores import TestStore

MOVES = {
    ("opening", "succeeded"): "succeeded",
    ("succeeded", "answered"): "open",
    ("open", "end_requested"): "ending",
    ("ending", "end_failed"): "open",
    **{(state, "closed"): "closed" for state in ("opening", "succeeded", "open", "ending")},
}
ENDS = pytest.mark.parametrize("method", ["session/close", "session/delete", "session/load", "session/resume"])


# The table


def test_each_event_leads_where_the_table_says_and_nowhere_else() -> None:
    moves = {(state.value, event.value): after.value for state in SessionState for event, after in state.after.items()}
    assert moves == MOVES


def test_only_a_session_that_has_been_opened_and_is_not_closed_is_stored() -> None:
    assert [state.value for state in SessionState if state.saves] == ["succeeded", "open", "ending"]


@pytest.mark.anyio
@pytest.mark.parametrize("there", SessionState)
async def test_a_session_goes_nowhere_that_its_state_does_not_lead_to(there: SessionState) -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        await editor.open()
        (session,) = sessions
        assert isinstance(session, LiveSession)
        for event in SessionEvent:
            session.state = there
            assert session.move(event) is ((there.value, event.value) in MOVES)
            assert session.state.value == MOVES.get((there.value, event.value), there.value)
        session.state = SessionState.OPEN


# What each state refuses


@pytest.mark.anyio
async def test_a_session_that_is_opening_is_not_stored_and_takes_no_prompts() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    prepared, goes_on = anyio.Event(), anyio.Event()
    states: list[SessionState] = []

    @agent.session
    async def prepare(session: Session) -> None:
        states.append(session.state)
        saves = store.calls.count("save")
        await session.set_title("not yet")
        assert store.calls.count("save") == saves
        prepared.set()
        await goes_on.wait()

    async with editing(agent) as editor:
        goes_on.set()
        id = await editor.open()
        await editor.client.result("session/close", {"sessionId": id})
        prepared, goes_on = anyio.Event(), anyio.Event()
        load = await editor.client.request("session/load", setup(id))
        await prepared.wait()
        assert (await editor.ask(id))["code"] == RESOURCE_NOT_FOUND
        goes_on.set()
        assert await editor.answer(load) == {}
        assert states == [SessionState.OPENING] * 2
        assert sessions[-1].state is SessionState.OPEN
        assert await editor.ask(id) == END_TURN


@pytest.mark.anyio
async def test_a_session_is_not_heard_of_until_the_client_knows_it() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        store.waits["save"] = anyio.Event()
        new = await editor.client.request("session/new", setup())
        await store.reached.wait()
        assert sessions[0].state is SessionState.SUCCEEDED
        assert not editor.client.updates()
        store.waits["save"].set()
        assert "sessionId" in await editor.answer(new)
        assert sessions[0].state is SessionState.OPEN
        await editor.settled()
        assert len(editor.client.updates()) == 1


@pytest.mark.anyio
@ENDS
async def test_a_session_that_is_ending_takes_no_prompts_and_no_choices_until_that_is_through(method: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    agent.modes(schema.SessionMode(id="a", name="A"), schema.SessionMode(id="b", name="B"))
    async with editing(agent) as editor:
        id = await editor.open()
        (session,) = sessions
        session.data = through = anyio.Event()
        turn = await editor.prompt(id, "outstay")
        await editor.client.expect(lambda message: "re: outstay" in str(message))
        ended = await editor.client.request(method, setup(id))
        # The second time its handler runs, and waits for the turn.
        for _ in range(2):
            assert (await editor.ask(id))["code"] == INVALID_REQUEST
            refused = await editor.refusal("session/set_mode", {"sessionId": id, "modeId": "b"})
            assert refused["code"] == INVALID_REQUEST
            assert session.state is SessionState.ENDING
        through.set()
        assert await editor.answer(turn) == CANCELLED
        assert "code" not in await editor.answer(ended)
        assert session.state is SessionState.CLOSED


@pytest.mark.anyio
async def test_a_session_is_ending_until_the_last_request_that_ends_it_is_through() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        id = await editor.open()
        store.fails.add("save")
        store.waits["save"] = anyio.Event()
        ends = [await editor.client.request("session/close", {"sessionId": id}) for _ in range(2)]
        await store.reached.wait()
        await editor.settled()
        await editor.withdraw(ends[1])
        assert await editor.code(ends[1]) == REQUEST_CANCELLED
        assert sessions[0].state is SessionState.ENDING
        store.waits.pop("save").set()
        assert "code" in await editor.answer(ends[0])
        assert sessions[0].state is SessionState.OPEN
        store.fails.clear()


@pytest.mark.anyio
async def test_a_session_that_was_opened_anew_is_ending_as_well_if_a_close_came_meanwhile() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        id = await editor.open()
        store.waits["load"] = anyio.Event()
        load = await editor.client.request("session/load", setup(id))
        await store.reached.wait()
        close = await editor.client.request("session/close", {"sessionId": id})
        await editor.settled()
        opening, closing = anyio.Event(), anyio.Event()
        store.waits["save"], store.reached = opening, anyio.Event()
        store.waits["load"].set()
        await store.reached.wait()
        store.waits["save"], store.reached = closing, anyio.Event()
        opening.set()
        assert await editor.answer(load) == {}
        await store.reached.wait()
        assert (await editor.ask(id))["code"] == INVALID_REQUEST
        assert [session.state for session in sessions] == [SessionState.CLOSED, SessionState.ENDING]
        closing.set()
        assert await editor.answer(close) == {}
        assert sessions[1].state is SessionState.CLOSED


@pytest.mark.anyio
async def test_a_session_that_is_closed_stores_nothing_and_says_nothing() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        id = await editor.open()
        await editor.client.result("session/close", {"sessionId": id})
        (session,) = sessions
        assert session.state is SessionState.CLOSED
        saves = store.calls.count("save")
        await session.save()
        assert store.calls.count("save") == saves
        with pytest.raises(SessionClosed):
            await session.set_commands([])
        assert (await editor.ask(id))["code"] == RESOURCE_NOT_FOUND


@pytest.mark.anyio
async def test_a_session_is_not_there_if_it_was_stored_after_its_request_was_answered_as_cancelled() -> None:
    """A store that a cancel does not reach, as a thread that writes to a disk."""

    class Stubborn(TestStore):
        async def _step(self, name: str) -> None:
            with anyio.CancelScope(shield=name == "save"):
                await super()._step(name)

    store = Stubborn()
    agent, sessions = talker(store)
    async with editing(agent, Limits(drain=0.05, grace=0.05)) as editor:
        id = await editor.open()
        await editor.client.result("session/close", {"sessionId": id})
        store.waits["save"] = anyio.Event()
        store.reached = anyio.Event()
        load = await editor.client.request("session/load", setup(id))
        await store.reached.wait()
        await editor.withdraw(load)
        assert await editor.code(load) == REQUEST_CANCELLED
        assert sessions[-1].state is SessionState.SUCCEEDED
        store.waits.pop("save").set()
        await editor.settled()
        assert sessions[-1].state is SessionState.CLOSED
        assert (await editor.ask(id))["code"] == RESOURCE_NOT_FOUND
