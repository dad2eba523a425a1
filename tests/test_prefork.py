"""A program that is forked is what it would be if it had been started by itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.prefork import Prefork, prefork

PROGRAM = """
import atexit, os, signal, sys
atexit.register(print, "left", flush=True)
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], os.getsid(0) == os.getpid(), sorted(os.listdir("/proc/self/fd")))
print(__name__, signal.getsignal(signal.SIGINT) is signal.default_int_handler, file=sys.stderr)
exec(sys.stdin.read())
"""


@pytest.fixture(scope="module")
def started() -> Iterator[Prefork]:
    with prefork("json") as started:
        yield started


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_it_has_arguments_a_folder_an_environment_a_session_and_pipes_of_its_own(
    started: Prefork, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), "one", "two"]
    program = started.popen(command, env={**os.environ, "WORD": "here"}, cwd=str(tmp_path))
    with program.stdin, program.stdout, program.stderr:
        assert program.poll() is None
        program.stdin.close()
        # The fourth descriptor is the one that lists them.
        assert program.stdout.read().decode() == (f"['one', 'two'] {tmp_path} here True ['0', '1', '2', '3']\nleft\n")
        assert program.stderr.read() == b"__main__ True\n"
        assert (program.wait(), program.poll(), program.wait()) == (0, 0, 0)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 0),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('ValueError')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("sys.stdout.close()", 0),
        ("os.close(1); print('what cannot be written')", 120),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_it_ends_with_the_status_of_an_interpreter(text: str, status: int, started: Prefork, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os, signal, sys\nexec(sys.stdin.read())\n")
    program = started.popen([str(tmp_path / "program.py")], env=os.environ, cwd=None)
    with program.stdin, program.stdout, program.stderr:
        program.stdin.write(text.encode())
        program.stdin.close()
        assert program.wait() == status
        assert (b"ValueError" in program.stderr.read()) == ("ValueError" in text)


LEAVING = """
import atexit, threading

class Left:
    def __init__(self, name):
        self.name, self.itself = name, self
    def __del__(self):
        print(self.name, "is finalized", flush=True)

left = Left("what the program holds")
atexit.register(print, "the exit")
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread"))).start()
"""


def test_what_a_program_leaves_is_ended_as_at_the_end_of_an_interpreter(started: Prefork, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LEAVING)
    done = started.run([str(tmp_path / "program.py")], env=os.environ, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.splitlines()) == {"a thread", "the exit", "what the program holds is finalized"}


def test_it_may_have_a_fourth_descriptor(started: Prefork, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os\nos.write(3, b'here')\nprint(os.listdir('/proc/self/fd'))\n")
    near, far = os.pipe()
    program = started.popen([str(tmp_path / "program.py")], env=os.environ, fourth=far)
    os.close(far)
    with program.stdin, program.stdout, program.stderr, open(near, "rb") as fourth:
        assert fourth.read() == b"here"
        assert (program.wait(), program.stderr.read()) == (0, b"")


STOOD_FOR = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], flush=True)
exec(sys.stdin.read())
"""


@pytest.fixture
def stood_for(started: Prefork, tmp_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that stands for a fork which runs."""
    (tmp_path / "program.py").write_text(STOOD_FOR)
    command = started.stand_in([sys.executable, str(tmp_path / "program.py"), "one", "two"])
    pipe = subprocess.PIPE
    env = {**os.environ, "WORD": "here"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=tmp_path, bufsize=0) as process:
        assert process.stdout
        assert process.stdout.readline().decode() == f"['one', 'two'] {tmp_path} here\n"
        yield process


@pytest.mark.parametrize(
    ("text", "status"), [("", 0), ("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT)]
)
def test_what_stands_for_a_fork_has_its_streams_and_ends_as_it_does(
    text: str, status: int, stood_for: "subprocess.Popen[bytes]"
) -> None:
    out, _ = stood_for.communicate(f"print('said', flush=True)\n{text}".encode(), timeout=20)
    assert (out, stood_for.returncode) == (b"said\n", status)


def test_a_signal_to_what_stands_for_a_fork_reaches_it(stood_for: "subprocess.Popen[bytes]") -> None:
    stood_for.terminate()
    # A handler in Python may run only after a blocking read that begins in that moment.
    stood_for.communicate(b"sys.exit(signal.sigwait({signal.SIGTERM}))", timeout=20)
    assert stood_for.returncode == signal.SIGTERM


def test_a_fork_ends_with_what_stands_for_it(stood_for: "subprocess.Popen[bytes]") -> None:
    stood_for.kill()
    # It has the other ends of these.
    assert stood_for.stdout
    assert stood_for.stderr
    assert stood_for.stdout.read() + stood_for.stderr.read() == b""
