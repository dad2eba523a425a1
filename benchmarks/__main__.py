"""The command line of the benchmarks: `python -m benchmarks [--growth] [--only NAME]... [--json FILE] [--svg FILE]`.

Without `--growth` it compares agents, with it it shows how our cost grows with the amount of work. Exit code: 0
when every measured goal is met and every curve is linear; 1 when not, 2 when it could not be measured.
"""

import argparse
import compileall
import sys
from collections.abc import Callable
from pathlib import Path

from . import growth, plot, report
from .figures import WORKLOADS
from .rounds import OURS, available, commands, measure, select
from .subject import SubjectError
from .workloads import Counts

_PACKAGE = Path(__file__).parents[1] / "acp_server"


def main() -> int:
    options = _options()
    # As an installer does it. A first start would do it too, unless Python is configured to write no bytecode.
    compileall.compile_dir(_PACKAGE, quiet=1)
    progress = _show if sys.stderr.isatty() else _be_quiet
    try:
        return _grow(options, progress) if options.growth else _compare(options, progress)
    except SubjectError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


def _compare(options: argparse.Namespace, progress: Callable[[str], None]) -> int:
    workloads, agents = select(options.only), commands(options.agents)
    series = measure(workloads, agents, Counts().scaled(options.scale), options.rounds, progress)
    progress("")
    shown = [one for one in series if not options.only or one.figure.name in options.only]
    print(report.table(shown, options.agents))
    print(f"\nMedians of {options.rounds} interleaved rounds; the ratio is ours to official, round by round.")
    if options.json:
        report.write_json(options.json, shown, options.rounds)
    if options.svg:
        options.svg.write_text(plot.bars(shown))
    return int(any(one.verdict == "MISSED" for one in shown))


def _grow(options: argparse.Namespace, progress: Callable[[str], None]) -> int:
    kinds = [kind for kind in growth.KINDS if not options.only or kind.name in options.only]
    curves = growth.measure(commands([OURS])[OURS], kinds, options.scale, progress)
    progress("")
    print(report.growth_table(curves))
    print("\nCPU time; growth is what a piece costs at the largest size, to what it costs at the middle one.")
    if options.json:
        report.write_json(options.json, (), 1, curves)
    if options.svg:
        options.svg.write_text(plot.lines(curves))
    return int(any(not curve.is_linear for curve in curves))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What an agent costs.")
    figures = [figure.name for workload in WORKLOADS for figure in workload.figures]
    curves = [kind.name for kind in growth.KINDS]
    names = ", ".join([*figures, "and with --growth:", *curves])
    agents = available()
    parser.add_argument("--growth", action="store_true", help="how cost grows with the amount of work, ours alone")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help=names)
    parser.add_argument("--rounds", type=_positive, default=5, help="how often each is measured (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the work, 1.0 is all of it")
    parser.add_argument("--agents", nargs="+", default=agents, choices=agents, help="which agents")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw it there")
    options = parser.parse_args()
    for name in {*options.only} - {*(curves if options.growth else figures)}:
        parser.error(f"there is no {'curve' if options.growth else 'figure'} {name}")
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _show(what: str) -> None:
    print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def _be_quiet(what: str) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())
