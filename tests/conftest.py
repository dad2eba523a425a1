"""What every test shares: two backends, a deadline, a guard against leaks, a state directory, default signals, a reader
that no load divides, and what to do without npm."""

import gc
import math
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from acp_server.peer import reader

# How long an example takes says something about the machine only.
hypothesis.settings.register_profile(
    "tests", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")

pytest_plugins = [
    *("tests.plugins.deadline", "tests.plugins.leaks", "tests.plugins.shapes", "tests.plugins.side_by_side"),
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Nothing of what is made while tests are collected becomes garbage; to look for it takes a sixth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what lives as long as the run: all tests and modules. Each full collection looked
    through all of that, half a second for nothing. So no collection runs here either."""
    gc.freeze()
    gc.enable()
    # Few tests make garbage, and to look for it as often as usual takes 4 % of the time.
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Some plugins ask the collector at the end who refers to what."""
    gc.unfreeze()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each test marked `anyio` once on asyncio and once on trio."""
    return request.param


@pytest.fixture(autouse=True, scope="session")
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the built-in agent keeps its sessions in all tests, whose processes inherit this: not the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        state = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(state))
        yield state


@pytest.fixture(autouse=True, scope="session")
def default_signals() -> Iterator[None]:
    """The processes that tests start have the default dispositions, whatever ours are.

    In the background of a script, or behind `nohup`, some signals are ignored, which a child process inherits. A
    handler is not inherited, and one that does nothing ignores the signal here as before.
    """
    ignored = [number for number in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def all_in_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk is handled in one go, also where the machine is busy and a message takes longer than a slice. A test of
    slices says itself how long they are, also if it has a clock of its own."""
    monkeypatch.setattr(reader, "_SLICE", math.inf)


@pytest.fixture
def require_npm() -> str:
    """The path of npm. A test that needs it is skipped where it is missing, and fails there in CI."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI") == "true":
            pytest.fail("npm is missing, and CI must run the tests that need it", pytrace=False)
        pytest.skip("npm is missing")
    return npm
