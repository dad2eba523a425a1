"""Storms against agents that are processes of their own, with pipes and signals: a few here, any number by hand."""

import os
import sys

import pytest

from tests.storm.oracle import broken
from tests.storm.process import ProcessStorm
from tests.storm.replay import FIRST_SEED, replay

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals, and pipes that do not block")

SEEDS = int(os.environ.get("STORM_PROCESS_SEEDS", "3"))
"""How many storms there are for each backend. Each costs the start of a process."""


@pytest.mark.behaviour("A1", "B1", "B3", "B4", "C1", "F2", "G1", "G17", "K1")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_no_storm_against_a_process_breaks_a_promise(backend: str, seed: int) -> None:
    # Half of them speak version 2.
    version = 1 + seed % 2
    storm = ProcessStorm(backend, seed, version)
    found = broken(storm.run())
    assert not found, "\n".join([f"replay: {replay(backend, seed, True, version)}", *found, storm.stderr])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("transport", ["http", "ws"])
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_no_storm_behind_a_remote_transport_breaks_a_promise(backend: str, transport: str, seed: int) -> None:
    storm = ProcessStorm(backend, seed, transport=transport)
    found = broken(storm.run())
    assert not found, "\n".join([f"replay: {replay(backend, seed, transport=transport)}", *found, storm.stderr])
