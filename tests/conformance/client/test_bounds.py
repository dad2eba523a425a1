"""Whatever a client does, a run comes to its end, tells what happened, and leaves nothing behind."""

import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest

from acp_conformance.client.pace import Pace
from acp_conformance.client.registry import client_cases
from acp_conformance.client.run import run
from acp_conformance.client.stage import Setting
from acp_conformance.core.case import Verdict
from acp_conformance.core.result import Run

from .table import PROFILE, command, judged

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The suite runs on asyncio alone."""
    return "asyncio"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program, "{agent}"]


def ends(pid: int) -> bool:
    """Whether a process that was killed is no longer running, or a zombie that nobody has looked after yet."""
    for _ in range(500):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


async def test_a_command_that_is_not_there_is_an_error_of_every_case() -> None:
    results = await judged(["no-such-program", "{agent}"], "ids")
    assert {result.verdict for result in results.values()} == {Verdict.ERROR}
    assert all("no-such-program" in result.reason for result in results.values())


async def test_a_client_that_ends_at_its_very_first_start_is_judged_all_the_same(tmp_path: Path) -> None:
    done = tmp_path / "set-up"
    clean = command("clean")
    program = f"""
import os, pathlib, sys
set_up = pathlib.Path({str(done)!r})
if not set_up.exists():
    set_up.touch()
    raise SystemExit("set up; start me again")
os.execv({clean[0]!r}, [*{clean[:-1]!r}, *sys.argv[1:]])
"""
    results = await judged(python(program), "ids")
    assert results
    assert {result.verdict for result in results.values()} <= {Verdict.PASS, Verdict.CHOICE, Verdict.NOT_APPLICABLE}


async def test_a_client_that_starts_no_agent_is_an_error_of_every_case_and_shows_what_it_printed() -> None:
    program = "import sys; print('hello'); print('no config', file=sys.stderr); raise SystemExit(3)"
    results = await judged(python(program), "ids")
    assert {(result.verdict, result.reason) for result in results.values()} == {
        (Verdict.ERROR, "the client ended with status 3 before it started its agent")
    }
    printed = next(iter(results.values())).stderr
    assert "hello" in printed
    assert "no config" in printed


async def test_a_client_whose_agent_is_only_started_skips_all_and_the_run_is_no_success() -> None:
    program = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdin=-1); p.stdin.close(); p.wait()"
    chosen = client_cases.matching(["ids", "envelope"])
    result: Run = await run(Setting(python(program), PROFILE), chosen)
    assert {case.verdict for case in result.cases} == {Verdict.SKIP}
    assert result.exit_code() == 2


async def test_a_client_that_says_nothing_skips_the_case_after_its_time() -> None:
    program = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:], stdin=-1); time.sleep(60)"
    setting = Setting(python(program), PROFILE, Pace(0.1, least_start=0.5))
    [result] = (await run(setting, client_cases.matching(["ids/strings"]))).cases
    assert (result.verdict, result.reason) == (Verdict.SKIP, "initialize did not come within 1.5 s")


async def test_an_answer_that_comes_after_its_time_is_slow_and_breaks_no_rule() -> None:
    results = await judged(command("messages/answers-late"), "requests/unknown-method", patience=0.6)
    assert results["requests/unknown-method"].verdict is Verdict.SLOW


async def test_a_client_that_is_slow_from_its_start_is_waited_for() -> None:
    results = await judged(command("unusual/takes-its-time"), "requests/unknown-method", patience=0.3)
    assert results["requests/unknown-method"].verdict is Verdict.PASS


def test_every_wait_follows_from_what_was_measured() -> None:
    pace = Pace(least=1.0, least_start=10.0)
    assert (pace.patience, pace.starting) == (1.0, 30.0)  # the first start may take three times as long
    pace.started(2.0)
    assert (pace.patience, pace.starting) == (1.0, 10.0)
    pace.started(29.0)
    pace.answered(0.5)
    pace.answered(0.1)
    assert (pace.patience, pace.starting) == (2.5, 87.0)


async def test_what_follows_from_one_fault_is_told_once() -> None:
    program = """
import json, subprocess, sys
agent = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1)
ask = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
agent.stdin.write(json.dumps(ask).encode() + b"\\n")
agent.stdin.flush()
agent.wait()
"""
    # In the other order the first case has to wait for the one that stands for it.
    cases = client_cases.matching(["initialize/*-version"])[::-1]
    with anyio.fail_after(30):
        done = await run(Setting(python(program), PROFILE, Pace(0.3)), cases)
    results = {case.id: case for case in done.cases}
    assert results["initialize/unsupported-version"].verdict is Verdict.WARN
    lower = results["initialize/lower-version"]
    assert (lower.verdict, lower.root) == (Verdict.UNREACHED, "initialize/unsupported-version")


async def test_a_client_that_ignores_signals_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    child = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    program = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
with open({str(tmp_path / "pids")!r}, "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
subprocess.Popen(sys.argv[1:], stdin=-1).communicate(b'{{"jsonrpc":"2.0","id":0,"method":"ready"}}\\n')
time.sleep(60)
"""
    results = await judged(python(program), "initialize/first")
    assert "'ready'" in results["initialize/first"].reason
    assert all(ends(int(pid)) for pid in (tmp_path / "pids").read_text().split())


async def test_a_situation_that_the_profile_does_not_have_is_told() -> None:
    results = await judged(command("clean"), "permission/late", profile=PROFILE.__class__())
    assert results["permission/late"].verdict is Verdict.SKIP
    assert results["permission/late"].reason == "the profile has no [situations.cancel]"


async def test_a_run_knows_who_was_judged_and_keeps_the_order_and_the_conversations() -> None:
    chosen = client_cases.matching(["ids/*", "envelope/json"])
    result = await run(Setting(command("clean"), PROFILE), chosen, jobs=3)
    assert [case.id for case in result.cases] == [case.id for case in chosen]
    assert (result.kind, result.subject) == ("client", {"name": "clean", "version": "1.0", "protocolVersion": 1})
    assert Run.from_json(result.to_json()) == result or result.to_json() == Run.from_json(result.to_json()).to_json()
    first = result.cases[0].transcript
    assert [line["from"] for line in first[:3]] == ["suite", "subject", "suite"]
    assert '"method": "initialize"' in first[1]["text"]
