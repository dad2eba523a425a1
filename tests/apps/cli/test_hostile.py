"""What an agent says in any field neither steers the terminal nor looks like a line of the client's own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acp_server.apps.cli import main
from tests.agent.processes.driver import environment
from tests.apps.cli.hostile import EVIL, FORGED, STEER

COLOUR = re.compile(r"\x1b\[\d+(?:;\d+)*m")
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def judge(text: str) -> None:
    assert "evil" in text
    text = COLOUR.sub("", text)
    assert not UNSAFE.findall(text)
    assert not re.findall(rf"^{FORGED}", text, re.MULTILINE)


@pytest.mark.parametrize("how", ["log in", "refuse"])
def test_chat(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acp_server", "chat", sys.executable, "-m", "tests.apps.cli.hostile", how],
        # The number is the answer to each question, and what is said in each turn.
        input="1\n" * 12,
        env=environment(FORCE_COLOR="1"),
        capture_output=True,
        encoding="utf-8",
        timeout=30,
    )
    assert done.returncode == 1
    judge(done.stdout)
    assert done.stderr == ""
    assert ("malformed response" in done.stdout) == (how == "log in")
    assert ("the agent exited with status 1" in done.stdout) == (how == "log in")


def test_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = [
        {"id": EVIL, "method": EVIL, "params": {EVIL: EVIL}},
        {"method": "$/cancel_request", "params": {"requestId": EVIL}},
        {"method": "session/update", "params": {"update": {"sessionUpdate": EVIL, "title": EVIL}}},
        {"id": EVIL, "result": EVIL},
        {"id": EVIL, "error": {"code": EVIL, "message": EVIL, "data": EVIL}},
        {"id": EVIL},
        EVIL,
        [{"method": EVIL, "params": EVIL}],
    ]
    entries = [{"t": 0, "dir": way, "msg": message} for message in messages for way in ("in", "out")]
    entries.append({"t": 0, "dir": "in", "raw": EVIL})
    # What JSON says by escapes; surrogates are refused where a recording is read.
    lines = [json.dumps(entry).replace("\\ud800", "") for entry in entries]
    (tmp_path / "it").write_text("\n".join(lines))
    for arguments in (["--full"], []):
        assert main(["trace", *arguments, str(tmp_path / "it")]) == 1
        shown = capsys.readouterr().out
        judge(shown)
        anomalies = [line for line in shown.splitlines() if " !!! " in line]
        assert len(shown.splitlines()) == len(entries) + len(anomalies)


def test_the_only_line_that_a_failed_command_writes_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    name = STEER.replace("\ud800", "") + f"\n{FORGED}.py"
    assert main(["serve", name]) == 2
    said = capsys.readouterr().err
    judge(said)
    assert said.startswith("acp-server: ")
