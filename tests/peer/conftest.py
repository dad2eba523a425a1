"""What the tests of the connection share."""

import math

import pytest

from acp_server.peer import reader as reader_module


@pytest.fixture
def one_line_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader lets other tasks run behind each line."""
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    monkeypatch.setattr(reader_module, "_LOOK", 1)


@pytest.fixture
def all_in_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no other task gets a turn between lines that arrived together."""
    monkeypatch.setattr(reader_module, "_SLICE", math.inf)
