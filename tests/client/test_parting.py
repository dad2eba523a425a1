"""What we have started ends with us, also if there is no time to end it."""

import subprocess
import sys

import pytest

from tests.agent.processes.driver import environment
from tests.client.processes import gone

# Deaf to the end of its input and to the terminate signal, as is the child that it has; both live in one group.
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    os.write(1, f"{os.getpid()} {child}\\n".encode())
while True: time.sleep(100)
"""

START = """
import os, sys, threading, time
import anyio
from acp_server.agent.ending import exit_now
from acp_server.processes.child import ChildProcess

async def main():
    process = await ChildProcess.start([sys.executable, "-S", "-c", sys.argv[1]])
    os.write(1, await process.stream.receive())
    END

anyio.run(main, backend=sys.argv[2])
"""

ENDS = {
    "by itself": "sys.exit(3)",
    "by force": "exit_now(3, 'stuck')",
    "by force from another thread while its loop is blocked": (
        "threading.Thread(target=exit_now, args=(3, 'stuck')).start(); time.sleep(100)"
    ),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_no_process_of_ours_outlives_us(end: str, backend: str) -> None:
    command = [sys.executable, "-c", START.replace("END", ENDS[end]), DEAF, backend]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 3, done.stderr
    gone(*(int(pid) for pid in done.stdout.split()))


def test_a_process_that_was_forked_off_ends_nobody_else_s() -> None:
    code = """
import os, sys
from acp_server.tasks.exit_hooks import before_exit
before_exit(lambda: os.write(1, b"once "))
child = os.fork()
if not child:
    sys.exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "once "


def test_whatever_fails_of_what_is_done_before_the_end_the_others_are_done() -> None:
    code = """
import logging
from acp_server.tasks.exit_hooks import before_exit
logging.basicConfig(format="%(message)s")
before_exit(lambda: print("one"))
before_exit(lambda: 1 / 0)
before_exit(lambda: print("two"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "one\ntwo\n"
    assert "a callback for the exit of the process failed" in done.stderr


START_ONE = """
import os, sys
import anyio
from acp_server.processes.child import ChildProcess
from acp_server.tasks.exit_hooks import run_exit_hooks

async def start():
    global process
    process = await ChildProcess.start([sys.executable, "-S", "-c", sys.argv[1]])
    print((await process.stream.receive()).decode(), flush=True)
"""

FORKS_FIRST = """
worker = os.fork()
if worker:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
anyio.run(start)
"""

FORKS_BEHIND_IT = """
async def main():
    await start()
    worker = os.fork()
    if not worker:
        run_exit_hooks()
        os._exit(0)
    os.waitpid(worker, 0)
    print("and" if next(iter(_groups[os.getpid()])).is_led else "not", "led", flush=True)

from acp_server.processes import _groups
anyio.run(main)
"""


def started(code: str) -> list[str]:
    """What a program says that forks, and that starts another one."""
    command = [sys.executable, "-c", START_ONE + code, DEAF]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_worker_that_was_forked_off_behind_the_import_takes_its_own_along() -> None:
    pids = started(FORKS_FIRST)
    assert len(pids) == 2
    gone(*map(int, pids))


def test_the_end_of_a_worker_ends_no_process_of_its_parent() -> None:
    *pids, still, _ = started(FORKS_BEHIND_IT)
    assert still == "and"
    gone(*map(int, pids))
