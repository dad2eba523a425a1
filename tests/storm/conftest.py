"""What the storms share."""

import pytest


@pytest.fixture(autouse=True)
def all_in_one_slice() -> None:
    """A storm runs with the slices that users have."""
