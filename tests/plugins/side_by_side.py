"""Where tests run side by side, each module runs in one process: its tests may share what is costly to make."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

APART = {"tests/conformance/test_real_world.py"}
"""Modules with few tests that take a minute each. Each test goes to the next process that is free."""


class Modules(LoadScopeScheduling):
    """Deals out whole modules. pytest-xdist's own groups change node ids in a way that pytest 9.2 ignores."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return nodeid if module in APART else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Modules:
    """Called by pytest-xdist in the process that deals out tests."""
    return Modules(config, log)
