"""What an agent has started does not outlive it, however it was started and however the agent ends."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.agent.processes.driver import Driven, started
from tests.client.processes import gone

FAMILY = str(Path(__file__).with_name("processes") / "family.py")
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def begin(agent: Driven, id: int, method: str) -> int:
    agent.request(id, method)
    return agent.next()["params"]["pid"]


@pytest.mark.behaviour("G17")
@BACKENDS
@pytest.mark.parametrize("end", ["by itself", "left behind", "blocked"])
def test_no_process_that_it_has_started_outlives_an_agent(backend: str, end: str) -> None:
    with started([sys.executable, FAMILY, backend]) as agent:
        pids = agent.call(1, "others")
        if end != "by itself":
            # The one is beyond its grace then, the other in a task that nobody ends.
            pids += [begin(agent, 2, "shielded"), begin(agent, 3, "native")]
        if end == "blocked":
            agent.request(4, "blocked")
            agent.wait_for_stderr("blocking the loop")
            agent.signal(signal.SIGTERM)
        else:
            agent.close_input()
        assert all(psutil.pid_exists(pid) for pid in pids)
        assert agent.exit_code() == (143 if end == "blocked" else 0)
        forced = {"by itself": "", "left behind": "1 handlers did not end", "blocked": "the event loop is blocked"}
        assert forced[end] in agent.stderr
        gone(*pids)


@BACKENDS
@pytest.mark.parametrize("end", ["input", "signal"])
def test_what_a_shell_runs_ends_with_the_agent_whose_end_kills_the_shell(backend: str, end: str) -> None:
    with started([sys.executable, FAMILY, backend]) as agent:
        pid = begin(agent, 1, "shell")
        if end == "input":
            agent.close_input()
        else:
            agent.signal(signal.SIGTERM)
        assert agent.exit_code() == (0 if end == "input" else 143)
        gone(pid)


@BACKENDS
def test_what_has_detached_itself_goes_on(backend: str) -> None:
    with started([sys.executable, FAMILY, backend]) as agent:
        command = agent.call(1, "others")[0]
        daemon = agent.call(2, "daemon")
        assert agent.finish() == 0
        gone(command)
        os.kill(daemon, signal.SIGKILL)


def test_embedded_serving_ends_no_process_of_its_host() -> None:
    code = """
import subprocess, anyio
from acp_server.agent.serve import serve_stdio
from tests.agent.processes.plain import Plain, LIMITS
process = subprocess.Popen(["sleep", "1000"])
anyio.run(lambda: serve_stdio(Plain(), limits=LIMITS))
print(process.poll(), process.pid, flush=True)
"""
    with started([sys.executable, "-W", "ignore::ResourceWarning", "-c", code]) as host:
        assert host.call(1, "echo") == {}
        host.close_input()
        status, pid = host.next_line().split()
        assert status == b"None"
        assert host.exit_code() == 0
        os.kill(int(pid), signal.SIGKILL)
