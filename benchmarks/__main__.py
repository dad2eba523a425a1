"""The command line of the benchmarks: `python -m benchmarks [--only FIGURE]... [--rounds N] [--json FILE]`.

Exit code: 0 when every goal measured is met, 1 when one is missed, 2 when it could not be measured.
"""

import argparse
import compileall
import sys
from pathlib import Path

from . import report
from .figures import WORKLOADS
from .rounds import available, commands, measure, select
from .subject import SubjectError
from .workloads import Counts

_PACKAGE = Path(__file__).parents[1] / "acp_server"


def main() -> int:
    options = _options()
    # As an installer does it. A first start would do it, too, but not where Python is told to write no bytecode.
    compileall.compile_dir(_PACKAGE, quiet=1)
    progress = _show if sys.stderr.isatty() else _be_quiet
    workloads, agents = select(options.only), commands(options.agents)
    try:
        series = measure(workloads, agents, Counts().scaled(options.scale), options.rounds, progress)
    except SubjectError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    progress("")
    shown = [one for one in series if not options.only or one.figure.name in options.only]
    print(report.table(shown, options.agents))
    print(f"\nMedians of {options.rounds} interleaved rounds; the ratio is ours to official, round by round.")
    if options.json:
        report.write_json(options.json, shown, options.rounds)
    return int(any(one.verdict == "MISSED" for one in shown))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What an agent costs.")
    names = [figure.name for workload in WORKLOADS for figure in workload.figures]
    agents = available()
    parser.add_argument("--only", action="append", default=[], choices=names, metavar="FIGURE", help=", ".join(names))
    parser.add_argument("--rounds", type=_positive, default=5, help="how often each is measured (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the work, 1.0 is all of it")
    parser.add_argument("--agents", nargs="+", default=agents, choices=agents, help="which agents")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    return parser.parse_args()


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
