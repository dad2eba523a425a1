"""Ends that have to be forced, because something in the process is stuck: a handler, a thread, the loop, the log."""

import os
import signal

import pytest

from tests.agent.processes.driver import plain

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
CANCELLED = {"code": -32800, "message": "Request cancelled"}


@pytest.mark.behaviour("D6")
@BACKENDS
@pytest.mark.parametrize("end", ["eof", signal.SIGTERM, signal.SIGINT])
def test_a_handler_that_will_not_end_is_left_behind_with_a_line_in_the_log(backend: str, end: str | int) -> None:
    with plain(backend) as agent:
        agent.begin(1, "stubborn")
        agent.signal(end) if isinstance(end, int) else agent.close_input()
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == (128 + end if isinstance(end, int) else 0)
        assert "ERROR ending the process: 1 handlers did not end\n" in agent.stderr


@BACKENDS
def test_a_thread_that_will_not_end_does_not_keep_the_process(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "thread")
        agent.close_input()
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == 0
        if backend == "asyncio":  # where anyio's threads are no daemons
            assert "ERROR ending the process: threads that do not end: AnyIO worker thread\n" in agent.stderr


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_pool_that_the_loop_waits_for_does_not_keep_the_process(interrupted: bool) -> None:
    with plain("asyncio") as agent:
        agent.begin(1, "pool")
        agent.signal(signal.SIGTERM)
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        if interrupted:
            agent.signal(signal.SIGINT)
        assert agent.exit_code() == 143
        assert "ERROR ending the process: " in agent.stderr


@BACKENDS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_blocked_loop_does_not_keep_the_process_from_being_terminated(backend: str, number: int) -> None:
    with plain(backend) as agent:
        agent.begin(1, "blocked")
        agent.wait_for_stderr("blocking the loop")
        agent.signal(number)
        assert agent.exit_code() == 128 + number
        assert "ERROR ending the process: the event loop is blocked\n" in agent.stderr


@BACKENDS
def test_a_blocked_loop_is_told_of_and_does_not_outlive_the_client(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "blocked")
        agent.wait_for_stderr("WARNING blocked (")
        agent.wait_for_stderr("time.sleep(3600)")
        agent.close_input()
        assert agent.exit_code() == 0
        assert "ERROR ending the process: the client is gone, and the event loop is blocked\n" in agent.stderr


def test_a_log_that_nobody_reads_does_not_keep_the_process() -> None:
    full, _ = pipe = os.pipe()
    with plain("asyncio", stderr=pipe[1]) as agent:
        agent.begin(1, "stubborn")
        os.set_blocking(pipe[1], False)
        while True:
            try:
                os.write(pipe[1], b"x" * 4096)
            except BlockingIOError:
                break
        os.set_blocking(pipe[1], True)
        agent.signal(signal.SIGTERM)
        assert agent.exit_code() == 143
    os.close(full)
    os.close(pipe[1])
