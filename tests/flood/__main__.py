"""Every flood in full, and what it made: `python -m tests.flood [WORD ...]`, those whose name has one of the words.

Sent and peak are in MB. The longest gap of the loop, and the time from a cancel's arrival until its request is cut and
until its answer is here, are milliseconds of the process's CPU time.
"""

import sys

from tests.flood.cases import CASES, run

_HEAD = ("case", "backend", "sent", "peak", "gap", "cut", "answer", "what the peer got")
_ROW = "{:42} {:8} {:>8} {:>8} {:>7} {:>7} {:>10}  {}"


def main() -> int:
    """Run them one after the other. 1 if one of them got no answer as it should."""
    print(_ROW.format(*_HEAD), flush=True)
    bad = 0
    for case in CASES:
        if len(sys.argv) > 1 and not any(word in case.name for word in sys.argv[1:]):
            continue
        for backend in ("asyncio", "trio"):
            wire, error = run(case, backend, full=True)
            got = ", ".join(f"{count} {what}" for what, count in sorted(wire.got.items()))
            cut = f"{wire.cut * 1000:.1f}" if wire.cut else "-"
            answer = f"{(wire.answered - wire.arrived) * 1000:.1f}" if wire.answered and wire.arrived else "-"
            figures = (f"{wire.sent / 1e6:.1f}", f"{wire.peak / 1e6:.0f}", f"{wire.gap * 1000:.1f}", cut, answer)
            outcome = got if error is None else f"{got} FAILED: {error!r}"
            print(_ROW.format(case.name, backend, *figures, outcome), flush=True)
            bad += error is not None
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
