"""An agent as a process: how it ends, with which exit code, and that it always does."""

import os
import pty
import signal
import socket
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.agent.serve import Servable, run, serve
from acp_server.errors import UsageError
from acp_server.peer.connection import Limits
from acp_server.testing.streams import memory_pair
from tests.agent.processes.driver import PLAIN, line, plain, started
from tests.agent.processes.plain import Plain

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
CANCELLED = {"code": -32800, "message": "Request cancelled"}


# The end of the input


@pytest.mark.behaviour("G7")
@BACKENDS
def test_the_end_of_the_input_is_a_prompt_end_with_code_0(backend: str) -> None:
    with plain(backend) as agent:
        assert agent.call(1, "echo", a=1) == {"a": 1}
        began = time.monotonic()
        assert agent.finish() == 0
        assert time.monotonic() - began < 5


@pytest.mark.behaviour("G6", "G7")
@BACKENDS
def test_a_handler_that_runs_at_the_end_of_the_input_is_cleaned_up_and_answered_first(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang")
        agent.close_input()
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == 0
        assert "cleaned up: closed" in agent.stderr


@pytest.mark.behaviour("G5")
@BACKENDS
def test_a_script_from_a_file_is_answered_into_a_file(backend: str, tmp_path: Path) -> None:
    script = b"".join(
        line({"jsonrpc": "2.0", "id": n, "method": "echo", "params": {"text": "x" * 10_000}}) for n in range(200)
    )
    (tmp_path / "script").write_bytes(script.removesuffix(b"\n"))
    with (
        open(tmp_path / "script", "rb") as source,
        open(tmp_path / "out", "wb") as sink,
        plain(backend, stdin=source.fileno(), stdout=sink.fileno()) as agent,
    ):
        assert agent.exit_code() == 0
    assert (tmp_path / "out").read_bytes().count(b'"result"') == 200


@BACKENDS
@pytest.mark.parametrize("kind", ["one socket", "two sockets", "null"])
def test_it_serves_over_whatever_it_is_given(backend: str, kind: str) -> None:
    if kind == "null":
        with open(os.devnull, "rb") as null, plain(backend, stdin=null.fileno()) as agent:
            assert agent.rest() == []
            assert agent.exit_code() == 0
        return
    near, far = socket.socketpair()
    second_near, second_far = (near, far) if kind == "one socket" else socket.socketpair()
    with far, second_far, plain(backend, stdin=near.fileno(), stdout=second_near.fileno()) as agent:
        near.close()
        second_near.close()
        for id in range(3):
            far.sendall(line({"jsonrpc": "2.0", "id": id, "method": "echo"}))
            assert second_far.recv(1000) == b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % id
        far.shutdown(socket.SHUT_WR)
        assert second_far.recv(1000) == b""
        assert agent.exit_code() == 0


# Broken pipes


THREADED = """
import sys
import acp_server.agent.serve as module
from acp_server.agent.threaded_stream import ThreadedStream
from tests.agent.processes.plain import Plain, LIMITS
module.StandardIO.stream = lambda self: ThreadedStream(self.input, self.output)
sys.exit(module.run(Plain(), backend="{backend}", limits=LIMITS))
"""
"""The plain agent where the loop cannot wait for a pipe."""


@pytest.mark.behaviour("G10")
@BACKENDS
def test_a_read_error_is_said_in_one_line_and_exits_1(backend: str) -> None:
    near, far = socket.socketpair()
    with near, plain(backend, stdin=near.fileno()) as agent:
        far.sendall(line({"jsonrpc": "2.0", "id": 1, "method": "echo"}))
        assert agent.next()["id"] == 1
        # Closed with something unread, a socket resets its other end.
        near.send(b"never read")
        far.close()
        assert agent.exit_code() == 1
        (said,) = [text for text in agent.stderr.splitlines() if not text.startswith("printed")]
        assert said.startswith("ERROR reading standard input failed: ")


@pytest.mark.behaviour("G8")
@BACKENDS
def test_a_client_that_reads_no_more_ends_the_agent(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang")
        agent.close_output()
        with suppress(BrokenPipeError):  # it may have noticed by itself, and ended
            agent.request(2, "echo")
        assert agent.exit_code() == 0
        assert "cleaned up: closed" in agent.stderr


@pytest.mark.behaviour("G8")
@BACKENDS
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_client_that_reads_no_more_ends_an_agent_that_says_nothing(backend: str, kind: str) -> None:
    if kind == "pipe":
        source, sink = os.pipe()
    else:
        source, sink = (end.detach() for end in socket.socketpair())
    with plain(backend, stdout=sink) as agent:
        os.close(sink)
        agent.request(1, "hang")
        assert b"started" in os.read(source, 1000)
        os.close(source)
        # Its input is open, and nothing comes of its own accord that it would have to write.
        assert agent.exit_code() == 0
        assert "cleaned up: closed" in agent.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.behaviour("G8")
@pytest.mark.parametrize("threaded", [False, True])
@BACKENDS
def test_an_output_that_takes_nothing_is_said_in_one_line_and_exits_1(backend: str, threaded: bool) -> None:
    with open("/dev/full", "wb") as full:
        code = [sys.executable, "-c", THREADED.format(backend=backend)]
        with started(code if threaded else [sys.executable, PLAIN, backend], stdout=full.fileno()) as agent:
            agent.request(1, "echo")
            assert agent.exit_code() == 1
            (said,) = [text for text in agent.stderr.splitlines() if not text.startswith("printed")]
            assert said.endswith("writing standard output failed: [Errno 28] No space left on device")


@pytest.mark.behaviour("G15")
@BACKENDS
def test_cancels_are_read_while_the_client_takes_no_answers(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang")
        agent.request(2, "big", size=1_000_000)
        agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        agent.wait_for_stderr("cleaned up: peer")
        answers = {answer["id"]: answer for answer in (agent.next(), agent.next())}
        assert answers[1]["error"] == CANCELLED
        assert len(answers[2]["result"]) == 1_000_000
        assert agent.finish() == 0


@pytest.mark.behaviour("G15")
@BACKENDS
def test_a_client_that_takes_nothing_does_not_hold_up_the_end(backend: str) -> None:
    with plain(backend) as agent:
        agent.request(1, "big", size=1_000_000)
        agent.wait_for_stderr("printed before")
        began = time.monotonic()
        assert agent.finish() == 0
        assert time.monotonic() - began < 10


@BACKENDS
def test_messages_of_fifty_megabytes_pass_both_ways(backend: str) -> None:
    size = 50_000_000
    with plain(backend) as agent:
        assert agent.call(1, "size", text="x" * size) == size
        assert len(agent.call(2, "big", size=size)) == size
        assert agent.finish() == 0


# What the process shares with others


@BACKENDS
def test_a_pipe_gets_its_blocking_mode_back(backend: str) -> None:
    source, sink = os.pipe()
    with plain(backend, stdout=sink) as agent:
        agent.request(1, "echo")
        assert os.read(source, 1000)
        assert not os.get_blocking(sink)
        assert agent.finish() == 0
    assert os.get_blocking(sink)
    os.close(source)
    os.close(sink)


def read_line(terminal: int) -> bytes:
    """Read to the end of a line, which a terminal may pass on in pieces."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(terminal, 1000)
    return line


@BACKENDS
def test_a_terminal_that_others_share_stays_blocking(backend: str) -> None:
    ours, theirs = pty.openpty()
    mode = termios.tcgetattr(theirs)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    with plain(backend, stdin=theirs, stdout=theirs) as agent:
        assert read_line(ours) == b"printed before it began\r\n"  # at a terminal, at once
        os.write(ours, b'{"jsonrpc":"2.0","id":1,"method":"echo"}\n')
        assert read_line(ours) == b'{"jsonrpc":"2.0","id":1,"result":{}}\r\n'
        assert os.get_blocking(theirs)
        os.write(ours, b"\x04")  # end of input, as typed
        assert agent.exit_code() == 0
    assert os.get_blocking(theirs)
    os.close(ours)
    os.close(theirs)


# Handlers that end the program


@pytest.mark.behaviour("D5")
@BACKENDS
@pytest.mark.parametrize(("code", "seen"), [(7, 7), (0, 0), (None, 0), ("a message", 1)])
def test_a_handler_may_end_the_program_with_a_code(backend: str, code: object, seen: int) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang")
        agent.request(2, "exit", code=code)
        answers = {answer["id"]: answer for answer in (agent.next(), agent.next())}
        assert answers[1]["error"] == CANCELLED
        assert answers[2]["error"]["code"] == -32603
        assert agent.exit_code() == seen
        assert ("a message" in agent.stderr.splitlines()) == (code == "a message")


@BACKENDS
def test_a_handler_may_interrupt_the_program(backend: str) -> None:
    with plain(backend) as agent:
        agent.request(1, "interrupt")
        assert agent.answer(1)["error"]["code"] == -32603
        assert agent.exit_code() == 130


# Embedded


class Strange:
    """A handler of signals that is to be left alone."""

    def __call__(self, *_: object) -> None:
        raise AssertionError


@pytest.mark.anyio
async def test_embedded_serving_touches_no_part_of_the_process() -> None:
    near, far = memory_pair()
    handler = Strange()
    before = [signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGHUP)]
    stdout = sys.stdout, os.fstat(1), os.fstat(0)
    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:

                async def client() -> None:
                    await far.send(b'{"jsonrpc":"2.0","id":1,"method":"echo"}\n')
                    assert await far.receive() == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
                    assert (sys.stdout, os.fstat(1), os.fstat(0)) == stdout
                    assert signal.getsignal(signal.SIGTERM) is handler
                    assert signal.getsignal(signal.SIGHUP) is handler
                    far.send_eof()

                tasks.start_soon(client)
                connection = await serve(Plain(), near, limits=Limits(drain=1))
                await connection.wait_closed()
        assert connection.limits.drain == 1
    finally:
        for number, old in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(number, old)


@pytest.mark.behaviour("D8")
@pytest.mark.anyio
async def test_cancelling_embedded_serving_cleans_up_and_propagates() -> None:
    near, far = memory_pair()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, Plain(), near)
            await far.send(b'{"jsonrpc":"2.0","id":1,"method":"hang"}\n')
            assert b"started" in await far.receive()
            tasks.cancel_scope.cancel()
        assert tasks.cancel_scope.cancelled_caught
        assert b"-32800" in await far.receive()
        assert await far.receive() == b""


@BACKENDS
def test_serving_in_a_loop_of_ones_own_gives_all_back(backend: str) -> None:
    code = f"""
import signal, sys, anyio
from acp_server.agent.serve import serve_stdio
from tests.agent.processes.plain import Plain, LIMITS
async def main():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    print("lost")
    code = await serve_stdio(Plain(), limits=LIMITS)
    print("afterwards", code, before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)])
anyio.run(main, backend="{backend}")
"""
    with started([sys.executable, "-c", code]) as program:
        program.begin(1, "hang")
        program.signal(signal.SIGTERM)
        assert program.next()["error"] == CANCELLED
        assert program.next_line() == b"afterwards 143 True"
        assert program.exit_code() == 0
        assert program.stderr == "lost\ncleaned up: shutdown\n"


@BACKENDS
def test_in_a_thread_it_serves_without_signals(backend: str) -> None:
    code = f"""
import sys, threading
from acp_server.agent.serve import run
from tests.agent.processes.plain import Plain
codes = []
thread = threading.Thread(target=lambda: codes.append(run(Plain(), backend="{backend}")))
thread.start()
thread.join()
sys.exit(codes[0] + 5)
"""
    with started([sys.executable, "-c", code]) as program:
        assert program.call(1, "echo", a=1) == {"a": 1}
        assert program.finish() == 5


# Mistakes


def test_an_unknown_or_missing_backend_is_a_usage_error_before_anything_is_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match="'curio'"):
        run(Plain(), backend="curio")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"acp-server\[trio\]"):
        run(Plain(), backend="trio")
    with pytest.raises(UsageError, match=r"acp-server\[uvloop\]"):
        run(Plain(), loop="uvloop")


@pytest.mark.parametrize(
    ("options", "why"), [({"loop": "rloop"}, "'rloop'"), ({"loop": "uvloop", "backend": "trio"}, "not with trio")]
)
def test_an_unknown_loop_or_one_of_another_backend_is_a_usage_error(options: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        run(Plain(), **options)


def test_what_can_be_served_is_told_by_its_methods() -> None:
    assert isinstance(Plain(), Servable)
    assert not isinstance(object(), Servable)


# Where the loop cannot wait for a pipe


@pytest.mark.behaviour("K8")
@pytest.mark.parametrize("end", ["eof", signal.SIGTERM])
@BACKENDS
def test_with_threads_instead_of_readiness_it_ends_just_the_same(backend: str, end: str | int) -> None:
    with started([sys.executable, "-c", THREADED.format(backend=backend)]) as program:
        assert program.call(1, "echo", a=1) == {"a": 1}
        program.begin(2, "hang")
        program.signal(end) if isinstance(end, int) else program.close_input()
        assert program.rest() == [{"jsonrpc": "2.0", "id": 2, "error": CANCELLED}]
        assert program.exit_code() == (128 + end if isinstance(end, int) else 0)
        assert "ending the process" not in program.stderr
