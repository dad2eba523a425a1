"""The official TypeScript SDK's client of version 2 drives our agent as a process of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from acp_server.schema import from_wire, v2

from .subjects import working
from .typescript import observed

pytestmark = pytest.mark.usefixtures("require_npm")

Message: TypeAlias = dict[str, Any]
Step: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What the client observed, in order."""

    observations: list[Message]

    def of(self, event: str) -> list[Message]:
        return [one for one in self.observations if one["event"] == event]

    def answer(self, name: str) -> Any:
        """What a request was answered with: the result, or the code of the error."""
        (one,) = [one for one in self.observations if one.get("name") == name]
        return one["answer"] if one["event"] == "answer" else one["code"]

    @property
    def received(self) -> list[Message]:
        return [one["message"] for one in self.of("received")]

    @property
    def updates(self) -> list[Message]:
        return [one["params"]["update"] for one in self.received if one.get("method") == "session/update"]

    @property
    def states(self) -> list[tuple[str, str | None]]:
        states = [update for update in self.updates if update["sessionUpdate"] == "state_update"]
        return [(update["state"], update.get("stopReason")) for update in states]

    @property
    def record(self) -> v2.SessionRecord:
        """What the session has come to."""
        record = v2.SessionRecord()
        for update in self.updates:
            record.apply(from_wire(v2.SessionUpdate, update))
        return record

    @property
    def calls(self) -> list[Message]:
        """The tool calls, as they are at the end."""
        return [thing for thing in said(self.record) if "toolCallId" in thing]


def drive(backend: str, cwd: Path, *steps: Step, permission: str = "allow_once") -> Run:
    plan = {"cwd": str(cwd), "steps": steps, "permission": permission}
    observations, _ = observed(2, plan, working(backend))
    run = Run(observations)
    assert run.of("exit") == [{"event": "exit", "code": 0, "signal": None}]
    return run


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def prompt(text: str) -> Step:
    return {"prompt": text, "as": text}


def idle(reason: str) -> Step:
    return {"until": {"sessionUpdate": "state_update", "state": "idle", "stopReason": reason}}


def saying(kind: str) -> Step:
    return {"until": {"sessionUpdate": kind}}


ASKS: Step = {"until": {"sessionUpdate": "state_update", "state": "requires_action"}}
CANCEL: Step = {"cancel": True}
HANGS = [prompt("hang"), saying("agent_message_chunk")]


def test_a_prompt_is_answered_at_its_insertion_and_goes_on_to_idle(backend: str, tmp_path: Path) -> None:
    run = drive(backend, tmp_path, prompt("say"), {"answer": "say"}, idle("end_turn"))
    message = run.answer("say")["messageId"]
    assert run.states == [("running", None), ("idle", "end_turn")]
    told = [key for key in run.record.things if key[0] != "tool_call"]
    assert told == [
        ("user_message", message),
        ("agent_thought", f"{message}.1"),
        ("agent_message", f"{message}.2"),
        ("agent_message", f"{message}.3"),
    ]
    assert "one message" in [one["text"] for one in said(run.record)]
    (shown,) = run.calls
    assert shown["status"] == "completed"
    assert "capabilities" not in shown
    assert shown["content"][0]["patch"]["text"].endswith("@@ -1 +1 @@\n-one\n+two\n")


@pytest.mark.behaviour("M2", "M3")
def test_a_cancel_of_the_session_ends_its_work_and_what_it_holds(backend: str, tmp_path: Path) -> None:
    steps = [*HANGS, prompt("held"), CANCEL, {"answer": "held"}, idle("cancelled"), prompt("more"), idle("end_turn")]
    run = drive(backend, tmp_path, *steps)
    assert run.answer("held") == -32800
    assert run.states == [("running", None), ("idle", "cancelled"), ("running", None), ("idle", "end_turn")]
    told = [update["content"][0]["text"] for update in run.updates if update["sessionUpdate"] == "user_message"]
    assert told == ["hang", "more"]


@pytest.mark.behaviour("M4")
def test_a_prompt_that_is_held_can_be_withdrawn_and_one_that_was_inserted_cannot(backend: str, tmp_path: Path) -> None:
    steps = [*HANGS, {"abort": "hang"}, prompt("held"), {"abort": "held"}, {"answer": "held"}, CANCEL]
    run = drive(backend, tmp_path, *steps, idle("cancelled"))
    assert run.answer("held") == -32800
    assert "messageId" in run.answer("hang")


def test_a_held_prompt_is_inserted_when_the_work_before_it_is_done(backend: str, tmp_path: Path) -> None:
    offered = {"until": {"sessionUpdate": "tool_call_update", "status": "in_progress"}}
    stop = {"cancelToolCall": True, "as": "stop"}
    run = drive(backend, tmp_path, prompt("work"), offered, prompt("next"), stop, {"answer": "next"}, idle("end_turn"))
    kinds = [update["sessionUpdate"] for update in run.updates]
    states = [place for place, kind in enumerate(kinds) if kind == "state_update"]
    assert run.states == [("running", None), ("idle", "end_turn"), ("running", None), ("idle", "end_turn")]
    # Its message comes when nothing else is worked on.
    assert states[1] < kinds.index("user_message", states[0]) < states[2]


@pytest.mark.behaviour("M8")
def test_a_permission_request_is_withdrawn_when_the_session_is_cancelled(backend: str, tmp_path: Path) -> None:
    run = drive(backend, tmp_path, prompt("ask"), ASKS, CANCEL, idle("cancelled"), permission="wait")
    assert len(run.of("withdrawn")) == 1
    assert [state for state, _ in run.states] == ["running", "requires_action", "idle"]


@pytest.mark.behaviour("M6", "M7")
def test_a_tool_call_is_cancelled_alone_and_its_turn_goes_on(backend: str, tmp_path: Path) -> None:
    offered = {"until": {"sessionUpdate": "tool_call_update", "status": "in_progress"}}
    run = drive(backend, tmp_path, prompt("work"), offered, {"cancelToolCall": True, "as": "cancel"}, idle("end_turn"))
    assert run.answer("cancel") == {}
    (shown,) = run.calls
    assert shown["status"] == "cancelled"
    assert shown["content"][0]["content"]["text"] == "half of it\nstopped in the middle"
    assert [state for state, _ in run.states] == ["running", "idle"]


@pytest.mark.behaviour("M13")
def test_a_command_is_shown_and_cancelled_and_its_turn_goes_on(backend: str, tmp_path: Path) -> None:
    begun = {"until": {"sessionUpdate": "terminal_output_chunk"}}
    run = drive(backend, tmp_path, prompt("run"), begun, {"cancelTerminal": True, "as": "cancel"}, idle("end_turn"))
    assert run.answer("cancel") == {}
    (terminal,) = [thing for thing in run.record.things.values() if isinstance(thing, v2.TerminalRecord)]
    assert bytes(terminal.output) == b"begun\n"
    assert terminal.told.to_wire()["exitStatus"] == {"signal": "SIGTERM"}
    assert "ended by SIGTERM" in [one["text"] for one in said(run.record)]


def test_a_permission_request_names_its_subject(backend: str, tmp_path: Path) -> None:
    run = drive(backend, tmp_path, prompt("ask"), idle("end_turn"))
    (asked,) = [one["params"] for one in run.received if one.get("method") == "session/request_permission"]
    assert asked["title"] == "Do something risky"
    assert asked["description"] == "May this run: Do something risky?"
    (call,) = run.calls
    assert asked["subject"]["toolCall"]["toolCallId"] == call["toolCallId"]
    assert call["status"] == "completed"


def test_a_prompt_that_fails_behind_its_insertion_ends_in_an_error(backend: str, tmp_path: Path) -> None:
    run = drive(backend, tmp_path, prompt("fail"), {"answer": "fail"}, idle("error"))
    last = run.updates[-1]
    assert last["error"] == {"code": -32603, "message": "Internal error: the agent's log says why"}


def said(record: v2.SessionRecord) -> list[Message]:
    """What there is of messages and tool calls, with the pieces of each text put together."""
    wire = [thing.to_wire() for key, thing in record.things.items() if isinstance(thing, v2.Patch)]
    for thing in wire:
        thing["text"] = "".join(block.get("text", "") for block in thing["content"])
        if thing["sessionUpdate"] != "tool_call_update":
            del thing["content"]
    return wire


def test_a_session_that_is_resumed_with_a_replay_is_what_it_was(backend: str, tmp_path: Path) -> None:
    resume = {"request": "session/resume", "params": {"cwd": str(tmp_path), "replayFrom": {"type": "start"}}, "as": "r"}
    close = {"request": "session/close", "as": "close"}
    steps = [prompt("say"), idle("end_turn"), close, {"answer": "close"}, resume, {"answer": "r"}]
    run = drive(backend, tmp_path, *steps)
    (closed,) = [place for place, one in enumerate(run.observations) if one.get("name") == "close"]
    live, again = Run(run.observations[:closed]), Run(run.observations[closed:])
    assert said(again.record) == said(live.record)
    assert again.states == [("idle", None)]
    assert [option["configId"] for option in run.answer("r")["configOptions"]] == ["mode"]


def test_batches_and_null_ids_are_refused(backend: str, tmp_path: Path) -> None:
    run = drive(backend, tmp_path, {"raw": [1, 2]}, {"raw": {"jsonrpc": "2.0", "id": None, "method": "session/list"}})
    errors = [(one["id"], one["error"]["code"]) for one in run.received if "error" in one]
    assert errors == [(None, -32600), (None, -32600)]
