"""The threat model names tests that exist, and an adversary has what holds and what does not."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text("utf-8")
ADVERSARIES = re.findall(r"^## (An? [^\n]*|The terminal)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)


def test_each_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`([a-z_0-9/]+\.py)`", PAGE))
    assert len(named) > 30
    assert not [name for name in sorted(named) if not (TESTS / name).is_file()]


@pytest.mark.parametrize(("name", "text"), ADVERSARIES, ids=[name for name, _ in ADVERSARIES])
def test_each_adversary_has_what_holds_with_its_test_and_what_does_not(name: str, text: str) -> None:
    heads = ("| guarantee", "| what", "| ---")
    rows = [row for row in text.splitlines() if row.startswith("| ") and not row.startswith(heads)]
    assert rows
    assert all(re.search(r"`[a-z_0-9/]+\.py`", row) for row in rows)
    assert "Not guaranteed:" in text


def test_all_seven_are_there() -> None:
    words = ("repository", "model", "tool server", "peer", "web page", "local user", "terminal")
    assert [word for word in words if not any(word in name for name, _ in ADVERSARIES)] == []
