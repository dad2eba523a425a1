"""Where tests run side by side, each module runs in one process: its tests may share what is costly to make."""

from itertools import groupby
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

APART = {"tests/conformance/test_real_world.py"}
"""Modules with few tests that take a minute each. Each test goes to the next process that is free."""

WAITING = "tests/conformance/"
"""Where modules are that wait most of their time, for what must not come."""


def _part(nodeid: str) -> str:
    """What is dealt out as a whole: the module of a test, or the test itself."""
    module = nodeid.partition("::")[0]
    return nodeid if module in APART else module


class Modules(LoadScopeScheduling):
    """Deals out whole modules. pytest-xdist's own groups change node ids in a way that pytest 9.2 ignores."""

    def _split_scope(self, nodeid: str) -> str:
        return _part(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Modules:
    """Called by pytest-xdist in the process that deals out tests."""
    return Modules(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the modules that wait among those that work. They would come all together, and no process would work."""
    if not hasattr(config, "workerinput"):
        return
    parts = [list(part) for _, part in groupby(items, lambda item: _part(item.nodeid))]
    waiting = [part for part in parts if part[0].nodeid.startswith(WAITING)]
    working = [part for part in parts if not part[0].nodeid.startswith(WAITING)]
    # The last quarter of the run has no such module: the other processes would have to wait for its end.
    room = max(1, len(working) * 3 // 4 // max(1, len(waiting)))
    items.clear()
    for number, part in enumerate(working):
        if number % room == 0 and waiting:
            items += waiting.pop(0)
        items += part
    for part in waiting:
        items += part
