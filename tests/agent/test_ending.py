"""Processes that end although something in them is stuck."""

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from acp_server.agent import ending as module
from acp_server.agent.ending import Ending
from acp_server.peer.limits import Limits
from tests.agent.processes.driver import environment


def run(code: str) -> "subprocess.CompletedProcess[str]":
    imports = "import logging, sys, threading, time\nfrom acp_server.agent.ending import Deadline, exit_now, outlast\n"
    return subprocess.run(
        [sys.executable, "-c", imports + code], env=environment(), capture_output=True, text=True, timeout=20
    )


def test_leaving_ends_the_process_from_any_thread_with_its_reason_in_the_log() -> None:
    done = run(
        """
logging.basicConfig(format="%(levelname)s %(message)s")
sys.stderr.write("said before. ")
threading.Thread(target=exit_now, args=(7, "because")).start()
time.sleep(3600)
"""
    )
    assert (done.returncode, done.stderr) == (7, "said before. ERROR ending the process: because\n")


def test_a_log_that_is_stuck_does_not_hold_it_up() -> None:
    done = run(
        """
class Stuck(logging.Handler):
    def emit(self, record):
        time.sleep(3600)
logging.getLogger().addHandler(Stuck())
exit_now(7, "because")
"""
    )
    assert done.returncode == 7


def test_the_first_of_two_deadlines_stands() -> None:
    done = run(
        """
deadline = Deadline()
deadline.arm(0.1, 5, "the first")
deadline.arm(3600, 6, "the second")
time.sleep(3600)
"""
    )
    assert done.returncode == 5
    assert "the first" in done.stderr


def test_a_deadline_that_is_disarmed_ends_nothing_and_can_be_armed_again() -> None:
    done = run(
        """
deadline = Deadline()
deadline.disarm()
deadline.arm(0.1, 5, "the first")
deadline.disarm()
deadline.disarm()
time.sleep(0.3)
deadline.arm(0.1, 6, "the second")
time.sleep(3600)
"""
    )
    assert done.returncode == 6


def test_a_thread_that_does_not_end_is_outlasted_with_the_code() -> None:
    done = run(
        """
threading.Thread(target=time.sleep, args=(3600,), name="stuck").start()
outlast(7)
sys.exit(0)
"""
    )
    assert done.returncode == 7
    assert done.stderr == "ending the process: threads that do not end: stuck\n"


def test_threads_that_end_in_time_are_waited_for_and_the_program_may_take_its_time() -> None:
    done = run(
        """
import concurrent.futures
event = threading.Event()
threading.Thread(target=event.wait).start()
pool = concurrent.futures.ThreadPoolExecutor()
pool.submit(time.sleep, 0)
outlast(7)
time.sleep(2.5)
pool.submit(sys.stderr.write, "still working")
event.set()
sys.exit(3)
"""
    )
    assert (done.returncode, done.stderr) == (3, "still working")


# -- what each further signal means, with a clock that stands still


class Left(Exception):
    """The process has been ended."""


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock."""

    class Clock:
        now = 0.0

    def leave(code: int, why: str) -> None:
        raise Left(code, why)

    monkeypatch.setattr(module.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(module, "exit_now", leave)
    monkeypatch.setattr(module.Deadline, "arm", lambda *_: None)
    return lambda now: setattr(Clock, "now", now)


@pytest.mark.behaviour("D10")
def test_a_third_interrupt_ends_at_once_where_the_first_has_ended_a_turn_whose_cleanup_blocks_the_loop(
    at: Callable[[float], None],
) -> None:
    ending = Ending(Limits())
    at(10)
    ending.alarm(signal.SIGINT)
    assert not ending.is_wanted
    ending.heard()
    at(10.2)
    ending.alarm(signal.SIGINT)
    assert ending.is_wanted
    at(13.2)
    with pytest.raises(Left, match=r"130, 'signalled again while closing'"):
        ending.alarm(signal.SIGINT)


def test_interrupts_that_are_acted_on_and_far_apart_end_nothing_but_turns(at: Callable[[float], None]) -> None:
    ending = Ending(Limits())
    for now in range(0, 30, 3):
        at(now)
        ending.alarm(signal.SIGINT)
        ending.heard()
    assert not ending.is_wanted
