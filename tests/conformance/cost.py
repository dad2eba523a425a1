"""`python -m tests.conformance.cost agent [OPTION]... -- COMMAND`: the suite as always, and then what it has cost.

The suite's own processor time is apart from that of the processes it started, which is for the most part theirs.
"""

import atexit
import resource
import sys

from acp_conformance.cli import main


def tell() -> None:
    """Write the seconds to standard error."""
    suite, started = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, theirs = (used.ru_utime + used.ru_stime for used in (suite, started))
    sys.stderr.write(f"{own:.1f} s of the suite's own CPU, {theirs:.1f} s of what it started\n")


if __name__ == "__main__":
    atexit.register(tell)
    main()
