"""An agent that hangs, floods, ends or lies never hangs or crashes the suite, and leaves nothing behind."""

import time
from collections.abc import Sequence

import anyio
import psutil
import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent.run import AgentRun
from acp_conformance.core.process import MARK
from acp_conformance.core.result import Run, Verdict
from tests.conformance.subjects import FLOODS_STDERR, HOSTILE, command

SOME = ("initialize/answers", "envelope/long-line", "envelope/json-lines", "sessions/new", "closing/exits")
SHORT = 1.5
"""Seconds for a case where the suite has to wait in vain."""

LONG = 30.0
"""Seconds for a case that ends by itself, however busy the machine is."""


def judge(command: Sequence[str], patterns: Sequence[str] = SOME, timeout: float = LONG) -> tuple[Run, str]:
    judged = AgentRun(command, timeout=timeout, jobs=len(SOME), patient=1)
    return anyio.run(judged.run, agent_cases.load().matching(patterns)), judged.token


def verdicts(run: Run) -> dict[str, Verdict]:
    return {case.id: case.verdict for case in run.cases}


def reason(run: Run, id: str) -> str:
    return next(case.reason for case in run.cases if case.id == id)


def alive(token: str) -> list[psutil.Process]:
    """The processes of a run that live on although there was time for a killed one to end on a busy machine."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, "").startswith(token) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    psutil.wait_procs(found, timeout=10)
    return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_every_case_has_a_verdict_in_time_and_no_process_is_left(body: str) -> None:
    began = time.monotonic()
    run, token = judge(command(body), timeout=SHORT)
    assert [case.id for case in run.cases] == [case.id for case in agent_cases.load().matching(SOME)]
    errors = [case for case in run.cases if case.verdict is Verdict.ERROR]
    assert Verdict.SUITE_ERROR not in verdicts(run).values()
    assert all("wrote no message" in case.reason for case in errors), errors
    assert all(case.reason for case in run.cases if case.verdict is not Verdict.PASS)
    assert not alive(token)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("name", "id", "verdict", "why", "timeout"),
    [
        ("hangs", "initialize/answers", Verdict.FAIL, "did not come within", SHORT),
        ("hangs", "sessions/new", Verdict.SKIP, "initialize is not answered", SHORT),
        ("exits at once", "sessions/new", Verdict.ERROR, "wrote no message: the process ended with status 3", LONG),
        ("closes its output and lives", "initialize/answers", Verdict.ERROR, "its output ended", LONG),
        ("logs to its output", "envelope/json-lines", Verdict.FAIL, "in the first conversation", LONG),
        ("floods its output with garbage", "initialize/answers", Verdict.FAIL, "more than 20,000 messages", LONG),
        ("floods its output with messages", "initialize/answers", Verdict.FAIL, "more than 20,000 messages", LONG),
        ("writes one line without end", "initialize/answers", Verdict.FAIL, "a line of more than", LONG),
        ("answers without a newline", "envelope/last-line", Verdict.FAIL, "not ended by a newline", SHORT),
        ("ends after its first answer", "initialize/twice", Verdict.FAIL, "the process ended with status 0", LONG),
        ("kills itself after its first answer", "sessions/new", Verdict.FAIL, "the process ended with status -9", LONG),
        (
            "stops reading after its first answer",
            "envelope/long-line",
            Verdict.FAIL,
            "room in its standard input",
            SHORT,
        ),
        ("ignores every signal and the end of input", "closing/exits", Verdict.WARN, "it still runs", SHORT),
        ("stops itself", "initialize/answers", Verdict.FAIL, "did not come within", SHORT),
    ],
)
def test_the_reason_says_what_it_did(name: str, id: str, verdict: Verdict, why: str, timeout: float) -> None:
    run, _ = judge(command(HOSTILE[name]), [id], timeout)
    assert verdicts(run)[id] is verdict
    assert why in reason(run, id)


def test_a_flood_on_standard_error_breaks_no_rule() -> None:
    run, token = judge(command(FLOODS_STDERR), ["initialize/answers", "envelope/unknown-method", "closing/exits"])
    assert set(verdicts(run).values()) == {Verdict.PASS}
    assert all(len(case.stderr) <= 4000 for case in run.cases)
    assert not alive(token)


def test_what_it_wrote_to_standard_error_before_it_ended_is_shown() -> None:
    run, _ = judge(command("os.write(2, b'no licence\\n'); sys.exit(1)"), ["initialize/answers"])
    assert run.cases[0].stderr == "no licence\n"
    assert run.exit_code() == 2


def test_the_end_of_the_run_itself_takes_the_agents_with_it() -> None:
    async def cut_short(judged: AgentRun) -> None:
        with anyio.move_on_after(1):
            await judged.run(agent_cases.load())

    judged = AgentRun(command(HOSTILE["ignores every signal and the end of input"]))
    anyio.run(cut_short, judged)
    assert not alive(judged.token)


def test_what_serves_an_id_of_a_wrong_type_is_shown_its_answer() -> None:
    run, _ = judge(command(), ["ids/array", "ids/object"], SHORT)
    assert set(verdicts(run).values()) == {Verdict.WARN}
    assert reason(run, "ids/array").startswith("there is no error with the id null; there is {")
    assert all(f'"id": {id}' in reason(run, case) for case, id in (("ids/array", "["), ("ids/object", "{")))


def test_what_serves_a_line_that_is_no_text_is_shown_its_answer() -> None:
    run, _ = judge(command("sys.stdin.reconfigure(errors='replace'); serve()"), ["bad-input/invalid-utf-8"], SHORT)
    assert verdicts(run) == {"bad-input/invalid-utf-8": Verdict.WARN}
    assert reason(run, "bad-input/invalid-utf-8").startswith('the answer is {"jsonrpc": "2.0", "id": 77, "error"')


def test_what_ends_late_is_too_slow_and_breaks_no_rule() -> None:
    run, _ = judge(command("serve(); time.sleep(4)"), ["closing/exits"], timeout=6)
    assert verdicts(run) == {"closing/exits": Verdict.SLOW}
    assert reason(run, "closing/exits") == "it ended more than 3 s after the end of its input"


def test_what_is_still_starting_when_its_input_ends_has_the_time_that_a_start_takes() -> None:
    run, _ = judge(command("time.sleep(3); serve()"), ["closing/exits-at-once"], timeout=4)
    assert verdicts(run) == {"closing/exits-at-once": Verdict.PASS}


def test_the_same_agent_has_the_same_verdicts_again() -> None:
    patterns = ["initialize", "ids/zero", "bad-input/number", "batch/empty"]
    first, _ = judge(command(), patterns)
    assert Verdict.FAIL in verdicts(first).values()
    for _ in range(2):
        assert verdicts(judge(command(), patterns)[0]) == verdicts(first)
