"""Finds faults of a patch in the format `git_patch` that a diff of version 2 carries.

Only lines are read that cannot be content of a file: those before the first hunk of a section.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ENVELOPE = re.compile(r"From [0-9a-f]{7,} |From: |commit [0-9a-f]{7,}$|Subject: ")
_PATH = re.compile(r"(?:---|\+\+\+|rename from|rename to|copy from|copy to) (.*)")
_ABSENT = "/dev/null"


def faults_of(text: str, changed: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the text of a patch, given the paths of the changes that it shows."""
    for line in _headers(text):
        if _ENVELOPE.match(line):
            yield f"the patch has the line {line!r:.100} of a commit or an e-mail"
        elif found := _PATH.match(line):
            path = found[1].rstrip("\r").partition("\t")[0]
            # Git quotes a path with special characters.
            if path and path != _ABSENT and not path.startswith('"'):
                yield from _path(path, changed)


def _path(path: str, changed: Collection[str]) -> Iterator[str]:
    if path in changed:
        return
    if path[:2] in ("a/", "b/"):
        yield f"the path {path!r:.150} of the patch has the prefix {path[:2]!r}"
    elif not path.startswith("/") and not re.match(r"[A-Za-z]:[\\/]|\\\\", path):
        yield f"the path {path!r:.150} of the patch is not absolute"
    else:
        yield f"the patch changes {path!r:.150}, which is not among the changes"


def _headers(text: str) -> Iterator[str]:
    """The lines outside of hunks."""
    old = new = 0
    for line in text.split("\n"):
        if old > 0 or new > 0:
            if not line.startswith("\\"):
                old -= not line.startswith("+")
                new -= not line.startswith("-")
        elif hunk := _HUNK.match(line):
            old, new = (1 if count is None else int(count) for count in hunk.groups())
        else:
            yield line
