"""The guards of this test suite notice what they are there for, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

HEAD = """
import asyncio, os, subprocess, sys, threading
import anyio, anyio.to_thread, pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies
from tests.plugins import deadline, leaks

deadline.SECONDS = 0.1
leaks.JOIN_SECONDS = 0.1
kept = []
once = settings(
    max_examples=1, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param
"""

# If this run hangs itself, it shows where.
INI = """
[pytest]
faulthandler_timeout = {}
faulthandler_exit_on_timeout = true
"""

LEAKY = """
def test_tidy(tmp_path):
    subprocess.run([sys.executable, "-c", ""], check=True)
    threading.Thread(target=int).start()

@pytest.mark.anyio
async def test_tidy_on_a_loop():
    await anyio.to_thread.run_sync(int)
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0)

@pytest.mark.anyio
@once
@given(strategies.integers())
async def test_tidy_property(number):
    await anyio.sleep(0)

@pytest.mark.anyio
async def test_task(anyio_backend):
    if anyio_backend == "asyncio":
        kept.append(asyncio.create_task(asyncio.sleep(600)))
    else:
        import trio
        trio.lowlevel.spawn_system_task(trio.sleep_forever)

def test_thread():
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def test_child():  # it ends with this process, whose end closes its input
    kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

def test_descriptor():
    kept.append(os.pipe())
"""

HANGING = """
@pytest.fixture
async def teardown_on_the_loop():
    yield
    await anyio.sleep(0)

@pytest.mark.anyio
async def test_hangs(teardown_on_the_loop):
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)

@pytest.mark.anyio
@once
@given(strategies.integers())
async def test_hanging_property(number):
    await anyio.sleep_forever()

@pytest.mark.anyio
async def test_has_a_deadline_of_its_own():
    with pytest.raises(TimeoutError), anyio.fail_after(0):
        await anyio.sleep_forever()
"""


STUBBORN = """
async def stubborn():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_fails(anyio_backend):
    kept.append(asyncio.create_task(stubborn()))
    assert False
"""


def _run(folder: Path, tests: str, seconds: int) -> "subprocess.CompletedProcess[str]":
    (folder / "test_it.py").write_text(HEAD + tests, "utf-8")
    (folder / "pytest.ini").write_text(INI.format(seconds), "utf-8")
    plugins = ["-p", "no:cacheprovider", "-p", "tests.plugins.deadline", "-p", "tests.plugins.leaks"]
    command = [sys.executable, "-m", "pytest", *plugins, "-rfE", "--tb=short", "--quiet", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * seconds + 100)


def _pytest(folder: Path, tests: str) -> str:
    done = _run(folder, tests, 200)
    assert "Timeout" not in done.stderr, done.stdout + done.stderr
    return done.stdout


def _reported(kind: str, output: str) -> list[str]:
    return sorted(re.findall(rf"^{kind} \S*::(\S+)", output, re.MULTILINE))


def test_a_test_that_leaks_fails_and_a_tidy_one_passes(tmp_path: Path) -> None:
    leaks = {
        "test_task[asyncio]": "tasks left behind",
        "test_task[trio]": "tasks left behind",
        "test_thread": "thread 'Thread-",
        "test_child": "child process",
        "test_descriptor": "file descriptor",
    }
    output = _pytest(tmp_path, LEAKY)
    assert _reported("ERROR", output) == sorted(leaks), output
    assert _reported("FAILED", output) == []
    for name, what in leaks.items():
        (complaint,) = re.findall(rf"ERROR at teardown of {re.escape(name)} _+\n(.*)", output)
        assert what in complaint


def test_a_test_that_hangs_fails_where_it_hangs_and_the_others_go_on(tmp_path: Path) -> None:
    output = _pytest(tmp_path, HANGING)
    assert _reported("FAILED", output) == [
        f"{name}[{backend}]" for name in ("test_hanging_property", "test_hangs") for backend in ("asyncio", "trio")
    ], output
    assert _reported("ERROR", output) == []
    assert "in test_hangs\n    async with anyio.create_task_group() as group:" in output
    assert "2 passed" in output


def test_a_test_that_failed_and_whose_tasks_never_end_does_not_hold_up_the_run(tmp_path: Path) -> None:
    done = _run(tmp_path, STUBBORN, 3)
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "pytest_runtest_teardown" in done.stderr
