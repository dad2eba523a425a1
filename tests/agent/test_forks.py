"""Processes that an agent forks off: they have nothing of what makes it an agent."""

import os
import signal
import sys

import pytest

from tests.agent.processes.driver import started
from tests.agent.test_children import FAMILY
from tests.client.processes import gone

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@BACKENDS
def test_a_forked_process_has_the_signals_from_before(backend: str) -> None:
    with started([sys.executable, FAMILY, backend]) as agent:
        *ends, child = agent.call(1, "forked", signals=[signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
        assert ends[:2] == [-signal.SIGTERM, -signal.SIGHUP]
        # An interrupt is an exception again, which `multiprocessing` makes a 1 of, unless it has not yet begun.
        assert ends[2] in (1, -signal.SIGINT)
        # Nor does the one that hangs hold up our end.
        assert agent.finish() == 0
        assert agent.stderr.count("ending the process") == 0
        gone(child)


@BACKENDS
def test_a_forked_process_does_not_keep_the_client_from_seeing_the_end(backend: str) -> None:
    with started([sys.executable, FAMILY, backend]) as agent:
        (child,) = agent.call(1, "forked", signals=[])
        agent.signal(signal.SIGKILL)
        try:
            assert agent.rest() == []
            assert agent.exit_code() == -signal.SIGKILL
        finally:
            os.kill(child, signal.SIGKILL)
