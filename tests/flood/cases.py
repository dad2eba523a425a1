"""All floods, and over what each of them runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, product
from tempfile import TemporaryDirectory

from tests.flood import agent_cases, client_cases, hostile_cases
from tests.flood.flooded import Flooded, Pipe, Side, flooded
from tests.flood.mixed import mixed_traffic
from tests.prefork import Prefork

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

    def __str__(self) -> str:
        return f"{self.side}: {self.flood.__name__.replace('_', ' ')}, {self.pipe}"


CASES = [Case("agent", flood) for flood in agent_cases.CASES]
CASES += [Case("agent with a store", mixed_traffic)]
CASES += [Case("hostile", flood) for flood in hostile_cases.CASES]
CASES += [Case("client", flood) for flood in (*client_cases.CASES, agent_cases.bad_lines)]

PIPES: tuple[Pipe, ...] = ("64 KiB pipe", "socket pair", "1 MiB pipe")


def over(pipes: Sequence[Pipe]) -> list[Case]:
    """Each flood over each of these; over one of them what takes ten minutes or does not fill them."""
    return [
        replace(case, pipe=pipe)
        for case in CASES
        for pipe in (pipes[:1] if case.flood is mixed_traffic or case.side == "hostile" else pipes)
    ]


def in_small(*sides: Side) -> Iterator[tuple[Case, str]]:
    """The floods that are tested: each on one backend and over one kind of pipe, by turns. `make flood` has them all.
    How much fits into the pipe makes the most difference to an agent that gets bad lines, so that has every one."""
    kinds = cycle(product(PIPES, ("asyncio", "trio")))
    for case in CASES:
        if case.side in sides:
            every = case.side == "agent" and case.flood is agent_cases.bad_lines
            for pipe, backend in islice(kinds, len(PIPES) * 2 if every else 1):
                yield replace(case, pipe=pipe), backend


def run(case: Case, backend: str, *, full: bool, forks: Prefork | None = None) -> tuple[Flooded, Exception | None]:
    """Flood, in the small or in full. What was measured, and what went wrong."""
    with TemporaryDirectory() as folder, flooded(case.side, backend, case.pipe, folder, forks) as wire:
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
