"""Whether the page of results says of a public agent what a run of today says.

`python -m tests.conformance.public.published AGENT run.json`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from acp_conformance.core.result import Run, Verdict
from acp_conformance.report import jsonfile

PAGE = Path(__file__).parents[3] / "docs" / "conformance-results.md"
TITLES = {"pydantic-acp": "Our agent on pydantic-acp", "codex-acp": "codex-acp, on the TypeScript SDK"}
"""What an agent is called on the page, where that is not its name."""


def published(name: str) -> tuple[int, int]:
    """How many failures and warnings the page has."""
    title = re.escape(TITLES.get(name, name))
    (row,) = re.findall(rf"^\| {title} \| [^|]+ \| \| (\d+) \| (\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    return int(row[0]), int(row[1])


def found(run: Run) -> tuple[int, int]:
    """How many failures and warnings a run has."""
    verdicts = Counter(case.verdict for case in run.cases)
    return verdicts[Verdict.FAIL], verdicts[Verdict.WARN]


def main(name: str, report: str) -> int:
    """Say both, and all accusations if they differ. Exit status 1 if they do."""
    run = jsonfile.read(Path(report))
    if (now := found(run)) == (page := published(name)):
        sys.stdout.write(f"{name}: {now[0]} failed, {now[1]} warned, as published\n")
        return 0
    lines = [f"{name}: {now[0]} failed, {now[1]} warned; the page says {page[0]} and {page[1]}", *accusations(run)]
    sys.stderr.write("\n".join(lines) + "\n")
    return 1


def accusations(run: Run) -> Sequence[str]:
    """A line for each failure and each warning."""
    return [
        f"{case.verdict} {case.id}: {case.reason}" for case in run.cases if case.verdict in (Verdict.FAIL, Verdict.WARN)
    ]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
