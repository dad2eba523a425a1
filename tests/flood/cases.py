"""All floods: an agent's over each kind of pipe where that makes a difference, and a client's."""

from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from tests.flood import agent_cases, client_cases
from tests.flood.flooded import Flooded, Pipe, Side, flooded
from tests.flood.mixed import mixed_traffic

PEAK = 200_000_000
"""Bytes of memory that a process may take in a flood in the small. In full it is 300 MB."""

GAP = 0.25
"""CPU seconds for which the loop may be held; of a machine that is busy, where they do less."""

CUT = 0.2
"""CPU seconds that a cancel may take to reach its request; likewise."""


@dataclass(frozen=True)
class Case:
    """One flood."""

    side: Side
    flood: Callable[[Flooded, bool], None]
    pipe: Pipe = "64 KiB pipe"

    @property
    def name(self) -> str:
        """What it is called in reports."""
        words = self.flood.__name__.replace("_", " ")
        return f"{self.side}: {words}" + ("" if self.pipe == "64 KiB pipe" else f", {self.pipe}")


CASES = [Case("agent", flood) for flood in agent_cases.CASES]
CASES += [Case("agent", agent_cases.bad_lines, pipe) for pipe in ("socket pair", "1 MiB pipe")]
CASES += [Case("agent with a store", mixed_traffic)]
CASES += [Case("client", flood) for flood in (*client_cases.CASES, agent_cases.bad_lines)]


def run(case: Case, backend: str, *, full: bool) -> tuple[Flooded, Exception | None]:
    """Flood, in the small or in full. What was measured, and what went wrong."""
    with TemporaryDirectory() as folder, flooded(case.side, backend, case.pipe, folder) as wire:
        try:
            case.flood(wire, full)
        except (AssertionError, OSError, EOFError) as error:
            return wire, error
    return wire, None


def check(flooded: tuple[Flooded, Exception | None]) -> None:
    """What a flood in the small may do."""
    wire, error = flooded
    if error is not None:
        raise error
    assert wire.peak < PEAK
    assert wire.gap < GAP
    assert wire.cut < CUT
