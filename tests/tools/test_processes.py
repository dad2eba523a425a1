"""Real processes with a tool that never stops: it holds up no answer, no other tool, no end, and is heard no more."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_server.tasks.threads import ABANDONED, RUNNING
from tests.agent.processes.driver import Driven, Message, environment, started
from tests.prefork import RUNTIME, prefork

PROGRAM = str(Path(__file__).with_name("processes") / "stuck.py")
CANCELLED, END_TURN = {"stopReason": "cancelled"}, {"stopReason": "end_turn"}
PROMPTLY = 5.0
"""Seconds: far less than any of the threads takes, and enough for a busy machine."""

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
WAYS = pytest.mark.parametrize("how", ["run", "host", "embed"])


class Talk:
    """A session with the agent."""

    def __init__(self, agent: Driven) -> None:
        self.agent = agent
        self._ids = iter(range(1, 1000))
        self.call("initialize", protocolVersion=1)
        self.session = self.call("session/new", cwd="/", mcpServers=[])["sessionId"]

    def call(self, method: str, **params: Any) -> Any:
        return self.until(self.request(method, **params))[1]

    def request(self, method: str, **params: Any) -> int:
        id = next(self._ids)
        self.agent.request(id, method, **params)
        return id

    def prompt(self, *tools: str) -> int:
        """Have these tools run: the prompt's id."""
        content = [{"type": "text", "text": " ".join(tools)}]
        return self.request("session/prompt", sessionId=self.session, prompt=content)

    def shown(self, text: str, times: int = 1) -> None:
        """Read until calls have shown this in their content: their functions run. (A call that waits is `pending`.)"""
        seen: set[str] = set()
        while len(seen) < times:
            update = self.agent.next().get("params", {}).get("update", {})
            if text in str(update.get("content")):
                seen.add(update["toolCallId"])

    def cancel(self) -> None:
        params = {"sessionId": self.session}
        self.agent.send({"jsonrpc": "2.0", "method": "session/cancel", "params": params})

    def until(self, id: int) -> tuple[list[Message], Any]:
        """What comes before the answer, and the answer's result."""
        before: list[Message] = []
        while True:
            message = self.agent.next()
            if message.get("id") == id and "method" not in message:
                return before, message["result"]
            before.append(message)

    def said(self, id: int) -> str:
        """What the turn has said when it is answered."""
        before, result = self.until(id)
        assert result == END_TURN
        updates = [message["params"]["update"] for message in before]
        return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")

    def stuck(self, times: int, tool: str = "sleep") -> None:
        """Have so many of them run, and cancel their turn: they run for nobody from then on."""
        id = self.prompt(*[tool] * times)
        self.shown("ing", times)
        self.cancel()
        before, result = self.until(id)
        assert result == CANCELLED
        ends = [m["params"]["update"]["toolCallId"] for m in before if m["params"]["update"].get("status") == "failed"]
        assert len(ends) == len(set(ends)) == times


Talking = Callable[[str, str], AbstractContextManager[Talk]]


@pytest.fixture(scope="module")
def talking() -> Iterator[Talking]:
    """Begins a session with an agent that is served in some way, on some backend."""
    with prefork(*RUNTIME, env=environment()) as forks:

        @contextmanager
        def begin(how: str, backend: str) -> Iterator[Talk]:
            with started([sys.executable, PROGRAM, how, backend], popen=forks.popen) as agent:
                yield Talk(agent)

        yield begin


@BACKENDS
def test_the_answer_of_a_cancelled_turn_and_the_turns_behind_it_are_not_held_up(talking: Talking, backend: str) -> None:
    with talking("run", backend) as talk:
        began = time.monotonic()
        talk.stuck(1)
        assert time.monotonic() - began < PROMPTLY
        said = talk.said(talk.prompt("quick", "loop_only")).splitlines()
        assert sorted(said) == ["loop_only completed: done", "quick completed: done"]
        assert talk.agent.finish() == 0


@BACKENDS
def test_other_tools_of_the_turn_go_on_when_it_is_cancelled_alone(talking: Talking, backend: str) -> None:
    with talking("run", backend) as talk:
        id = talk.prompt("sleep", "beside", "thread_beside")
        talk.shown("ing", 3)
        assert talk.call("_tool_call/cancel", sessionId=talk.session, toolCallId="sleep_0") == {}
        talk.call("_go_on")
        ends = ["beside completed: done", "sleep cancelled: None", "thread_beside completed: done"]
        assert sorted(talk.said(id).splitlines()) == ends
        assert talk.agent.finish() == 0


@BACKENDS
@WAYS
@pytest.mark.parametrize("cancelled", [False, True])
def test_the_end_of_input_ends_the_process(talking: Talking, how: str, backend: str, cancelled: bool) -> None:
    with talking(how, backend) as talk:
        if cancelled:
            talk.stuck(3)
        else:
            talk.prompt("sleep")
            talk.shown("sleeping")
        talk.agent.close_input()
        assert talk.agent.exit_code(PROMPTLY) == 0
        if how != "run":
            assert "the host goes on\nthe host is through\n" in talk.agent.stderr
        assert "ERROR" not in talk.agent.stderr


@BACKENDS
@pytest.mark.parametrize(("how", "cancelled"), [("run", False), ("run", True), ("host", False)])
def test_a_signal_ends_the_process(talking: Talking, how: str, backend: str, cancelled: bool) -> None:
    with talking(how, backend) as talk:
        id = 0
        if cancelled:
            talk.stuck(3)
        else:
            id = talk.prompt("sleep")
            talk.shown("sleeping")
        talk.agent.signal(signal.SIGTERM)
        answers = [message["error"]["code"] for message in talk.agent.rest() if message.get("id") == id]
        assert answers == ([] if cancelled else [-32800])
        # A host decides for itself what its end is worth.
        assert talk.agent.exit_code(PROMPTLY) == (143 if how == "run" else 0)
        assert "ERROR" not in talk.agent.stderr


@BACKENDS
@WAYS
def test_nothing_of_it_reaches_the_client_later(talking: Talking, how: str, backend: str) -> None:
    with talking(how, backend) as talk:
        talk.stuck(2, "block")
        before, result = talk.until(talk.request("_go_on"))
        assert result == ["refused 2 times"] * 2
        assert before == []
        talk.agent.close_input()
        assert talk.agent.rest() == []
        assert talk.agent.exit_code(PROMPTLY) == 0


@BACKENDS
def test_too_many_of_them_are_reported_and_fail_further_ones_clearly(talking: Talking, backend: str) -> None:
    with talking("run", backend) as talk:
        talk.stuck(RUNNING)
        many = "sleep was cancelled and still runs in its thread; {} such threads"
        talk.agent.wait_for_stderr(f"WARNING {many.format(RUNNING)}\n")
        talk.stuck(ABANDONED - RUNNING)
        talk.agent.wait_for_stderr(f"WARNING {many.format(ABANDONED)}\n")
        assert "ERROR" not in talk.agent.stderr
        # What needs no thread goes on, and what needs one fails at once, with words for the model and for the log.
        said = talk.said(talk.prompt("sleep", "quick", "loop_only"))
        words = "Too much that was cancelled still runs, so it was not run."
        ends = ["loop_only completed: done", f"quick failed: {words}", f"sleep failed: {words}"]
        assert sorted(said.splitlines()) == ends
        why = f"quick is not started, because {ABANDONED} threads still run after their cancel"
        expected = f"ERROR the tool 'quick' was not run: {why}\n"
        talk.agent.wait_for_stderr(expected)
        talk.agent.close_input()
        assert talk.agent.exit_code(PROMPTLY) == 0
