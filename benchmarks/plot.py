"""The figures and curves as pictures: SVG, written by hand.

A plotting library would add megabytes and half a dozen packages to the lock for these two pictures of bars and lines.
The colours can be distinguished by everyone, on white and on black.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

from .growth import Curve
from .rounds import Series

_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MET, _MISSED, _NONE = "#009e73", "#d55e00", "#808080"
_LONGEST = 3.0
_STYLE = "text{font:12px sans-serif;fill:#808080}.right{text-anchor:end}.middle{text-anchor:middle}"


def bars(series: Sequence[Series]) -> str:
    """A bar for each figure, as long as our ratio to the official SDK, with a mark at the goal; very long
    bars are cut off."""
    shown = [one for one in series if one.ratio is not None]
    longest = min(_LONGEST, max([1.0, *(one.ratio or 0.0 for one in shown)]))
    left, width, row = 380, 400, 22
    parts: list[str] = []
    for number, one in enumerate(shown):
        ratio, goal, y = one.ratio or 0.0, one.figure.goal, 10 + number * row
        color = {"ok": _MET, "MISSED": _MISSED}.get(one.verdict, _NONE)
        length = min(ratio, longest) / longest * width
        parts.append(_text(left - 8, y + 12, one.figure.meaning, "right"))
        parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="15" fill="{color}"/>')
        parts.append(_text(left + length + 6, y + 12, f"{ratio:.2f}"))
        if goal is not None:
            mark = left + goal / longest * width
            parts.append(_line([(mark, y - 2), (mark, y + 17)], _NONE))
    height = 20 + len(shown) * row
    official = left + width / longest
    parts.append(_line([(official, 0), (official, height)], _NONE, 'stroke-dasharray="4"'))
    parts.append(_text(official, height + 14, "official SDK = 1", "middle"))
    return _svg(left + width + 60, height + 24, parts)


def lines(curves: Sequence[Curve]) -> str:
    """A line for each curve, both axes logarithmic: linear growth rises like the grid's diagonals."""
    points = [point for curve in curves for point in curve.points]
    across = _Axis([point.size for point in points], 60, 520)
    up = _Axis([point.seconds for point in points], 380, 20)
    parts: list[str] = []
    for decade in across.decades():
        parts.append(_line([(across.at(decade), 20), (across.at(decade), 380)], "#80808040"))
        parts.append(_text(across.at(decade), 396, f"{decade:,.0f}", "middle"))
    for decade in up.decades():
        parts.append(_line([(60, up.at(decade)), (520, up.at(decade))], "#80808040"))
        parts.append(_text(54, up.at(decade) + 4, f"{decade:g} s", "right"))
    for number, curve in enumerate(curves):
        color = _COLORS[number % len(_COLORS)]
        parts.append(_line([(across.at(p.size), up.at(p.seconds)) for p in curve.points], color, 'stroke-width="2"'))
        parts.append(f'<rect x="540" y="{20 + number * 20}" width="12" height="12" fill="{color}"/>')
        parts.append(_text(558, 31 + number * 20, f"{curve.meaning}: {curve.verdict}"))
    return _svg(900, 410, parts)


class _Axis:
    """A logarithmic scale from whole decades to pixels."""

    def __init__(self, values: Iterable[float], begin: float, end: float) -> None:
        exponents = [math.log10(value) for value in values]
        self._low, self._high = math.floor(min(exponents)), math.ceil(max(exponents))
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        span = max(1, self._high - self._low)
        return self._begin + (math.log10(value) - self._low) / span * (self._end - self._begin)

    def decades(self) -> list[float]:
        return [10.0**exponent for exponent in range(self._low, self._high + 1)]


def _line(points: Sequence[tuple[float, float]], color: str, more: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" {more}/>'


def _text(x: float, y: float, text: str, place: str = "left") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{place}">{escape(text)}</text>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    inside = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{_STYLE}</style>\n{inside}\n</svg>\n'
