"""A program that is forked is what it would be if it had been started by itself."""

import os
import signal
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
        ("sys.exit(3)", 3),
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
