"""How the commands that drive no agent end when their output is closed, or has no room."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from acp_server.apps.cli import main
from acp_server.apps.cli.output import CannotWrite, written
from tests.agent.processes.driver import PATIENCE, environment
from tests.apps.cli.test_doctor import RUN, SOUND

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the devices and the statuses are those of POSIX")

FULL = Path("/dev/full")


def command(folder: Path, name: str) -> list[str]:
    """A command line that writes several lines."""
    agent = folder / "agent"
    agent.write_text(SOUND + RUN)
    recording = folder / "recording"
    lines = [json.dumps({"t": n, "dir": "in", "msg": {"method": "x" * 100}}) + "\n" for n in range(1000)]
    recording.write_text("".join(lines))
    return {
        "overview": ["--help"],
        "help": ["doctor", "--help"],
        "version": ["--version"],
        "doctor": ["doctor", sys.executable, str(agent)],
        "trace": ["trace", str(recording)],
        "new": ["new", str(folder / "mine")],
    }[name]


NAMES = ["overview", "help", "version", "doctor", "trace", "new"]


def ended(words: list[str], output: int) -> tuple[int, str]:
    """The exit status of a command with this output, and what it has said on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "acp_server", *words],
        stdout=output,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
        timeout=PATIENCE,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_that_has_closed_the_pipe_ends_a_command_without_a_word(tmp_path: Path, name: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert ended(command(tmp_path, name), writer) == (1, "")
    finally:
        os.close(writer)


@pytest.mark.skipif(not FULL.exists(), reason="there is no such device here")
@pytest.mark.parametrize("name", NAMES)
def test_an_output_without_room_is_one_line_and_exit_code_1(tmp_path: Path, name: str) -> None:
    with FULL.open("wb") as full:
        said = "acp-server: cannot write: No space left on device\n"
        assert ended(command(tmp_path, name), full.fileno()) == (1, said)


def test_only_errors_of_writing_are_taken_for_some() -> None:
    pipe, other = OSError(errno.EPIPE, "Broken pipe"), ValueError()
    with pytest.raises(CannotWrite), written():
        raise ExceptionGroup("tasks", [ExceptionGroup("more", [pipe])])
    for error in (
        ExceptionGroup("tasks", [pipe, other]),
        OSError(errno.ENOSPC, "No space left on device", "file"),
        OSError(errno.ENOENT, "No such file or directory"),
    ):
        with pytest.raises(type(error)) as raised, written():
            raise error
        assert raised.value is error


def test_an_output_of_the_caller_s_may_be_full_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def write(self, s: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["--version"]) == 1
    assert capsys.readouterr().err == "acp-server: cannot write: No space left on device\n"
