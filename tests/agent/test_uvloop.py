"""A program that serves on uvloop ends, cancels and reads as on asyncio's own loop."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.processes.driver import plain, started

CANCELLED = {"code": -32800, "message": "Request cancelled"}
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
AGENT = """
import sys
from acp_server import Agent, Turn
agent = Agent("fast")
@agent.prompt
async def answer(turn: Turn) -> str:
    return sys.modules["asyncio"].get_running_loop().__class__.__module__
if __name__ == "__main__":
    agent.run(loop="uvloop")
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_idle_ends_the_process_with_the_code_that_a_shell_expects(number: int) -> None:
    with plain("uvloop") as agent:
        assert agent.call(1, "echo") == {}
        agent.signal(number)
        assert agent.rest() == []
        assert agent.exit_code() == 128 + number
        assert "printed after it ended" in agent.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_request_in_flight_is_answered_before_a_signal_ends_the_process(number: int) -> None:
    with plain("uvloop") as agent:
        agent.begin(1, "hang")
        agent.signal(number)
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == 128 + number


def test_a_second_interrupt_ends_the_process_even_if_the_loop_is_blocked() -> None:
    with plain("uvloop") as agent:
        agent.begin(1, "blocked")
        agent.wait_for_stderr("blocking the loop")
        for _ in range(5):
            agent.signal(signal.SIGINT)
            agent.wait_for_signals(signal.SIGINT)
        assert agent.exit_code() == 130


def test_a_cancel_is_answered_once_and_large_messages_pass_in_both_directions() -> None:
    with plain("uvloop") as agent:
        agent.begin(1, "hang")
        agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        assert agent.next() == {"jsonrpc": "2.0", "id": 1, "error": CANCELLED}
        assert len(agent.call(2, "big", size=4_000_000)) == 4_000_000
        assert agent.call(3, "size", text="x" * 4_000_000) == 4_000_000
        assert agent.finish() == 0


@pytest.mark.parametrize("way", ["run", "--loop"])
def test_handlers_run_on_uvloop_where_the_author_or_the_user_asks_for_it(way: str, tmp_path: Path) -> None:
    file = tmp_path / "fast.py"
    file.write_text(AGENT if way == "run" else AGENT.replace('loop="uvloop"', ""))
    command = [sys.executable, str(file)]
    if way == "--loop":
        command = [sys.executable, "-m", "acp_server", "serve", "--loop", "uvloop", str(file)]
    with started(command) as agent:
        agent.call(1, "initialize", protocolVersion=1)
        session = agent.call(2, "session/new", cwd="/", mcpServers=[])["sessionId"]
        agent.request(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "which?"}])
        said: list[Any] = []
        while "id" not in (message := agent.next()):
            said.append(message["params"]["update"].get("content", {}))
        assert {"type": "text", "text": "uvloop"} in said
        assert agent.finish() == 0
