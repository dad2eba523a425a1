"""Interleaved rounds: each agent does the same work in turn, again and again; a noisy minute hits them all.

The ratio of a figure is the median of the ratios of its rounds, not the ratio of the medians, because both sides of one
ratio are measured within a second or two.
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from . import clock
from .figures import WORKLOADS, Figure, Workload
from .workloads import Command, Costs, Counts

OURS, UVLOOP, OFFICIAL, NEWEST, TYPESCRIPT, FLOOR = "ours", "uvloop", "official", "newest", "typescript", "floor"
"""`uvloop` is ours on that event loop; `newest` the official Python SDK in its newest version, in the environment
that `make bench` makes for it."""
_AGENTS = Path(__file__).parent / "agents"
_NEWEST = Path(sys.prefix, "newest-sdk", "bin", "python")
_SDK = Path(__file__).parents[1] / "tests/interop/node/node_modules/@agentclientprotocol/sdk"


def available() -> list[str]:
    """The agents that can run here: the TypeScript one needs node and the packages that the interop tests install."""
    has_newest = _NEWEST.is_file()
    has_uvloop = find_spec("uvloop") is not None
    has_typescript = shutil.which("node") is not None and _SDK.is_dir()
    there = {UVLOOP: has_uvloop, NEWEST: has_newest, TYPESCRIPT: has_typescript}
    return [name for name in (OURS, UVLOOP, OFFICIAL, NEWEST, TYPESCRIPT, FLOOR) if there.get(name, True)]


def commands(names: Iterable[str]) -> dict[str, Command]:
    """The command of each agent; the interpreter of the benchmarks runs those in Python."""
    return {name: _command(name) for name in names}


def _command(name: str) -> Command:
    if name == TYPESCRIPT:
        return ("node", str(_AGENTS / "typescript.mjs"))
    if name == UVLOOP:
        return (sys.executable, str(_AGENTS / f"{OURS}.py"), UVLOOP)
    if name == NEWEST:
        return (str(_NEWEST), str(_AGENTS / f"{OFFICIAL}.py"))
    return (sys.executable, str(_AGENTS / f"{name}.py"))


@dataclass(slots=True)
class Series:
    """One figure's samples, by agent, in order of the rounds."""

    figure: Figure
    samples: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def median(self, agent: str) -> float | None:
        taken = self.samples.get(agent)
        return median(taken) if taken else None

    @property
    def ratio(self) -> float | None:
        """Our ratio to the official SDK; None if one of the two was not measured."""
        return self.ratio_to(OFFICIAL)

    def ratio_to(self, other: str) -> float | None:
        """Our ratio to another agent."""
        pairs = zip(self.samples.get(OURS, ()), self.samples.get(other, ()), strict=False)
        ratios = [ours / theirs for ours, theirs in pairs if theirs]
        return median(ratios) if ratios else None

    @property
    def verdict(self) -> str:
        if self.figure.goal is None or self.ratio is None:
            return ""
        return "ok" if self.ratio <= self.figure.goal else "MISSED"


def select(only: Sequence[str]) -> list[Workload]:
    """The workloads that yield any of the named figures; all of them for no name."""
    return [one for one in WORKLOADS if not only or any(figure.name in only for figure in one.figures)]


def measure(
    workloads: Sequence[Workload],
    agents: Mapping[str, Command],
    counts: Counts,
    rounds: int,
    progress: Callable[[str], None],
) -> list[Series]:
    """Run each workload `rounds` times on each agent: the agents in turn, with a different first one each time."""
    measured: list[Series] = []
    for workload in workloads:
        series = {figure.name: Series(figure) for figure in workload.figures}
        measured += series.values()
        for number in range(rounds):
            for name in _rotated(list(agents), number):
                progress(f"{workload.figures[0].name}: round {number + 1} of {rounds}, {name}")
                with clock.one_core(workload.pinned):
                    costs = _run(workload, name, agents[name], counts)
                for figure, cost in costs.items():
                    series[figure].samples.setdefault(name, []).append(cost)
    return measured


def _run(workload: Workload, name: str, command: Command, counts: Counts) -> Costs:
    run = workload.instead if name in (OFFICIAL, NEWEST) and workload.instead else workload.run
    return run(command, counts)


def _rotated(names: list[str], by: int) -> list[str]:
    by %= len(names)
    return names[by:] + names[:by]
