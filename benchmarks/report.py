"""The figures as a table for people and as JSON for machines. It measures nothing."""

import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import orjson

from .growth import Curve
from .rounds import NEWEST, Series

_PACKAGES = ("acp-server", "agent-client-protocol", "anyio", "orjson", "pydantic")


def table(series: Sequence[Series], agents: Sequence[str]) -> str:
    """A line for each figure: each agent's median, our ratio to the official SDK, goal and verdict; and the
    ratio to its newest version, if that was measured."""
    has_newest = NEWEST in agents
    head = ["figure", "", "", *agents, "ratio", "goal", "verdict", *(["to newest"] if has_newest else [])]
    rows = [head]
    for one in series:
        figure = one.figure
        medians = [_number(one.median(agent)) for agent in agents]
        goal = "" if figure.goal is None else f"{figure.goal:.2f}"
        newest = [_ratio(one.ratio_to(NEWEST))] if has_newest else []
        row = [figure.name, figure.meaning, figure.unit, *medians, _ratio(one.ratio), goal, one.verdict, *newest]
        rows.append(row)
    return _lined_up(rows)


def growth_table(curves: Sequence[Curve]) -> str:
    """A line for each curve: the cost of a piece of work at each size, and whether it stays constant."""
    rows = [["curve", "", "us for one of so many", "growth", "verdict"]]
    for curve in curves:
        costs = "  ".join(f"{point.size:,}: {point.each * 1e6:.3g}" for point in curve.points)
        rows.append([curve.name, curve.meaning, costs, f"{curve.growth:.2f}", curve.verdict])
    return _lined_up(rows)


def write_json(path: Path, series: Sequence[Series], rounds: int, curves: Sequence[Curve] = ()) -> None:
    """Everything measured, with each sample, the machine and the versions."""
    document = {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {name: version(name) for name in _PACKAGES},
        "rounds": rounds,
        "growth": [
            {
                "name": curve.name,
                "meaning": curve.meaning,
                "verdict": curve.verdict,
                "growth": curve.growth,
                "points": [{"size": point.size, "cpu_seconds": point.seconds} for point in curve.points],
            }
            for curve in curves
        ],
        "figures": [
            {
                "name": one.figure.name,
                "meaning": one.figure.meaning,
                "unit": one.figure.unit,
                "goal": one.figure.goal,
                "ratio": one.ratio,
                "ratio_to_newest": one.ratio_to(NEWEST),
                "verdict": one.verdict or None,
                "medians": {agent: one.median(agent) for agent in one.samples},
                "samples": one.samples,
            }
            for one in series
        ],
    }
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _lined_up(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    left = 3  # name, meaning and unit read from the left, figures line up at the right
    cells = [
        cell.ljust(width) if column < left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
