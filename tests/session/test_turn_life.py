"""What becomes of a turn: its states, its times, and why it failed."""

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server import Session, Turn, grace, schema
from acp_server.errors import AuthRequired, ConnectionClosed, InternalError, RequestTimeout, ToolFailed
from acp_server.session.state import TurnState
from acp_server.session.turn import live_of
from acp_server.session.updates import LiveTurn
from acp_server.tasks.cause import Cause
from tests.session.agents import keeping, setup
from tests.session.editor import CANCELLED, END_TURN, QUICK, Editor, editing

pytestmark = pytest.mark.anyio

BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])
TOOL = schema.ToolCallUpdate(tool_call_id="c", title="rm")
OPTIONS = [schema.PermissionOption(option_id="y", name="Yes", kind="allow_once")]
YES = {"outcome": {"outcome": "selected", "optionId": "y"}}
FORM = schema.ElicitationSchema(properties={"name": schema.StringPropertySchema()})

MOVES = {
    ("created", "in_progress"),
    ("created", "canceled"),
    ("created", "failed"),
    ("in_progress", "requires_action"),
    ("requires_action", "in_progress"),
    *((state, end) for state in ("in_progress", "requires_action") for end in ("completed", "failed", "canceled")),
}


@pytest.mark.parametrize("there", [state for state in TurnState if state.successors])
async def test_a_turn_goes_nowhere_that_its_state_does_not_lead_to(there: TurnState) -> None:
    tried: list[tuple[TurnState, bool, TurnState]] = []

    async def handler(turn: Turn) -> None:
        live = live_of(turn)
        before = turn.state
        live.state = there
        for state in TurnState:
            if state not in there.successors:
                tried.append((state, live.move(state), turn.state))
                assert turn.record.status == before.value
                assert turn.ended_at is None
        live.state = before

    agent, _ = keeping(handler)
    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert tried == [(state, False, there) for state in TurnState if state not in there.successors]


async def ask_permission(turn: Turn) -> None:
    await turn.client.request_permission(TOOL, OPTIONS)


async def elicit_form(turn: Turn) -> None:
    await turn.client.elicit_form("Who?", FORM)


async def elicit_url(turn: Turn) -> None:
    await turn.client.elicit_url("There", "https://example.org", elicitation_id="e")


# States


def test_the_moves_are_those_that_are_documented() -> None:
    assert {(state.value, after.value) for state in TurnState for after in state.successors} == MOVES


QUESTIONS = pytest.mark.parametrize(
    ("ask", "method", "answer"),
    [
        (ask_permission, "session/request_permission", YES),
        (elicit_form, "elicitation/create", {"action": "decline"}),
        (elicit_url, "elicitation/create", {"action": "accept"}),
    ],
)


@QUESTIONS
async def test_a_turn_requires_action_while_the_user_is_asked(ask: Any, method: str, answer: Any) -> None:
    agent, turns = keeping(ask)
    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        asked = await editor.client.expect_request(method)
        (turn,) = turns
        assert turn.state is TurnState.REQUIRES_ACTION
        assert turn.record.status == "requires_action"
        await editor.client.respond(asked, answer)
        assert await editor.answer(id) == END_TURN
        assert turn.state is TurnState.COMPLETED


async def test_it_requires_action_until_the_last_question_is_answered() -> None:
    async def ask_twice(turn: Turn) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_permission, turn)
            while turn.state is TurnState.IN_PROGRESS:
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(elicit_form, turn)
        assert turn.state is TurnState.IN_PROGRESS

    agent, turns = keeping(ask_twice)
    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        permission = await editor.client.expect_request("session/request_permission")
        form = await editor.client.expect_request("elicitation/create")
        await editor.client.respond(permission, YES)
        await editor.settled()
        assert turns[0].state is TurnState.REQUIRES_ACTION
        await editor.client.respond(form, {"action": "cancel"})
        assert await editor.answer(id) == END_TURN


async def test_other_requests_to_the_client_are_no_questions_to_the_user() -> None:
    async def read(turn: Turn) -> None:
        await turn.client.read_text_file("/a")

    agent, turns = keeping(read)
    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        asked = await editor.client.expect_request("fs/read_text_file")
        assert turns[0].state is TurnState.IN_PROGRESS
        await editor.client.respond(asked, {"content": ""})
        assert await editor.answer(id) == END_TURN


async def test_a_question_outside_of_a_turn_is_no_turns_matter() -> None:
    agent, turns = keeping(lambda turn: turn.say("here"))

    @agent.session
    async def prepare(session: Session) -> None:
        await session.client.request_permission(TOOL, OPTIONS)

    async with editing(agent) as editor:
        id = await editor.client.request("session/new", setup())
        await editor.client.respond(await editor.client.expect_request("session/request_permission"), YES)
        session = (await editor.answer(id))["sessionId"]
        assert await editor.ask(session) == END_TURN
        assert turns[0].state is TurnState.COMPLETED


@BOTH_CANCELS
async def test_a_question_that_a_cancel_withdraws_does_not_put_its_turn_back_to_work(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = watch(monkeypatch)
    agent, turns = keeping(ask_permission)
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect_request("session/request_permission")
        await (editor.cancel(session) if by == "session" else editor.withdraw(id))
        assert await editor.answer(id) == CANCELLED
    assert states[turns[0]] == ["in_progress", "requires_action", "canceled"]


@BOTH_CANCELS
async def test_a_question_that_is_asked_while_its_turn_ends_does_not_put_it_on_hold(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_at_the_end(turn: Turn) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await ask_permission(turn)

    states = watch(monkeypatch)
    agent, turns = keeping(ask_at_the_end)
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.settled()
        await (editor.cancel(session) if by == "session" else editor.withdraw(id))
        await editor.client.respond(await editor.client.expect_request("session/request_permission"), YES)
        assert await editor.answer(id) == CANCELLED
    assert states[turns[0]] == ["in_progress", "canceled"]


def watch(monkeypatch: pytest.MonkeyPatch) -> dict[Turn, list[str]]:
    """The states of all turns from now on, in order. Each move that is made must be a documented one."""
    states: dict[Turn, list[str]] = {}
    move = LiveTurn.move

    def watched(turn: LiveTurn, state: TurnState) -> bool:
        before = turn.state
        moved = move(turn, state)
        assert moved == ((before.value, state.value) in MOVES)
        assert turn.state is (state if moved else before)
        assert turn.record.status == turn.state.value
        if moved:
            states.setdefault(turn.face, []).append(state.value)
        return moved

    monkeypatch.setattr(LiveTurn, "move", watched)
    return states


STEPS = st.lists(st.sampled_from(["say", "ask", "ask twice", "tick", "fail", "refuse"]), max_size=5)
EVENTS = st.lists(st.sampled_from(["answer", "reject", "cancel", "withdraw", "prompt", "close", "tick"]), max_size=6)


@settings(max_examples=60)
@given(steps=STEPS, events=EVENTS, stubborn=st.booleans())
async def test_whatever_happens_a_turn_goes_one_of_the_documented_ways_and_ends_once(
    steps: list[str], events: list[str], stubborn: bool
) -> None:
    async def work(turn: Turn) -> None:
        try:
            for step in steps:
                if step == "say":
                    await turn.say("said")
                elif step == "ask":
                    await ask_permission(turn)
                elif step == "ask twice":
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(ask_permission, turn)
                        tasks.start_soon(elicit_form, turn)
                elif step == "tick":
                    await anyio.lowlevel.checkpoint()
                elif step == "fail":
                    raise ValueError("secret")
                else:
                    raise AuthRequired("who are you?")
        finally:
            if stubborn:
                with grace(1):
                    await anyio.lowlevel.checkpoint()

    with pytest.MonkeyPatch.context() as monkeypatch:
        states = watch(monkeypatch)
        agent, _ = keeping(work)
        prompts: list[Any] = []
        async with editing(agent, QUICK) as editor:
            session = await editor.open()
            prompts.append(await editor.prompt(session))
            for event in events:
                await _happens(editor, session, event, prompts)
            await editor.cancel(session)
            answers = [await editor.answer(id) for id in prompts]
            await editor.client.ask("session/close", {"sessionId": session})
    for turn, seen in states.items():
        assert seen[-1] in ("completed", "failed", "canceled")
        assert (turn.last_error is not None) == (seen[-1] == "failed")
        assert turn.ended_at == turn.record.ended_at
        assert turn.ended_at is not None
        assert turn.ended_at >= turn.created_at
        assert "secret" not in str(turn.last_error)
    ends = [seen[-1] for seen in states.values()]
    # What the client was told is what the turn says of itself.
    assert ends.count("completed") == answers.count(END_TURN)
    assert ends.count("canceled") == answers.count(CANCELLED)


async def _happens(editor: Editor, session: str, event: str, prompts: list[Any]) -> None:
    open_questions = [
        message
        for message in editor.client.received
        if message.get("method") in ("session/request_permission", "elicitation/create")
    ]
    if event in ("answer", "reject"):
        await editor.settled()
        for question in open_questions:
            if event == "answer":
                answer = YES if "options" in question["params"] else {"action": "accept", "content": {"name": "x"}}
                await editor.client.respond(question, answer)
            else:
                await editor.client.refuse(question, -32603)
    elif event == "cancel":
        await editor.cancel(session)
    elif event == "withdraw":
        await editor.withdraw(prompts[-1])
    elif event == "prompt":
        prompts.append(await editor.prompt(session))
    elif event == "close":
        await editor.client.ask("session/close", {"sessionId": session})
        await editor.client.ask("session/load", setup(session))
    else:
        await editor.settled()


# Why it failed


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("secret"), (-32603, "Internal error: the agent's log says why")),
        (AuthRequired("Log in first"), (-32000, "Log in first")),
        (
            ExceptionGroup("two", [ValueError("secret"), AuthRequired("x")]),
            (-32603, "Internal error: the agent's log says why"),
        ),
        (ExceptionGroup("one", [AuthRequired("Log in first")]), (-32000, "Log in first")),
        (ConnectionClosed("fs/read_text_file"), (-32800, "Request cancelled")),
        (TimeoutError("secret"), (-32800, "Request cancelled")),
        (RequestTimeout("fs/read_text_file", 1), (-32800, "Request cancelled")),
        (InternalError("told"), (-32603, "told")),
        (ToolFailed("There is no such file."), (-32603, "There is no such file.")),
        (ExceptionGroup("one", [ToolFailed("No.")]), (-32603, "No.")),
        (ToolFailed(), (-32603, "Internal error: the agent's log says why")),
    ],
)
async def test_why_it_failed_is_what_the_client_was_told(error: Exception, told: tuple[int, str]) -> None:
    async def fail(turn: Turn) -> None:
        raise error

    agent, turns = keeping(fail)
    async with editing(agent) as editor:
        answer = await editor.ask(await editor.open())
        assert (answer["code"], answer["message"]) == told
        assert turns[0].last_error == told
        assert turns[0].record.stop_reason is None


async def test_a_turn_that_ends_well_has_no_error() -> None:
    agent, turns = keeping(lambda turn: turn.say("x"))
    async with editing(agent) as editor:
        await editor.ask(await editor.open())
        (turn,) = turns
        live_of(turn).end(ValueError())  # too late to count
        assert turn.last_error is None


@pytest.mark.parametrize("raises", [False, True])
async def test_a_turn_that_runs_out_of_time_failed_of_that_whatever_its_handler_does_then(raises: bool) -> None:
    async def overdue(turn: Turn) -> None:
        turn.session.cancel(Cause.TIMEOUT)
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            if raises:
                raise ValueError("secret") from None
            raise

    agent, turns = keeping(overdue)
    async with editing(agent) as editor:
        answer = await editor.ask(await editor.open())
        assert (answer["code"], answer["message"]) == turns[0].last_error == (-32800, "Request cancelled")
        assert turns[0].state is TurnState.FAILED


async def test_a_turn_that_the_agent_itself_ends_is_failed_and_cancelled_by_nobody() -> None:
    agent, turns = keeping(lambda turn: anyio.sleep_forever())
    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        await editor.settled()
        editor.connection.close()
        assert await editor.code(id) == -32800
        assert turns[0].state is TurnState.FAILED
        assert turns[0].last_error == (-32800, "Request cancelled")
