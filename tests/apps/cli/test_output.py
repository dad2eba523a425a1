"""Standard output that takes nothing any more: each command ends at once, with an exit status that says so."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import anyio
import pytest

from acp_server.apps.cli.output import CannotWrite, StandardOutput
from tests.agent.processes.driver import environment
from tests.prefork import Prefork

TALKER = "tests.apps.cli.talker:agent"
FULL = "acp-server: cannot write: No space left on device\n"
CLOSED = "acp-server: cannot write: Bad file descriptor\n"
full_disk = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@contextmanager
def _nowhere(how: str) -> Iterator[int]:
    """A descriptor that takes no arguments."""
    if how == "full":
        fd = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, fd = os.pipe()
        os.close(reader)
    yield fd
    os.close(fd)


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(chats: Prefork) -> Run:
    """The exit status of a command, and what is on its standard error."""

    def run(how: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        command = [sys.executable, "-m", "acp_server", *arguments]
        if how == "closed":
            shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
            done = subprocess.run(shell, capture_output=True, env=environment(), encoding="utf-8", timeout=30)
        else:
            with _nowhere(how) as fd:
                done = chats.run(command, stdout=fd, text=stdin, env=environment())
        return done.returncode, done.stderr

    return run


@pytest.mark.parametrize(
    ("how", "said"), [("no reader", ""), pytest.param("full", FULL, marks=full_disk), ("closed", CLOSED)]
)
def test_one_prompt_is_cancelled_when_its_answer_cannot_be_written(how: str, said: str, run: Run) -> None:
    # An agent that is not cancelled never ends this turn.
    assert run(how, "chat", "-p", "hang", TALKER) == (1, f"stopped\n{said}")
    assert run(how, "chat", "-p", "hang", "--json", TALKER) == (1, said)


@pytest.mark.parametrize(("how", "said"), [("no reader", ""), pytest.param("full", FULL, marks=full_disk)])
def test_the_other_commands_that_drive_an_agent_end_with_their_output(
    how: str, said: str, tmp_path: Path, run: Run
) -> None:
    assert run(how, "demo", str(tmp_path)) == (1, said)
    assert run(how, "chat", TALKER, stdin="hang\n") == (1, said)
    assert run(how, "doctor", TALKER) == (1, said)


@contextmanager
def _unread() -> Iterator[None]:
    """In this block our own standard output is a pipe that has no reader."""
    with _nowhere("no reader") as fd, open(fd, "w", closefd=False) as stream, redirect_stdout(stream):
        yield


async def _write_on(output: StandardOutput) -> None:
    with output.needed():
        output.write("first")
        output.write("second")
        await anyio.sleep_forever()


@pytest.mark.anyio
async def test_a_block_that_needs_the_output_is_cancelled_at_the_first_failure() -> None:
    with _unread(), anyio.fail_after(5), pytest.raises(CannotWrite) as lost:
        await _write_on(StandardOutput())
    assert lost.value.has_no_reader


def test_elsewhere_the_failure_is_raised() -> None:
    with _unread(), pytest.raises(CannotWrite, match=f"cannot write: {os.strerror(errno.EPIPE)}"):
        StandardOutput().write("first")
