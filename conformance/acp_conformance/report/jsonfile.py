"""Writes and reads a run as a JSON file, whose contents `acp_conformance.core.result` describes."""

from __future__ import annotations

import json
from pathlib import Path

from acp_conformance.core.private import write_private
from acp_conformance.core.result import Run


def write(run: Run, path: Path) -> None:
    """Write the run in ASCII, so that surrogates of a subject are kept. Raises OSError."""
    write_private(path, f"{json.dumps(run.to_json(), indent=1)}\n".encode("ascii"))


def read(path: Path) -> Run:
    """Return the run that `write` wrote.

    Raises:
     OSError: there is no such file, or it cannot be read.
     ValueError: the file is not a run; the text names the file.
    """
    try:
        return Run.from_json(json.loads(path.read_text("utf-8")))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
