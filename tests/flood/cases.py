"""All floods, each over a pipe; that of an agent with bad lines over each kind, where it makes the most difference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        return f"{self.side}: {self.flood.__name__.replace('_', ' ')}, {self.pipe}"


CASES = [Case("agent", flood) for flood in agent_cases.CASES]
CASES += [Case("agent", agent_cases.bad_lines, pipe) for pipe in ("socket pair", "1 MiB pipe")]
CASES += [Case("agent with a store", mixed_traffic)]
CASES += [Case("client", flood) for flood in (*client_cases.CASES, agent_cases.bad_lines)]


def cases(pipes: Sequence[Pipe]) -> list[Case]:
    """Each flood over each of these."""
    floods = dict.fromkeys(replace(case, pipe=pipes[0]) for case in CASES)
    return [replace(case, pipe=pipe) for case in floods for pipe in pipes]


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
