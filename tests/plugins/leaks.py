"""Fail a test that leaves a task, a thread, a child process or a file descriptor behind.

Every test is compared with the moment before it, after its own fixtures have been torn down. What may end a
moment later (a worker thread told to stop) is joined, with a bound; nothing is waited for by sleeping.
"""

import asyncio
import gc
import inspect
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

JOIN_SECONDS = 5.0
_THREADS = "/proc/self/task"
_FD_FOLDER = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
# Trio keeps finished workers for ten seconds to use them again; a worker that is busy carries its job's name.
_IDLE_TRIO_WORKER = "Trio thread "
# It writes the log of the whole process, whichever test was the first to log something.
_LOG_WRITER = "acp_server log"
_STAY = (_IDLE_TRIO_WORKER, _LOG_WRITER)
_RUNNER_STEP = "TestRunner._call_in_runner_task"


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Threads, child processes and file descriptors are as they were when the test began."""
    threads = set(threading.enumerate())
    children = _children()
    descriptors = _descriptors()
    yield
    left = [f"thread {thread.name!r}" for thread in _new_threads(threads)]
    left += [f"child process {pid}: {_what(pid)}" for pid in sorted(_children() - children)]
    left += [f"file descriptor {fd}: {what}" for fd, what in _new_descriptors(descriptors)]
    if left:
        pytest.fail("left behind by this test: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def no_tasks_left_behind(request: pytest.FixtureRequest, nothing_left_behind: None) -> None:
    """Tests on an event loop: it runs no task that was not there when the test began."""
    test = getattr(request.function, "hypothesis", None)
    function = test.inner_test if test else request.function
    if "anyio_backend" in request.fixturenames and inspect.iscoroutinefunction(function):
        request.getfixturevalue("_same_tasks")


@pytest.fixture
async def _same_tasks(anyio_backend_name: str, nothing_left_behind: None) -> AsyncIterator[None]:
    before = _tasks(anyio_backend_name)
    yield
    left = [repr(task) for task in _tasks(anyio_backend_name) - before]
    if left:
        pytest.fail("tasks left behind by this test: " + "; ".join(left), pytrace=False)


def _tasks(backend: str) -> set[object]:
    if backend == "asyncio":
        # anyio's runner gives each step of a test (a fixture, the test, a teardown) a task that waits for it.
        return {task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") != _RUNNER_STEP}
    import trio

    root = trio.lowlevel.current_root_task()
    found: set[object] = set()
    waiting = [root] if root else []
    while waiting:
        task = waiting.pop()
        found.add(task)
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def _new_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    left: list[threading.Thread] = []
    for thread in threading.enumerate():
        if thread in before or thread.name.startswith(_STAY):
            continue
        thread.join(JOIN_SECONDS)
        if thread.is_alive() and not thread.name.startswith(_STAY):
            left.append(thread)
    return left


def _children() -> set[int]:
    if hasattr(os, "waitid"):
        # As a rule there is no child, and one system call says so.
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return set()
    try:
        # psutil would read the whole process table, before and after each test of a module that has a process.
        return {int(pid) for thread in os.listdir(_THREADS) for pid in _read(f"{_THREADS}/{thread}/children").split()}
    except OSError:
        # A thread has just ended, or the system does not tell.
        return {child.pid for child in psutil.Process().children()}


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _what(pid: int) -> str:
    try:
        return repr(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return "it has ended since"


def _descriptors() -> set[int]:
    if not os.path.isdir(_FD_FOLDER):  # Windows
        return set()
    found: set[int] = set()
    for name in os.listdir(_FD_FOLDER):
        try:
            os.fstat(int(name))
            found.add(int(name))
        except OSError:  # the one that listed the folder
            continue
    return found


def _new_descriptors(before: set[int]) -> list[tuple[int, str]]:
    left = _descriptors() - before
    if left:
        # What only a cycle still holds is no leak; if it warns that it was not closed, that is an error.
        gc.collect()
        left = _descriptors() - before
    return [(fd, os.readlink(f"{_FD_FOLDER}/{fd}") if sys.platform == "linux" else "open") for fd in sorted(left)]
