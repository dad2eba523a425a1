"""What a subject has said may be secret: whatever is written of it is for its owner alone."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_conformance.report import html, jsonfile, junit, markdown
from tests.conformance.report.runs import hostile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="rights and links as POSIX has them")
WRITERS = pytest.mark.parametrize("report", [html, jsonfile, junit, markdown], ids=lambda report: report.__name__)


@WRITERS
@pytest.mark.parametrize("before", [None, 0o644])
def test_a_report_is_for_its_owner_alone(report: Any, before: int | None, tmp_path: Path) -> None:
    path = tmp_path / "report"
    if before is not None:
        path.write_text("old" * 1_000_000)
        path.chmod(before)
    report.write(hostile(), path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.read_text("utf-8", "replace").endswith("old")


@WRITERS
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_report_is_not_written_through_a_link_and_does_not_wait_for_a_pipe(
    report: Any, kind: str, tmp_path: Path
) -> None:
    path, theirs = tmp_path / "report", tmp_path / "theirs"
    theirs.write_text("theirs")
    if kind == "link":
        path.symlink_to(theirs)
    else:
        os.mkfifo(path)
    with pytest.raises(OSError, match=r"symbolic links|No such device"):
        report.write(hostile(), path)
    assert theirs.read_text() == "theirs"
