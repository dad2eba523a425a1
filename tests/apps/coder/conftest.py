"""What the tests of the workspace engines share."""

import os
import shutil

import pytest


@pytest.fixture
def require_git() -> None:
    """A test that compares with git is skipped where it is missing, and fails there in CI."""
    if shutil.which("git") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("git is missing, and CI must run the tests that compare with it", pytrace=False)
        pytest.skip("git is missing")
