"""What the tests of the connection share."""

import pytest

from acp_server.peer import reader as reader_module


@pytest.fixture
def one_line_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader lets other tasks run behind each line."""
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    monkeypatch.setattr(reader_module, "_LOOK", 1)
