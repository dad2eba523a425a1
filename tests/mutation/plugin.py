"""The pytest plugin of a mutation run, for the mutated copy only.

It collects the tests once and runs them unchanged, to see which test reaches what. Then, for each mutant, it runs the
tests that reach its condition in a forked process, as far as there is time. What came of it is written to the
descriptor `ACP_MUTATION_REPORT` as one line of JSON.
"""

import json
import os
import resource
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

SECONDS = float(os.environ["ACP_MUTATION_SECONDS"])
"""How long the tests of one mutant may take together, by the times that they took unchanged."""

_REPORT = int(os.environ["ACP_MUTATION_REPORT"])
_MEMORY = 4 * 1024**3


@dataclass
class Reached:
    """What one test took, and the places that it reached."""

    item: pytest.Item
    seconds: float
    places: set[int] = field(default_factory=set)


class Failures:
    """Whether a test of this process has failed, for a reason of its own or not."""

    def __init__(self) -> None:
        self.any = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any = self.any or report.failed


def pytest_runtestloop(session: pytest.Session) -> bool:
    """In place of running each test once."""
    failures = Failures()
    session.config.pluginmanager.register(failures)
    reached = _unchanged(session.items, failures)
    for mutant, place, file in json.loads(Path("mutants").read_text("utf-8")):
        able = _ordered([test for test in reached if place in test.places], Path(file).stem)
        chosen: list[Reached] = []
        for test in able:
            if not chosen or sum(each.seconds for each in chosen) + test.seconds <= SECONDS:
                chosen.append(test)
        _say(mutant=mutant, able=len(able), run=len(chosen), verdict=_verdict(mutant, chosen, failures))
    return True


def _ordered(tests: list[Reached], module: str) -> list[Reached]:
    """The module's own tests first; of each function with parameters one test before the others; the quick ones before
    the slow ones."""
    seen = Counter[str]()
    keys: dict[str, tuple[bool, int, float]] = {}
    for test in sorted(tests, key=lambda test: test.seconds):
        function = test.item.nodeid.partition("[")[0]
        own = test.item.path.name.startswith(f"test_{module}")
        keys[test.item.nodeid] = (not own, seen[function], test.seconds)
        seen[function] += 1
    return sorted(tests, key=lambda test: keys[test.item.nodeid])


def _verdict(mutant: str, tests: list[Reached], failures: Failures) -> str:
    if not tests:
        return "unreached"

    def run() -> None:
        from acp_server import _switch

        _switch.choose(mutant)
        for test in tests:
            _run(test.item)
            if failures.any:
                os._exit(1)

    code = _in_a_fork(run, 10 + 3 * sum(test.seconds for test in tests))
    return {0: "survived", None: "hung"}.get(code, "caught")


def _unchanged(items: list[pytest.Item], failures: Failures) -> list[Reached]:
    """Which test reaches what. Those that fail in the copy, which is slower, are left out."""
    record, hits = Path("reached"), Path("hits").resolve()

    def run() -> None:
        from acp_server import _switch

        os.environ["ACP_MUTANT_HITS"] = str(hits)
        with record.open("w") as lines:
            for number, item in enumerate(items):
                hits.write_text("")
                _switch.HITS.clear()
                failures.any = False
                begun = time.monotonic()
                _run(item)
                took = time.monotonic() - begun
                places = [] if failures.any else sorted(_switch.HITS | {int(line) for line in hits.read_text().split()})
                lines.write(json.dumps([number, took, places, failures.any]) + "\n")
                lines.flush()

    _in_a_fork(run, 3600)
    found: list[Reached] = []
    for line in record.read_text().splitlines():
        number, took, places, failed = json.loads(line)
        found.append(Reached(items[number], took, set(places)))
        if failed:
            _say(failed=items[number].nodeid)
    _say(tests=len(found), of=len(items), seconds=sum(test.seconds for test in found))
    return found


def _run(item: pytest.Item) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def _in_a_fork(run: Callable[[], None], seconds: float) -> int | None:
    """The exit code of a process that does this; None if it was killed since it took longer."""
    pid = os.fork()
    if not pid:
        code = 2
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
            run()
            code = 0
        finally:
            _end_children(os.getpid())
            os._exit(code)
    watched = os.pidfd_open(pid)
    ended, _, _ = select.select([watched], [], [], seconds)
    os.close(watched)
    if not ended:
        _end_children(pid)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


def _end_children(pid: int) -> None:
    for child in psutil.Process(pid).children(recursive=True):
        child.kill()


def _say(**what: object) -> None:
    os.write(_REPORT, json.dumps(what).encode() + b"\n")
