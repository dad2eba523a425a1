"""Random storms in memory, each of which follows from its seed; the oracle is what the documents promise."""

import logging
import os
import re
from collections.abc import Iterator

import pytest

from tests.storm.memory import Storm
from tests.storm.oracle import PROMISES, broken
from tests.storm.replay import FIRST_SEED, SEEDS, replay

BATCH = 25
"""Seeds of one test."""


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Handlers that fail on purpose fill the log; to write all of it costs more than the storms."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.behaviour(
    "A1", "B1", "B2", "B3", "B4", "B8", "B16", "C1", "C4", "C7", "C11", "E1", "E6", "F2", "F5", "F9", "G1", "K1", "K2"
)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, BATCH))
def test_no_storm_breaks_a_promise(backend: str, first: int) -> None:
    for seed in range(first, min(first + BATCH, FIRST_SEED + SEEDS)):
        found = broken(Storm(backend, seed).run())
        assert not found, "\n".join([f"replay: {replay(backend, seed)}", *found])


@pytest.mark.behaviour("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M9", "M10", "M11")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, BATCH))
def test_no_storm_of_version_2_breaks_a_promise(backend: str, first: int) -> None:
    for seed in range(first, min(first + BATCH, FIRST_SEED + SEEDS)):
        found = broken(Storm(backend, seed, 2).run())
        assert not found, "\n".join([f"replay: {replay(backend, seed, version=2)}", *found])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_storm_can_be_repeated(backend: str) -> None:
    for seed in range(10):
        assert happened(backend, seed) == happened(backend, seed)


def happened(backend: str, seed: int) -> list[str]:
    """All that a storm has noted, but for what is made by lot or by the clock of the machine."""
    notes = [str(note) for note in Storm(backend, seed).run().journal.notes]
    return [re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[0-9:.]*Z", "...", note) for note in notes]


def test_every_promise_says_where_it_stands() -> None:
    for name, (_, reference) in PROMISES.items():
        document = reference.split(":")[0]
        assert os.path.exists(document) or os.path.exists(f"docs/{document}"), name
