"""The official TypeScript SDK's client drives our agents as processes of their own."""

from itertools import groupby
from pathlib import Path

import pytest

from .projects import NEEDLE, assert_partial
from .subjects import COMMAND, nested, workspace
from .typescript import Ended, Turn, drive

pytestmark = pytest.mark.usefixtures("require_npm")

HANG: Turn = {"text": "hang", "cancelOn": "agent_message_chunk"}
READ: Turn = {"text": "read notes.txt", "cancelOn": "fs/read_text_file"}
ASK: Turn = {"text": "ask", "cancelOn": "session/request_permission"}
CREATE: Turn = {"text": "run sleep 1000", "cancelOn": "terminal/create", "lateAnswer": True}
WAIT: Turn = {"text": "run sleep 1000", "cancelOn": "terminal/wait_for_exit"}
AFTERWARDS: Turn = {"text": "stream 3"}
ANSWERED = Ended("stream 3", "end_turn", None, "0 1 2 ")

CANCELS = ("session/cancel", "signal")


def cancelled_by_either(*turns: Turn) -> list[Turn]:
    """Each of these turns, cancelled in both ways, and behind each of them one that has to be answered."""
    return [each for turn in turns for by in CANCELS for each in ({**turn, "cancelBy": by}, AFTERWARDS)]


@pytest.fixture(params=["asyncio", "trio"])
def agent(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return nested(request.param)


def test_a_prompt_streams_and_the_client_serves_what_the_agent_asks_for(agent: tuple[str, ...], project: Path) -> None:
    turns: list[Turn] = [
        {"text": "stream 3"},
        {"text": "read notes.txt"},
        {"text": "ask"},
        {"text": "run echo hello"},
    ]
    run = drive(agent, project, turns)
    assert run.turns() == [
        ANSWERED,
        Ended("read notes.txt", "end_turn", None, "first line\nsecond line\n"),
        Ended("ask", "end_turn", None, "allowed"),
        Ended("run echo hello", "end_turn", None, "hello\n"),
    ]
    assert run.withdrawn() == []
    assert len(run.received("terminal/release")) == 1


@pytest.mark.behaviour("F1", "F7", "F17")
def test_a_cancelled_turn_keeps_what_it_said_and_the_next_one_is_answered(
    agent: tuple[str, ...], project: Path
) -> None:
    run = drive(agent, project, cancelled_by_either(HANG))
    assert run.turns() == [Ended("hang", "cancelled", None, "hanging"), ANSWERED] * 2
    assert len(run.sent("session/cancel")) == len(run.sent("$/cancel_request")) == 1


@pytest.mark.behaviour("C1", "F8", "F12", "F14")
def test_a_cancel_aborts_the_signal_of_the_handler_that_the_agent_was_waiting_for(project: Path) -> None:
    run = drive(nested("asyncio"), project, cancelled_by_either(READ, ASK, WAIT))
    twice = [turn for turn in (READ, ASK, WAIT) for _ in CANCELS]
    assert run.withdrawn() == [turn["cancelOn"] for turn in twice]
    ends = [(Ended(turn["text"], "cancelled", None, ""), ANSWERED) for turn in twice]
    assert run.turns() == [end for both in ends for end in both]


@pytest.mark.behaviour("F10")
def test_the_terminal_of_a_cancelled_turn_is_released(agent: tuple[str, ...], project: Path) -> None:
    run = drive(agent, project, cancelled_by_either(WAIT))
    assert [end.stop_reason for end in run.turns()] == ["cancelled", "end_turn"] * 2
    assert [params["terminalId"] for params in run.received("terminal/release")] == ["terminal-1", "terminal-2"]


@pytest.mark.behaviour("C4", "F11")
def test_a_terminal_that_is_created_after_the_cancel_is_released(agent: tuple[str, ...], project: Path) -> None:
    run = drive(agent, project, cancelled_by_either(CREATE))
    assert run.withdrawn() == ["terminal/create"] * 2
    assert [end.stop_reason for end in run.turns()] == ["cancelled", "end_turn"] * 2
    assert [params["terminalId"] for params in run.received("terminal/release")] == ["terminal-1", "terminal-2"]


@pytest.mark.behaviour("F9")
def test_a_permission_that_is_granted_after_the_cancel_changes_nothing(agent: tuple[str, ...], project: Path) -> None:
    run = drive(agent, project, cancelled_by_either({**ASK, "lateAnswer": True}))
    assert run.turns() == [Ended("ask", "cancelled", None, ""), ANSWERED] * 2


@pytest.mark.parametrize(
    ("permission", "backend"), [("reject_once", "asyncio"), ("cancelled", "trio"), ("error", "asyncio")]
)
@pytest.mark.behaviour("F9")
def test_a_permission_that_is_not_granted_ends_nothing_but_the_tool(
    permission: str, backend: str, project: Path
) -> None:
    run = drive(nested(backend), project, [{"text": "ask"}, AFTERWARDS], permission=permission)
    assert run.turns() == [Ended("ask", "end_turn", None, "not allowed"), ANSWERED]


@pytest.mark.behaviour("E10")
def test_a_prompt_right_behind_the_cancel_of_another_is_answered(agent: tuple[str, ...], project: Path) -> None:
    run = drive(agent, project, [{**HANG, "cancelBy": "signal", "stopWaiting": True}, AFTERWARDS])
    assert run.turns() == [Ended("hang", None, -32800, "hanging"), ANSWERED]


@pytest.mark.parametrize("by", CANCELS)
@pytest.mark.behaviour("F6")
def test_a_cancel_leaves_the_other_session_alone(agent: tuple[str, ...], by: str, project: Path) -> None:
    run = drive(agent, project, [{**HANG, "cancelBy": by}], [{"text": "read notes.txt"}, AFTERWARDS])
    assert [end.stop_reason for end in run.turns(0)] == ["cancelled"]
    assert run.turns(1) == [Ended("read notes.txt", "end_turn", None, "first line\nsecond line\n"), ANSWERED]


@pytest.mark.behaviour("G7")
def test_an_agent_whose_stdin_ends_in_the_middle_of_a_turn_leaves_with_0(agent: tuple[str, ...], project: Path) -> None:
    run = drive(agent, project, [{"text": "hang"}], endInputOn="agent_message_chunk")
    assert run.turns() == [Ended("hang", None, -32800, "hanging")]


def test_the_workspace_agent_offers_its_commands_once_the_session_is_there(project: Path) -> None:
    run = drive([COMMAND], project, [{"text": "/help"}])
    (offered,) = run.updates("available_commands_update")
    assert "search" in [command["name"] for command in offered["availableCommands"]]


def test_the_workspace_agent_streams_what_it_finds_with_its_places(project: Path) -> None:
    run = drive(workspace(), project, [{"text": f"/search {NEEDLE}"}, {"text": "/read notes.txt:2"}])
    search, read = run.turns()
    assert (search.stop_reason, read.stop_reason) == ("end_turn", "end_turn")
    assert "src/app.py:2:" in search.said
    assert "second line" in read.said
    places = [place for update in run.updates("tool_call_update") for place in update.get("locations", ())]
    assert {"path": str(project / "src/app.py"), "line": 2} in places


@pytest.mark.parametrize("by", CANCELS)
@pytest.mark.behaviour("F1", "F7", "F17")
def test_a_search_cancelled_at_its_first_hits_keeps_them_and_says_that_they_are_not_all(
    by: str, vast_project: Path
) -> None:
    search: Turn = {"text": f"/search {NEEDLE}", "cancelOn": "agent_message_chunk", "cancelBy": by}
    run = drive(workspace(), vast_project, [search, {"text": "/read file0000.txt:1"}])
    cancelled, next_one = run.turns()
    assert cancelled.stop_reason == "cancelled"
    assert_partial(cancelled.said)
    statuses = [status for status, _ in groupby(update["status"] for update in run.updates("tool_call_update"))]
    assert statuses == ["in_progress", "failed", "in_progress", "completed"]
    assert next_one.stop_reason == "end_turn"
    assert NEEDLE in next_one.said


@pytest.mark.behaviour("D2", "G7")
def test_the_workspace_agent_answers_and_leaves_when_its_stdin_ends_in_the_middle_of_a_search(
    vast_project: Path,
) -> None:
    run = drive([COMMAND], vast_project, [{"text": f"/search {NEEDLE}"}], endInputOn="agent_message_chunk")
    assert run.turns()[0].code == -32800
