"""What signals do to a program that serves over standard input and output."""

import asyncio
import itertools
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from acp_server.agent.signals import Signals
from tests.agent.processes.driver import PLAIN, plain, started

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
CANCELLED = {"code": -32800, "message": "Request cancelled"}
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.behaviour("D10")
@BACKENDS
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_idle_ends_the_process_with_the_code_that_a_shell_expects(backend: str, number: int) -> None:
    with plain(backend) as agent:
        assert agent.call(1, "echo") == {}
        agent.signal(number)
        assert agent.rest() == []
        assert agent.exit_code() == 128 + number
        # An ordinary end: what the program does at its end is done.
        assert "printed after it ended" in agent.stderr


@pytest.mark.behaviour("D3", "D10")
@BACKENDS
@pytest.mark.parametrize("number", SIGNALS)
def test_a_request_in_flight_is_cleaned_up_and_answered_before_a_signal_ends_the_process(
    backend: str, number: int
) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang")
        agent.signal(number)
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == 128 + number
        assert "cleaned up: shutdown" in agent.stderr


@pytest.mark.behaviour("D10")
@BACKENDS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_does_not_spare_a_running_turn(backend: str, number: int) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang/turn")
        agent.signal(number)
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == 128 + number


@BACKENDS
def test_an_interrupt_cancels_the_running_turn_and_serving_goes_on(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang")
        agent.begin(2, "hang/turn")
        agent.signal(signal.SIGINT)
        assert agent.next() == {"jsonrpc": "2.0", "id": 2, "error": CANCELLED}
        assert "cleaned up: interrupt\n" in agent.stderr
        # What is no turn goes on.
        agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        assert agent.next() == {"jsonrpc": "2.0", "id": 1, "error": CANCELLED}
        assert agent.call(3, "echo") == {}
        assert agent.finish() == 0


@BACKENDS
def test_an_agent_that_fails_to_interrupt_is_ended(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "no interrupt")
        agent.signal(signal.SIGINT)
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == 130
        assert "ERROR the agent's interrupt() failed; closing the connection\n" in agent.stderr


@BACKENDS
def test_a_second_interrupt_soon_after_ends_the_process(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "hang/turn")
        agent.signal(signal.SIGINT)
        assert agent.next()["id"] == 1
        agent.begin(2, "hang/turn")
        agent.signal(signal.SIGINT)
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 2, "error": CANCELLED}]
        assert agent.exit_code() == 130


@BACKENDS
@pytest.mark.parametrize("number", SIGNALS)
def test_further_signals_change_nothing_about_the_exit_code_up_to_the_last_moment(backend: str, number: int) -> None:
    with plain(backend) as agent:
        assert agent.call(1, "echo") == {}
        # Also while the loop ends, and while the interpreter is taken down, when Python has no handlers any more.
        while agent.process.poll() is None:
            agent.signal(number)
            select.select([], [], [], 0.002)
        assert agent.exit_code() == 128 + number
        assert "printed after it ended" in agent.stderr


@BACKENDS
def test_an_interrupt_much_later_is_a_first_one_again(backend: str) -> None:
    code = f"""
import sys
import acp_server.agent.ending
from acp_server.agent.serve import run
from tests.agent.processes.plain import Plain, LIMITS
acp_server.agent.ending.AGAIN = 0
sys.exit(run(Plain(), backend="{backend}", limits=LIMITS))
"""
    with started([sys.executable, "-c", code]) as agent:
        for id in (1, 2, 3):
            agent.begin(id, "hang/turn")
            agent.signal(signal.SIGINT)
            assert agent.next() == {"jsonrpc": "2.0", "id": id, "error": CANCELLED}
        assert agent.finish() == 0


@BACKENDS
def test_a_second_interrupt_ends_the_process_even_if_the_loop_is_blocked(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "blocked")
        agent.wait_for_stderr("blocking the loop")
        for _ in range(5):  # Python may take two in quick succession for one
            agent.signal(signal.SIGINT)
            agent.wait_for_signals(signal.SIGINT)
        assert agent.exit_code() == 130


def _very_patient(backend: str) -> Any:
    """Apart from what it takes for long after the first signal. It says which signals it has heard."""
    code = f"""
import sys
import acp_server.agent.ending
from acp_server.agent.ending import Ending
alarm = Ending.alarm
def alarmed(self, number):
    alarm(self, number)
    sys.stderr.write(f"heard signal {{number}}\\n")
Ending.alarm = alarmed
from acp_server.agent.serve import run
from acp_server.peer.connection import Limits
from tests.agent.processes.plain import Plain
acp_server.agent.ending.AGAIN = 0
sys.exit(run(Plain(), backend="{backend}", limits=Limits(grace=3600)))
"""
    return started([sys.executable, "-c", code])


@BACKENDS
def test_a_signal_long_after_closing_began_ends_the_process_at_once(backend: str) -> None:
    with _very_patient(backend) as agent:
        agent.begin(1, "stubborn")
        agent.signal(signal.SIGTERM)
        for id in itertools.count(2):
            agent.request(id, "echo")
            if agent.next().get("error") == CANCELLED:
                break  # now it is closing
        agent.signal(signal.SIGINT)
        assert agent.exit_code() == 143
        assert "signalled again while closing" in agent.stderr


@BACKENDS
def test_a_signal_long_after_the_first_ends_the_process_at_once_even_if_the_loop_is_blocked(backend: str) -> None:
    with _very_patient(backend) as agent:
        agent.begin(1, "blocked")
        agent.wait_for_stderr("blocking the loop")
        agent.signal(signal.SIGTERM)
        # That it is not pending any more is not enough: the handler of the second one may run before that of the first.
        agent.wait_for_stderr(f"heard signal {signal.SIGTERM.value}")
        agent.signal(signal.SIGHUP)
        assert agent.exit_code() == 143
        assert "signalled again while closing" in agent.stderr


@BACKENDS
@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT], [signal.SIGHUP]])
def test_signals_have_their_deadline_while_the_loop_runs_code_in_c(backend: str, numbers: list[int]) -> None:
    with plain(backend) as agent:
        agent.begin(1, "query")
        agent.wait_for_stderr("blocking the loop")
        for number in numbers:
            agent.signal(number)
            agent.wait_for_signals(number)
        assert agent.exit_code() == 128 + numbers[0]
        assert "the event loop is blocked" in agent.stderr


@BACKENDS
def test_signals_take_effect_in_the_order_in_which_they_came_while_the_loop_runs_code_in_c(backend: str) -> None:
    with plain(backend) as agent:
        agent.begin(1, "query")
        agent.wait_for_stderr("blocking the loop")
        # Python would call the handlers by their numbers.
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            agent.signal(number)
            agent.wait_for_signals(number)
        assert agent.exit_code() == 143


@BACKENDS
def test_a_second_signal_ends_at_once_while_the_loop_runs_code_in_c(backend: str) -> None:
    with _very_patient(backend) as agent:
        agent.begin(1, "query")
        agent.wait_for_stderr("blocking the loop")
        for number in (signal.SIGTERM, signal.SIGHUP):
            agent.signal(number)
            agent.wait_for_signals(number)
        assert agent.exit_code() == 143
        assert "signalled again while closing" in agent.stderr


@BACKENDS
def test_what_was_ignored_from_the_start_stays_ignored(backend: str) -> None:
    with started(["nohup", sys.executable, PLAIN, backend]) as agent:
        assert agent.call(1, "echo") == {}
        agent.signal(signal.SIGHUP)
        agent.wait_for_signals(signal.SIGHUP)
        assert agent.call(2, "echo") == {}
        assert agent.finish() == 0


@BACKENDS
def test_the_client_at_the_other_end_of_a_terminal_may_go_away(backend: str) -> None:
    # A session of its own, with the terminal as its controlling one, as a window gives it to its shell.
    code = f"""
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, {PLAIN!r}, {backend!r}])
"""
    ours, theirs = os.openpty()
    with started([sys.executable, "-c", code], stdin=theirs, stdout=theirs, start_new_session=True) as agent:
        os.close(theirs)
        os.write(ours, b'{"jsonrpc":"2.0","id":1,"method":"hang"}\n')
        seen = b""
        while b'"started"' not in seen:
            seen += os.read(ours, 1000)
        os.close(ours)
        assert agent.exit_code() == 128 + signal.SIGHUP
        assert "cleaned up: " in agent.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="asyncio there sees to it by itself")
def test_a_signal_that_comes_as_the_loop_begins_to_wait_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has looked for signals, and calls its handlers only once something has ended the wait."""
    waiting, woken = threading.Event(), threading.Event()

    def come(descriptor: int) -> None:
        assert waiting.wait(20)
        woken.clear()
        # As Python does in the signal's own handler.
        os.write(descriptor, bytes([signal.SIGTERM]))
        assert woken.wait(20)

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        selector = loop._selector
        wait = selector.select

        def noted(timeout: float | None) -> Any:
            if timeout is None or timeout > 1:
                waiting.set()
            events = wait(timeout)
            woken.set()
            return events

        with anyio.fail_after(40):
            async with anyio.create_task_group() as group:
                group.start_soon(Signals(lambda _: None).deliver, lambda _: None)
                await anyio.wait_all_tasks_blocked()
                descriptor = signal.set_wakeup_fd(-1)
                assert descriptor != -1
                signal.set_wakeup_fd(descriptor)
                monkeypatch.setattr(selector, "select", noted)
                await anyio.to_thread.run_sync(come, descriptor)
                group.cancel_scope.cancel()

    anyio.run(main, backend="asyncio")
    assert signal.set_wakeup_fd(-1) == -1


class Listening:
    """Signals that are delivered, and what was told of them."""

    def __init__(self) -> None:
        self.at_once: list[tuple[int, str]] = []
        self.acted: list[int] = []
        self._came = anyio.Event()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        signals = Signals(lambda number: self.at_once.append((number, threading.current_thread().name)))
        signals.take()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(signals.deliver, self._act)
                await anyio.wait_all_tasks_blocked()
                yield
                group.cancel_scope.cancel()
        finally:
            signals.release()

    def _act(self, number: int) -> None:
        self.acted.append(number)
        self._came.set()

    async def next(self) -> None:
        with anyio.fail_after(20):
            await self._came.wait()
        self._came = anyio.Event()


@pytest.mark.anyio
async def test_each_signal_is_acted_on_once_though_its_handler_runs_as_well() -> None:
    listening = Listening()
    async with listening.run():
        for _ in range(20):
            signal.raise_signal(signal.SIGTERM)
            await listening.next()
        await anyio.wait_all_tasks_blocked()
    assert listening.at_once == [(signal.SIGTERM, "acp_server signals")] * 20
    assert listening.acted == [signal.SIGTERM] * 20


@pytest.mark.anyio
async def test_a_signal_is_acted_on_once_though_the_program_has_taken_the_wakeup_descriptor() -> None:
    listening = Listening()
    async with listening.run():
        reader, writer = socket.socketpair()
        with reader, writer:
            writer.setblocking(False)
            before = signal.set_wakeup_fd(writer.fileno())
            for _ in range(3):
                signal.raise_signal(signal.SIGTERM)
                await listening.next()
            signal.set_wakeup_fd(before)
            assert reader.recv(100) == bytes([signal.SIGTERM]) * 3
        signal.raise_signal(signal.SIGTERM)
        await listening.next()
    assert listening.acted == [signal.SIGTERM] * 4


@pytest.mark.anyio
async def test_what_listened_to_the_wakeup_descriptor_before_hears_of_each_signal_and_has_it_back() -> None:
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.settimeout(20)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno())
        listening = Listening()
        try:
            async with listening.run():
                signal.raise_signal(signal.SIGTERM)
                await listening.next()
                # The thread passes it on behind what it does itself.
                assert reader.recv(100) == bytes([signal.SIGTERM])
        finally:
            assert signal.set_wakeup_fd(before) == writer.fileno()


@pytest.mark.anyio
async def test_a_handler_that_the_program_has_put_in_place_of_ours_has_the_signal_alone() -> None:
    listening = Listening()
    theirs: list[int] = []
    async with listening.run():
        ours = signal.signal(signal.SIGTERM, lambda number, _: theirs.append(number))
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        await listening.next()
        signal.signal(signal.SIGTERM, ours)
    assert theirs == [signal.SIGTERM]
    assert listening.acted == [signal.SIGHUP]


def test_a_signal_to_a_fork_is_none_of_its_parent() -> None:
    async def main() -> None:
        listening = Listening()
        async with listening.run():
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGTERM, lambda *_: None)
                signal.raise_signal(signal.SIGTERM)
                os._exit(0)
            await anyio.to_thread.run_sync(os.waitpid, pid, 0)
            signal.raise_signal(signal.SIGHUP)
            await listening.next()
        assert listening.acted == [signal.SIGHUP]

    anyio.run(main)
