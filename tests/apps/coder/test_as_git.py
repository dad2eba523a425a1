"""The walk leaves out what git ignores, in random trees. `python -m tests.apps.coder.as_git 3000` tries more."""

import sys
from pathlib import Path

import pytest

from tests.apps.coder.as_git import differences

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names as this system has them")


@pytest.mark.usefixtures("require_git")
def test_of_thousands_of_files_those_are_left_out_that_git_ignores(tmp_path: Path) -> None:
    cases, bad = differences(tmp_path, range(30))
    assert bad == []
    assert cases > 3000
