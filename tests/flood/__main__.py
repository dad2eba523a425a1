"""Every flood in full, and what it made: `python -m tests.flood [--over PIPE] [WORD ...]`, those whose name has a WORD.

Sent and peak are in MB. The longest gap of the loop, and the time from a cancel's arrival until its request is cut and
until its answer is here, are milliseconds of the process's CPU time. The exit code is 1 if something went wrong, or a
process took more than 300 MB.
"""

import argparse
import sys

from tests.flood import mixed
from tests.flood.cases import PIPES, over, run
from tests.flood.flooded import Flooded

MOST = 300_000_000
"""Bytes of memory that a process may take."""

_PIPES = dict(zip(("pipe", "socket", "large-pipe"), PIPES, strict=True))

_HEAD = ("case", "backend", "sent", "peak", "gap", "cut", "answer", "what the peer got")
_ROW = "{:47} {:8} {:>8} {:>8} {:>7} {:>7} {:>10}  {}"


def main() -> int:
    """Run them one after the other. 1 if one of them got no answer as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.flood", description="Flood agents and clients.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only floods whose name has one of these")
    parser.add_argument("--backend", action="append", choices=["asyncio", "trio"], help="only on this one")
    parser.add_argument(
        "--over", choices=list(_PIPES), help="only over this: a pipe of 64 KiB, a socket pair, or a pipe of 1 MiB"
    )
    parser.add_argument("--seconds", type=float, default=mixed.SECONDS, help="how long mixed traffic lasts (600)")
    options = parser.parse_args()
    mixed.SECONDS = options.seconds
    print(_ROW.format(*_HEAD), flush=True)
    bad = 0
    for case in over([_PIPES[options.over]] if options.over else PIPES):
        if options.words and not any(word in str(case) for word in options.words):
            continue
        for backend in options.backend or ("asyncio", "trio"):
            wire, error = run(case, backend, full=True)
            print(_ROW.format(str(case), backend, *_figures(wire), _outcome(wire, error)), flush=True)
            bad += error is not None or wire.peak > MOST
    return 1 if bad else 0


def _figures(wire: Flooded) -> tuple[str, ...]:
    cut = f"{wire.cut * 1000:.1f}" if wire.cut else "-"
    answer = f"{(wire.answered - wire.arrived) * 1000:.1f}" if wire.answered and wire.arrived else "-"
    return (f"{wire.sent / 1e6:.1f}", f"{wire.peak / 1e6:.0f}", f"{wire.gap * 1000:.1f}", cut, answer)


def _outcome(wire: Flooded, error: Exception | None) -> str:
    told = ", ".join(f"{count} {what}" for what, count in sorted(wire.got.items()))
    if wire.resident is not None:
        first, last = wire.resident
        told += f"; {first / 1e6:.1f} MB became {last / 1e6:.1f} MB"
    return told if error is None else f"{told} FAILED: {error!r}"


if __name__ == "__main__":
    sys.exit(main())
