"""`acp-server demo`, as it runs where there is no terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.processes.driver import environment


def demo(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "acp_server.cli", "demo", str(folder)],
        stdin=subprocess.DEVNULL,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def in_order(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, f"{part!r} is missing in {text!r}"
        text = text[text.index(part) + len(part) :]


def test_a_session_with_a_search_that_is_cancelled_in_the_middle_and_keeps_what_it_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A project\nabout cancelling\n")
    for number in range(50):
        (tmp_path / f"{number}.txt").write_text("not cancelled\n" * 400)
    text = demo(tmp_path)
    in_order(
        text,
        "1. initialize\n",
        "protocol version 1",
        f"2. session/new {tmp_path}\n",
        "session sess_",
        "/search PATTERN [PATH]",
        r"3. session/prompt /search (?i)\bcancel",
        ":1:5: not cancelled\n",
        " more lines\n",
        "20,001 hits in 51 files.\n",
        "<-- stopReason end_turn",
        "4. session/prompt /search .\n",
        "[in progress]",
        ":1:1: not cancelled\n",
        "--> session/cancel\n",
        "Partial results: ",
        "[failed]",
        "<-- stopReason cancelled, ",
        "5. session/prompt /read README.md:1-5\n",
        "# A project\n",
        "[completed]",
        "6. session/prompt /read ../../../../../../../../etc/passwd\n",
        "Outside of the session's directories",
        "it has ended, after ",
    )
    assert "\x1b" not in text


def test_a_folder_with_nothing_to_search_is_said_to_have_too_little(tmp_path: Path) -> None:
    text = demo(tmp_path)
    in_order(
        text, "4. session/prompt /search .\n", "stopReason end_turn", "too little here to search", "6. session/prompt"
    )


def test_an_agent_that_cannot_serve_is_one_line_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from acp_server.cli import demo as module
    from acp_server.cli import main

    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", "raise SystemExit(7)"))
    assert main(["demo", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "acp-server: the agent exited with status 7; initialize has no answer\n"
