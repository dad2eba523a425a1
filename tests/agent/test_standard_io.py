"""Standard input and output belong to the protocol, whatever else the program does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.processes.driver import environment, plain, started

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@pytest.mark.behaviour("A13")
@BACKENDS
def test_whatever_else_is_written_to_standard_output_reaches_standard_error(backend: str) -> None:
    with plain(backend) as agent:
        assert agent.call(1, "stray") == ""
        agent.close_input()
        assert agent.rest() == []
        assert agent.exit_code() == 0
        for text in ("print", "write", "child", "puts"):
            assert f"stray {text}\n" in agent.stderr
        assert "printed before it began\n" in agent.stderr
        assert "printed after it ended\n" in agent.stderr


@BACKENDS
def test_nobody_else_in_the_program_can_read_what_the_client_sends(backend: str) -> None:
    with plain(backend) as agent:
        agent.send(b'{"jsonrpc":"2.0","id":1,"method":"stray"}\n{"jsonrpc":"2.0","id":2,"method":"echo"}\n')
        answers = {answer["id"]: answer["result"] for answer in (agent.next(), agent.next())}
        assert answers == {1: "", 2: {}}


def test_children_do_not_inherit_the_protocol() -> None:
    code = """
import os, subprocess, sys
from acp_server.agent.process import StandardIO
with StandardIO():
    seen = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, close_fds=False).stdout
    sys.stderr.write(seen.decode())
"""
    with started([sys.executable, "-c", code]) as program:
        ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in (program._into, program._out_of)}
        assert program.exit_code() == 0
        assert "pipe:" in program.stderr
        assert not any(pipe in program.stderr for pipe in ours)


@pytest.mark.behaviour("A13")
@pytest.mark.parametrize("how", ["release", "close"])
def test_standard_output_comes_back_after_a_claim_that_is_released_and_only_then(how: str) -> None:
    code = f"""
import sys
from acp_server.agent.process import StandardIO
printed_to = sys.stdout
standard_io = StandardIO()
print("one")
print("two", file=printed_to)
standard_io.{how}()
standard_io.{how}()
print("three")
print(repr(sys.stdin.read()), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input="given", env=environment(), capture_output=True, text=True, timeout=20
    )
    if how == "release":
        assert (done.stdout, sorted(done.stderr.split())) == ("three\n", ["'given'", "one", "two"])
    else:
        assert (done.stdout, sorted(done.stderr.split())) == ("", ["''", "one", "three", "two"])


def test_what_is_printed_arrives_at_once_also_from_those_who_took_hold_of_standard_output_earlier() -> None:
    code = """
import os, sys
from acp_server.agent.process import StandardIO
printed_to = sys.stdout
standard_io = StandardIO()
print("one")
print("two", file=printed_to)
os._exit(0)  # before anything could be flushed
"""
    with started([sys.executable, "-c", code]) as program:
        assert program.rest() == []
        assert program.stderr == "one\ntwo\n"


@pytest.mark.behaviour("A13")
@pytest.mark.parametrize("end", ["", "standard_io.close()", "standard_io.release()"])
def test_what_is_claimed_cannot_be_claimed_again_before_it_is_given_back(end: str) -> None:
    code = f"""
import sys
from acp_server.agent.process import StandardIO
standard_io = StandardIO()
{end}
try:
    StandardIO().release()
except Exception as error:
    sys.exit(str(error))
"""
    # Standard error is a pipe, and so is what stands for standard output by then.
    done = subprocess.run(
        [sys.executable, "-c", code], input="", env=environment(), capture_output=True, text=True, timeout=20
    )
    free = "release" in end
    assert done.returncode == (0 if free else 1)
    assert done.stderr == ("" if free else "standard input and output already serve another agent\n")


@pytest.mark.behaviour("A13")
@pytest.mark.parametrize("replaced", ["", "sys.stdout = io.StringIO()"])
@BACKENDS
def test_what_was_printed_before_is_no_protocol_unless_it_was_written_before(backend: str, replaced: str) -> None:
    code = f"""
import io, sys
from acp_server import Agent
print("written", flush=True)
print("held back")
{replaced}
Agent("printing").run(backend={backend!r})
"""
    with started([sys.executable, "-c", code]) as agent:
        assert agent.next_line() == b"written"
        assert agent.call(1, "initialize", protocolVersion=1)["agentInfo"]["name"] == "printing"
        agent.close_input()
        assert agent.rest() == []
        assert agent.exit_code() == 0
        assert agent.stderr == "held back\n"


@pytest.mark.parametrize(("closed", "word"), [(0, "input"), (1, "output")])
def test_a_closed_standard_input_or_output_is_said_in_one_line(closed: int, word: str) -> None:
    code = "from acp_server.agent.process import StandardIO; StandardIO()"
    command = f'exec "$0" -c "$1" {closed}<&-' if closed == 0 else 'exec "$0" -c "$1" 1>&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, code], env=environment(), capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"acp_server.errors.UsageError: standard {word} is closed")


@BACKENDS
def test_it_serves_without_a_standard_error(backend: str) -> None:
    with started(["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, *_plain(backend)]) as agent:
        assert agent.call(1, "stray") == ""
        assert agent.call(2, "descriptors") == dict.fromkeys("012", os.devnull)
        assert agent.finish() == 0


@BACKENDS
def test_it_serves_although_nobody_reads_its_standard_error(backend: str) -> None:
    source, sink = os.pipe()
    os.close(source)
    with plain(backend, stderr=sink) as agent:
        os.close(sink)
        # It has printed something before it began, which cannot be written anywhere.
        assert agent.call(1, "echo") == {}
        agent.close_input()
        assert agent.rest() == []
        agent.exit_code()


@pytest.mark.behaviour("A13")
@BACKENDS
def test_where_the_log_would_land_in_the_protocol_there_is_no_log(backend: str) -> None:
    with plain(backend, stderr_too=True) as agent:
        assert agent.call(1, "stray") == ""
        agent.close_input()
        assert agent.rest() == []
        assert agent.exit_code() == 0


def test_a_file_for_both_keeps_the_log(tmp_path: Path) -> None:
    with open(tmp_path / "both", "wb") as both, plain("asyncio", stdout=both.fileno(), stderr_too=True) as agent:
        agent.request(1, "stray")
        assert agent.finish() == 0
    text = (tmp_path / "both").read_text()
    assert "stray child" in text
    assert '"id":1' in text


def _plain(backend: str) -> list[str]:
    return [str(Path(__file__).parent / "processes" / "plain.py"), backend]


def test_a_program_that_fails_says_why_also_where_both_are_one_pipe() -> None:
    code = """
import asyncio
from acp_server import Agent
async def main():
    Agent("inside of another loop").run()
asyncio.run(main())
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment(), input=b"", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False
    )
    assert done.returncode == 1
    assert b"Traceback" in done.stdout
