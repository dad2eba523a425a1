"""`acp-server demo`, as it runs where there is no terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.processes.driver import environment


def demo(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "acp_server", "demo", str(folder)],
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
    (tmp_path / "acp-server-demo.txt").write_text("mine")
    (tmp_path / "0.txt").write_text("not cancelled\n" * 400)
    # Far more than fits between an agent and a client that is behind; one file under many names is quick to make.
    (tmp_path / "vast").mkdir()
    original = tmp_path / "vast" / "0.txt"
    original.write_text("something else\n" * 2_000)
    for number in range(1, 400):
        os.link(original, tmp_path / "vast" / f"{number}.txt")
    text = demo(tmp_path)
    in_order(
        text,
        "1. initialize\n",
        "protocol version 1",
        f"2. session/new {tmp_path}\n",
        "session sess_",
        "/search PATTERN [PATH ...]",
        r"3. session/prompt /search (?i)\bcancel",
        ":1:5: not cancelled\n",
        " more lines\n",
        "401 hits in 403 files.\n",
        "<-- stopReason end_turn",
        "4. session/prompt /search .\n",
        "[in progress]",
        ":1:1: not cancelled\n",
        "--> session/cancel\n",
        "[cancelled]",
        "Partial results: ",
        "before it was stopped.\n",
        "<-- stopReason cancelled, ",
        " after the cancel\n",
        "5. session/prompt /read README.md:1-5\n",
        "# A project\n",
        "[completed]",
        "6. session/prompt /read ../../../../../../../../etc/passwd\n",
        "Outside the session's directories",
        "7. session/prompt /write acp-server-demo1.txt Was this allowed?\n",
        "* Write `acp-server-demo1.txt` [pending]",
        f"+++ {tmp_path}/acp-server-demo1.txt\n",
        "+Was this allowed?\n",
        "    Make it\n",
        "--> Reject\n",
        "[rejected]",
        "<-- stopReason end_turn",
        "it has ended, after ",
    )
    assert (tmp_path / "acp-server-demo.txt").read_text() == "mine"
    assert not (tmp_path / "acp-server-demo1.txt").exists()
    assert "\x1b" not in text


def test_a_folder_with_nothing_to_search_is_said_to_have_too_little(tmp_path: Path) -> None:
    text = demo(tmp_path)
    in_order(
        text, "4. session/prompt /search .\n", "stopReason end_turn", "too little here to search", "6. session/prompt"
    )


def test_an_agent_that_cannot_serve_is_one_line_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from acp_server.apps.cli import demo as module
    from acp_server.apps.cli import main

    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", "raise SystemExit(7)"))
    assert main(["demo", str(tmp_path)]) == 1
    why = "the agent exited with status 7; it ended before it answered initialize"
    assert capsys.readouterr().err == f"acp-server: {why}\n"
