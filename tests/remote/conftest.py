"""What holds for all that clients over WebSocket do."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_worth_a_warning(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever clients do is not a fault, and has no traceback."""
    yield
    if "refusals" in request.fixturenames:
        return
    records = caplog.get_records("call")
    assert not [record.getMessage() for record in records if record.levelno >= logging.WARNING or record.exc_info]
