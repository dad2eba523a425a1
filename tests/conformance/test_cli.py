"""The command line: what it lists, what it runs, what it says of mistakes, and its exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from acp_conformance.agent import cases as agent_cases
from acp_conformance.cli import main
from acp_conformance.core.process import MARK
from tests.conformance.subjects import HOSTILE, command

SUITE = (sys.executable, "-m", "acp_conformance")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def judge(body: str, *options: str) -> Result:
    return invoke("agent", *options, "--", *command(body))


def test_every_case_is_listed_with_its_level_and_its_rule() -> None:
    listed = invoke("agent", "--list")
    assert listed.exit_code == 0
    lines = listed.output.splitlines()
    assert len(lines) == len(agent_cases.load())
    for line, case in zip(lines, agent_cases.load(), strict=True):
        assert line.split()[:2] == [case.id, case.level.value]
        assert case.title in line
        assert all(need in line for need in case.needs)


def test_it_tells_its_version_and_that_of_its_rules() -> None:
    told = invoke("--version")
    assert told.exit_code == 0
    assert re.fullmatch(r"acp-conformance \d+(\.\d+)+\S*, rules \d+\n", told.output)


def test_prompts_can_be_left_out() -> None:
    judged = judge("serve()", "--no-prompts", "--case", "turns/stop-reason", "--case", "ids/zero")
    assert "the profile has no situation 'quick'" in judged.output


def test_patterns_choose_what_is_listed() -> None:
    assert (
        invoke("agent", "--list", "--case", "ids/ze*", "--case", "batch/empty")
        .output.split("\n")[1]
        .startswith("batch/empty")
    )
    assert len(invoke("agent", "--list", "--case", "ids/zero").output.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "which agent?"),
        (["--case", "ids/zzz", "--", "true"], "no case fits 'ids/zzz'"),
        (["--profile", "nobody", "--", "true"], "no profile 'nobody'"),
        (["--timeout", "0", "--", "true"], "--timeout"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_run(arguments: Sequence[str], why: str) -> None:
    result = invoke("agent", *arguments)
    assert result.exit_code == 2
    assert why in result.output


def test_a_profile_that_is_wrong_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("[situations.sing]\nprompt = 'la'\n")
    result = invoke("agent", "--profile", str(path), "--", "true")
    assert result.exit_code == 2
    assert "[situations.sing]: no such situation" in result.output


@pytest.mark.parametrize(
    ("body", "case", "code"),
    [
        ("serve()", "ids/zero", 0),
        ("serve()", "envelope/unknown-*", 0),
        ("serve()", "bad-input/method-no-string", 1),
        (HOSTILE["exits at once"], "ids/zero", 2),
        ("serve()", "turns/*", 2),
    ],
    ids=["kept", "several kept", "broken", "cannot run", "nothing to try"],
)
def test_the_exit_code_says_what_became_of_the_run(body: str, case: str, code: int) -> None:
    result = judge(body, "--case", case)
    assert result.exit_code == code, result.output


def test_batches_bind_under_strict_only() -> None:
    assert judge("serve()", "--case", "batch/survives").exit_code == 0
    assert judge("serve()", "--strict", "--case", "batch/survives").exit_code == 1


def test_a_command_that_is_not_there_cannot_be_run() -> None:
    result = invoke("agent", "--case", "ids/zero", "--", "/no/such/program")
    assert result.exit_code == 2
    assert "the command cannot be started" in result.output


def test_the_reports_that_are_asked_for_are_written(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"run.{kind}" for kind in ("json", "junit", "html", "markdown")}
    options = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    assert judge("serve()", "--case", "ids/zero", *options).exit_code == 0
    run = json.loads(files["json"].read_text("utf-8"))
    assert run["subject"] == {"name": "small", "version": "1", "protocolVersion": 1}
    assert [(case["id"], case["verdict"]) for case in run["cases"]] == [("ids/zero", "pass")]
    assert [line["from"] for line in run["cases"][0]["transcript"]][:2] == ["suite", "subject"]
    assert "zero" in files["junit"].read_text("utf-8")
    assert "1 passed" in files["markdown"].read_text("utf-8")
    assert "ids/zero" in files["html"].read_text("utf-8")


def test_a_report_that_cannot_be_written_is_a_mistake_that_is_named(tmp_path: Path) -> None:
    result = judge("serve()", "--case", "ids/zero", "--json", str(tmp_path / "none" / "run.json"))
    assert result.exit_code == 2
    assert "cannot write" in result.output


def test_with_a_baseline_only_what_is_new_fails(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    assert judge("serve()", "--case", "bad-input/method-no-string", "--json", str(before)).exit_code == 1
    known = judge("serve()", "--case", "bad-input/method-no-string", "--baseline", str(before))
    assert known.exit_code == 0
    assert known.output.endswith(f"New since {before}: nothing that counts as a failure\n")
    more = judge("serve()", "--case", "bad-input/*-no-*", "--baseline", str(before))
    assert more.exit_code == 1
    assert more.output.endswith(f"New since {before}: bad-input/params-no-structure\n")
    (tmp_path / "other.json").write_text("{}")
    wrong = judge("serve()", "--case", "ids/zero", "--baseline", str(tmp_path / "other.json"))
    assert (wrong.exit_code, "not a report" in wrong.output) == (2, True)


def test_what_was_passed_and_is_skipped_now_is_worse_than_the_baseline(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    chosen = ("--no-prompts", "--case", "ordering/chunks", "--case", "ids/zero")
    assert judge("serve()", *chosen, "--json", str(before)).exit_code == 0
    assert judge("serve()", *chosen, "--baseline", str(before)).exit_code == 0
    before.write_text(before.read_text("utf-8").replace('"skip"', '"pass"'))
    worse = judge("serve()", *chosen, "--baseline", str(before))
    assert worse.exit_code == 1
    assert worse.output.endswith(f"New since {before}: ordering/chunks\n")


@pytest.mark.parametrize(("options", "is_own"), [((), True), (("--keep-home",), False)])
def test_the_agent_has_a_home_of_its_own_unless_it_may_keep_the_users(
    options: Sequence[str], is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    for name in names:
        monkeypatch.setenv(name, str(tmp_path / "user"))
    seen = tmp_path / "seen.json"
    body = f"import json, os; json.dump([os.environ[each] for each in {names}], open({str(seen)!r}, 'w')); serve()"
    judge(body, *options, "--no-prompts", "--case", "ids/zero")
    found = json.loads(seen.read_text())
    assert all((each == str(tmp_path / "user")) is not is_own for each in found)
    assert not any(Path(each).exists() for each in found)


def test_a_short_list_says_what_may_fail_and_why(tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.toml"
    assert judge("serve()", "--case", "bad-input/method-no-string", "--accept", str(accepted)).exit_code == 1
    (entry,) = tomllib.loads(accepted.read_text("utf-8"))["accepted"]
    assert entry.keys() == {"case", "reason", "since"}
    assert entry["case"] == "bad-input/method-no-string"
    assert judge("serve()", "--case", "bad-input/method-no-string", "--baseline", str(accepted)).exit_code == 0
    accepted.write_text('[[accepted]]\ncase = "bad-input/method-no-string"\nsince = "2026-01-02"\n')
    unexplained = judge("serve()", "--case", "ids/zero", "--baseline", str(accepted))
    assert (unexplained.exit_code, "no reason" in unexplained.output) == (2, True)


def test_what_should_be_can_be_required() -> None:
    assert judge("serve()", "--case", "batch/survives").exit_code == 0
    assert judge("serve()", "--case", "batch/survives", "--require", "SHOULD").exit_code == 1


def test_two_runs_are_compared(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    judge("serve()", "--case", "ids/zero", "--json", str(before))
    judge(
        "answer = lambda message: message.get('id') and write({'jsonrpc': '2.0', 'id': message['id'], "
        "'result': {'protocolVersion': 1}})\nserve()",
        "--case",
        "ids/zero",
        "--json",
        str(after),
    )
    assert invoke("compare", str(before), str(before)).exit_code == 0
    worse = invoke("compare", str(before), str(after))
    assert worse.exit_code == 1
    assert "ids/zero" in worse.output
    assert invoke("compare", str(after), str(before)).exit_code == 0


def test_what_is_no_report_cannot_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    result = invoke("compare", str(path), str(path))
    assert result.exit_code == 2
    assert "not a report" in result.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_takes_its_agents_with_it_and_leaves_its_reports(
    number: signal.Signals, tmp_path: Path
) -> None:
    body = HOSTILE["ignores every signal and the end of input"]
    report = tmp_path / "run.json"
    # It answers nothing: the first verdict comes when that is certain.
    options = ["--json", str(report), "--case", "closing", "--case", "initialize", "--timeout", "2"]
    arguments = [*SUITE, "agent", *options, "--", *command("os.write(2, b'x');" + body)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the first verdict: the run is under way
        tokens: set[str] = set()
        while not tokens:  # one agent may just have ended, and the next one not be there yet
            tokens = {mark for child in psutil.Process(process.pid).children() if (mark := _mark(child))}
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    left = [each.pid for each in psutil.process_iter() if _mark(each) in tokens]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
    run = json.loads(report.read_text("utf-8"))
    assert run["interrupted"]
    assert "the run was interrupted" in {case["reason"] for case in run["cases"]}


def _mark(process: psutil.Process) -> str | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(MARK)
    except psutil.Error:
        return None
