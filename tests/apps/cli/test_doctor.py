"""What `acp-server doctor` says of agents, sound and broken ones."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from acp_server.apps.cli import main
from tests.agent.processes.driver import PATIENCE, environment

SOUND = """
import json, sys
INFO = {"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}, "authMethods": [{"id": "x", "name": "X"}],
        "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}}}
def answer(message):
    if message["method"] == "initialize":
        return {"result": INFO}
    return {"result": {"sessionId": "s"}}
def main():
    for line in sys.stdin:
        message = json.loads(line)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
"""
RUN = "main()\n"


def examined(tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    (tmp_path / "agent").write_text(source)
    code = main(["doctor", *options, sys.executable, str(tmp_path / "agent")])
    return code, capsys.readouterr().out


def test_a_sound_agent_has_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = examined(tmp_path, SOUND + RUN, capsys)
    assert (code, "FAULT" in said, "note" in said) == (0, False, False)
    assert "session/new opens a session" in said


def test_what_is_found_is_one_object_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.py").write_text(SOUND + 'INFO["protocolVersion"] = 2\n' + RUN)
    assert main(["doctor", "--json", sys.executable, str(tmp_path / "agent.py")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["faults"] == 1
    assert {"kind": "fault", "text": "protocolVersion is 2; editors speak version 1"} in found["findings"]
    assert {each["kind"] for each in found["findings"]} == {"ok", "fault"}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (
            SOUND + 'print("Welcome!", flush=True)\n' + RUN,
            "initialize: standard output has a line that is not a message: Welcome!",
        ),
        (SOUND + 'INFO["protocolVersion"] = 2\n' + RUN, "protocolVersion is 2; editors speak version 1"),
        (
            SOUND + 'answer = lambda _: {"error": {"code": -32603, "message": "no key"}}\n' + RUN,
            "initialize: it answers with an error: ",
        ),
        ('import sys\nsys.exit("no module named torch")\n', "it ended with status 1; it said: no module named torch"),
        (
            SOUND
            + 'good = answer\nanswer = lambda m: good(m) if m["method"] == "initialize" else {"result": {}}\n'
            + RUN,
            "session/new: {}",
        ),
        (SOUND + RUN + "sys.exit(7)\n", "started without input, it ends with status 7; expected 0"),
        ("import time\ntime.sleep(1000)\n", "initialize: no answer within 1 s"),
    ],
    ids=["noise", "version", "error", "dies", "no session", "status", "silent"],
)
def test_the_fault_of_a_broken_agent_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, fault: str
) -> None:
    code, said = examined(tmp_path, source, capsys, *(["--timeout", "1"] if "sleep" in source else []))
    assert code == 1
    assert any(line.startswith("FAULT") and fault in line for line in said.splitlines()), said


@pytest.mark.parametrize(
    ("seconds", "source", "fault"),
    [
        (0.001, SOUND + RUN, "it answers initialize after "),
        (
            0.5,
            SOUND + RUN + "import time\ntime.sleep(1000)\n",
            "its input has ended, and it runs on for more than 0.5 s",
        ),
        (5.0, SOUND + RUN + "sys.exit(7)\n", "its input ends, and it ends with status 7; editors show that as a crash"),
    ],
    ids=["slow", "stays", "status at the end"],
)
def test_an_agent_that_is_slow_to_start_or_to_end_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    source: str,
    fault: str,
) -> None:
    monkeypatch.setattr("acp_server.apps.cli.doctor._SLOW", seconds)
    code, said = examined(tmp_path, source, capsys)
    assert code == 1
    assert any(line.startswith(f"FAULT {fault}") for line in said.splitlines()), said


def test_an_agent_that_waits_without_input_is_said_to_keep_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_server.apps.cli.doctor._SLOW", 0.1)
    _, said = examined(tmp_path, "import time\ntime.sleep(1000)\n", capsys, "--timeout", "0.1")
    assert "ok    started without input, it keeps running\n" in said


def test_a_file_that_is_only_found_from_here_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").write_text(SOUND + RUN)
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", sys.executable, "agent"]) == 1
    said = capsys.readouterr().out
    assert "note  it is started in another folder, as editors do it: agent needs its whole path\n" in said


def test_what_is_missing_and_no_fault_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = examined(tmp_path, f"{SOUND}INFO['agentCapabilities'] = {json.dumps({})}\n{RUN}", capsys)
    assert code == 0
    assert "note  no loadSession: editors cannot open a conversation again" in said


def test_an_agent_without_a_login_is_at_fault_for_the_registry_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = SOUND + 'INFO["authMethods"] = []\n' + RUN
    code, said = examined(tmp_path, agent, capsys)
    assert (code, "FAULT" in said) == (0, False), said
    assert "note  no authMethods; the registry refuses an agent without one" in said
    code, said = examined(tmp_path, agent, capsys, "--registry")
    assert code == 1
    assert "FAULT no authMethods; the registry refuses an agent without one" in said


SILENT = """
import os, sys, time
with open(sys.argv[1], "w") as started: started.write(f"{os.getpid()}\\n")
time.sleep(1000)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_the_doctor_ends_the_agent_and_leaves_no_folder(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    (place := tmp_path / "tmp").mkdir()
    os.mkfifo(tmp_path / "started")
    # For writing as well, so that opening it waits for nothing.
    started = os.open(tmp_path / "started", os.O_RDWR)
    agent = [sys.executable, "-c", SILENT, str(tmp_path / "started")]
    command = [sys.executable, "-m", "acp_server", "doctor", *agent]
    env = environment(TMPDIR=str(place))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        try:
            assert select.select([started], [], [], PATIENCE)[0]
            examined_one = psutil.Process(int(os.read(started, 100)))
            assert list(place.iterdir())
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            os.close(started)
    assert (process.returncode, out, err.strip()) == (128 + number, b"", b"")
    assert not examined_one.is_running() or examined_one.status() == psutil.STATUS_ZOMBIE
    assert not list(place.iterdir())


def test_a_file_of_the_command_that_serves_the_agent_is_not_taken_for_one_of_the_user_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a checkout of this project.
    (tmp_path / "acp_server").mkdir()
    (tmp_path / "wrong.py").write_text("from acp_server import Agent\nagent = = 1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "wrong.py"]) == 1
    said = capsys.readouterr().out
    assert "SyntaxError" in said
    assert "whole path" not in said


def test_a_program_that_says_everything_back_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    echo = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    assert main(["doctor", sys.executable, "-c", echo]) == 1
    assert "FAULT initialize: the program echoes its input" in capsys.readouterr().out


KEEPS = (
    SOUND
    + """
INFO["agentCapabilities"]["sessionCapabilities"] |= {ways}
good = answer
def answer(message):
    if message["method"].startswith("session/"):
        open({log!r}, "a").write(message["method"] + " " + message["params"].get("sessionId", "") + "\\n")
    return good(message)
"""
)


TRIED = "session/new \nsession/new \nsession/prompt s\n"


@pytest.mark.parametrize(
    ("ways", "asked"),
    [
        ({"delete": {}, "close": {}}, f"{TRIED}session/delete s\nsession/delete s\n"),
        ({"close": {}}, f"{TRIED}session/close s\nsession/close s\n"),
        ({}, TRIED),
    ],
    ids=["delete", "close", "neither"],
)
def test_the_examination_leaves_no_session_where_the_agent_can_forget_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ways: dict[str, object], asked: str
) -> None:
    log = tmp_path / "log"
    source = KEEPS.replace("{ways}", repr(ways)).replace("{log!r}", repr(str(log)))
    code, said = examined(tmp_path, source + RUN, capsys)
    assert code == 0, said
    assert log.read_text() == asked


DROPPED = "it started no MCP server for a session that names one, neither with the session nor in a turn"
STARTS = """
import subprocess
def start(message):
    for server in message["params"]["mcpServers"]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([server["command"], *server["args"]], **pipes) as process:
            request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
            process.stdin.write(json.dumps(request).encode() + b"\\n")
            process.stdin.flush()
            assert b"doctor" in process.stdout.readline()
good, opened = answer, []
def answer(message):
    if message["method"] == "session/prompt":
        TURN
        return {"result": {"stopReason": "REASON"}}
    if message["method"] == "session/new":
        opened.append(message)
        OPENED
    return good(message)
"""


def starting(opened: str = "pass", turn: str = "pass", reason: str = "end_turn") -> str:
    return SOUND + STARTS.replace("OPENED", opened).replace("TURN", turn).replace("REASON", reason) + RUN


def test_an_agent_that_drops_mcp_servers_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = examined(tmp_path, starting(), capsys)
    assert (code, DROPPED in said) == (0, True), said


@pytest.mark.parametrize(
    "source",
    [starting(opened="start(message)"), starting(turn="start(opened[-1])")],
    ids=["with the session", "in the turn"],
)
def test_an_agent_that_starts_them_has_its_due(tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str) -> None:
    code, said = examined(tmp_path, source, capsys)
    assert (code, DROPPED in said) == (0, False), said
    assert "it starts the MCP servers that a session names" in said


def test_a_turn_that_the_agent_refuses_is_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = examined(tmp_path, starting(reason="refusal"), capsys)
    assert "MCP server" not in said


def test_our_own_agent_without_servers_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["from acp_server import Agent", "agent = Agent('a')", "@agent.prompt", "async def p(turn): yield 'x'"]
    (tmp_path / "mine.py").write_text("\n".join(lines))
    assert main(["doctor", str(tmp_path / "mine.py")]) == 0
    assert DROPPED in capsys.readouterr().out
