"""`acp-server record`, between an editor and an agent that are real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from acp_server.agent.record import read_recording
from acp_server.apps.cli import main
from tests.agent.processes.driver import PATIENCE, environment, started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX programs")

# Says what comes, in the pieces in which it comes, and its process id first.
ECHO = """
import os
os.write(1, b'%d\\n' % os.getpid())
while data := os.read(0, 65536): os.write(1, data)
os.write(1, b'the end'); raise SystemExit(7)
"""
SIGNALS = """
import os, signal
signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
os.write(1, b'%d\\n' % os.getpid())
while True: os.write(1, b'%d\\n' % signal.sigwait(signals))
"""
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b'%d\\n' % os.getpid())
time.sleep(600)
"""


@contextmanager
def recorded(agent: str, file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """An agent behind `acp-server record`; its process id is the first line of its output."""
    command = [sys.executable, "-m", "acp_server", "record", "--to", str(file), "--", sys.executable, "-c", agent]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[bytes]") -> psutil.Process:
    assert process.stdout is not None
    return psutil.Process(int(process.stdout.readline()))


def test_bytes_pass_unchanged_and_at_once_and_the_exit_code_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "recording"
    with recorded(ECHO, file) as process:
        first_line(process)
        assert process.stdin
        assert process.stdout
        for piece in b"half a li", b"ne\r\n\xff\xfe\x00\n", b'{"jsonrpc":"2.0","method":"x"}\n':
            process.stdin.write(piece)
            read = b""
            while len(read) < len(piece):
                read += os.read(process.stdout.fileno(), 100)
            assert read == piece
        process.stdin.close()
        assert process.stdout.read() == b"the end"
        assert process.wait(PATIENCE) == 7
    entries = read_recording(file).entries
    assert next(entry.raw for entry in entries if entry.dir == "in") == "half a line\r"
    assert [entry.msg for entry in entries if entry.dir == "in"][-1] == {"jsonrpc": "2.0", "method": "x"}
    assert entries[-1].raw == "the end"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_agent_once_and_decides_nothing_here(number: int, tmp_path: Path) -> None:
    with recorded(SIGNALS, tmp_path / "recording") as process:
        agent = first_line(process)
        assert process.stdout
        for _ in range(2):
            process.send_signal(number)
            assert process.stdout.readline() == b"%d\n" % number
        agent.kill()
        assert process.wait(PATIENCE) == 128 + signal.SIGKILL


def test_an_agent_does_not_outlive_its_editor(tmp_path: Path) -> None:
    program = (
        "import sys; from acp_server.apps.cli import main, record; record._CLOSED = record._TERMINATED = 0.05; "
        "sys.exit(main(sys.argv[1:]))"
    )
    agent_command = [sys.executable, "-c", STUBBORN]
    command = [sys.executable, "-c", program, "record", "--to", str(tmp_path / "recording"), "--", *agent_command]
    with subprocess.Popen(
        command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        agent = first_line(process)
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGKILL
    assert not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE


def test_what_an_agent_has_started_does_not_outlive_it(tmp_path: Path) -> None:
    started_by_it = (
        "import subprocess; p = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL); print(p.pid, flush=True)"
    )
    with recorded(started_by_it, tmp_path / "recording") as process:
        child = first_line(process)
        assert process.wait(PATIENCE) == 0
        psutil.wait_procs([child], PATIENCE)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_conversation_is_recorded_and_can_be_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "recording"
    agent = [sys.executable, "-m", "acp_server", "serve", "--store", "memory"]
    with started([sys.executable, "-m", "acp_server", "record", "--to", str(file), "--", *agent]) as editor:
        editor.call(1, "initialize", protocolVersion=1)
        assert editor.finish() == 0
    assert main(["trace", str(file)]) == 0
    assert "#1 initialize" in capsys.readouterr().out
    assert file.stat().st_mode & 0o077 == 0


def test_a_redacted_recording_can_be_traced_and_has_no_word_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recording"
    agent = [sys.executable, "-m", "acp_server", "serve", "--store", "memory"]
    command = [sys.executable, "-m", "acp_server", "record", "--redact", "--to", str(file), "--", *agent]
    with started(command) as editor:
        editor.call(1, "initialize", protocolVersion=1)
        editor.call(2, "session/new", cwd=str(tmp_path), mcpServers=[])
        assert editor.finish() == 0
    assert str(tmp_path) not in file.read_text("utf-8")
    assert main(["trace", str(file)]) == 0
    assert "#2 session/new" in capsys.readouterr().out


def test_without_a_file_it_makes_one_and_says_which(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "acp_server", "record", "--", "cat"]
    env = environment(XDG_STATE_HOME=str(tmp_path), HOME=str(tmp_path))
    done = subprocess.run(command, input=b"x\n", capture_output=True, env=env, timeout=PATIENCE, check=True)
    assert done.stdout == b"x\n"
    (file,) = tmp_path.rglob("*.ndjson")
    assert f"recording to {file}" in done.stderr.decode()


@pytest.mark.parametrize("words", [["mine.py"], ["mine:agent"], ["mine.py", "--log-level", "error"]])
def test_an_agent_is_named_as_in_a_chat(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "mine.py").write_text("from acp_server import Agent\nagent = Agent('mine')\n")
    command = [sys.executable, "-m", "acp_server", "record", "--to", "talk", *words]
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    done = subprocess.run(
        command, cwd=tmp_path, input=request, capture_output=True, env=environment(), timeout=PATIENCE, check=True
    )
    assert b'"name":"mine"' in done.stdout
    assert [entry.dir for entry in read_recording(tmp_path / "talk").entries] == ["in", "out"]


@pytest.mark.parametrize("runnable", [False, True])
def test_a_failed_start_is_one_line_and_exit_code_2_and_leaves_no_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], runnable: bool
) -> None:
    agent, recording = tmp_path / "agent", tmp_path / "recording"
    if runnable:
        agent.write_bytes(b"no program")
        agent.chmod(0o700)
    why = "Exec format error" if runnable else "there is no such file (expected FILE.py, module:attribute or a command)"
    command = ["record", "--to", str(recording), "--", str(agent)]
    assert main(command) == 2
    assert capsys.readouterr().err == f"acp-server: {agent} cannot be started: {why}\n"
    assert not recording.exists()
    recording.touch(0o600)
    assert main(command) == 2
    assert recording.exists()
