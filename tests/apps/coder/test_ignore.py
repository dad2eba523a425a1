"""The rules of one ignore file; that they are git's is tested with the walk."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.apps.coder.ignore import IgnoreRules


@pytest.mark.parametrize(
    ("lines", "path", "is_directory", "verdict"),
    [
        (["*.log"], "a/b.log", False, True),
        (["*.log"], "a/b.txt", False, None),
        (["*.log", "!keep.log"], "a/keep.log", False, False),
        (["!keep.log", "*.log"], "a/keep.log", False, True),
        (["build/"], "build", True, True),
        (["build/"], "build", False, None),
        (["/top"], "top", False, True),
        (["/top"], "a/top", False, None),
        (["a/b"], "a/b", False, True),
        (["a/b"], "x/a/b", False, None),
        (["dir/**"], "dir", True, None),
        (["dir/**"], "dir/x/y", False, True),
        (["dir"], "dir/x", False, None),
        (["[[:digit:]].c"], "x/7.c", False, True),
        (["# comment", "", "  ", "/", "!"], "# comment", False, None),
        (["\\#x", "\\!y"], "#x", False, True),
        (["\\#x", "\\!y"], "!y", False, True),
        (["crlf\r"], "crlf", False, True),
        (["Icon\r\r"], "Icon", False, None),
        (["Icon\r\r"], "Icon\r", False, True),
        (["[z-a]", "[open", "ends\\", "good"], "good", False, True),
        (["name"], "name\n", False, None),
        (["x" * 2000], "x" * 2000, False, None),
    ],
)
def test_an_entry_is_judged_by_itself(lines: list[str], path: str, is_directory: bool, verdict: bool | None) -> None:
    assert IgnoreRules(lines).verdict(path, path.rpartition("/")[2], is_directory) is verdict


def test_rules_without_effect_are_no_rules() -> None:
    assert not IgnoreRules(["", "# nothing", "[open"])
    assert IgnoreRules(["x"])


def test_a_crafted_pattern_cannot_hold_up_the_walk() -> None:
    rules = IgnoreRules(["*a" * 30 + "b", "other"])
    begun = time.thread_time()
    assert rules.verdict("a" * 250, "a" * 250, False) is None
    assert time.thread_time() - begun < 2
    assert rules.verdict("x/other", "other", False) is True


def test_many_wildcards_still_match() -> None:
    rules = IgnoreRules(["*a*b*c*d*", "!*a*b*x*c*d*"])
    assert rules.verdict("d/-a-b-c-d-", "-a-b-c-d-", False) is True
    assert rules.verdict("d/-a-b-x-c-d-", "-a-b-x-c-d-", False) is False
    assert rules.verdict("d/-a-b-d-c-", "-a-b-d-c-", False) is None


@given(st.lists(st.text(alphabet=st.sampled_from("ab*?[]!^-\\/:#. \0\t\r\x85é"), max_size=12), max_size=4))
def test_no_ignore_file_is_ever_an_error(lines: list[str]) -> None:
    rules = IgnoreRules(lines)
    for path in ("a", "a/b", "b-a/é", "[a]"):
        assert rules.verdict(path, path.rpartition("/")[2], True) in (True, False, None)
