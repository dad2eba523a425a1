"""What a run may break and skip, as a short file that people edit."""

from pathlib import Path

import pytest

from acp_conformance.core.result import Level, Run, Verdict
from acp_conformance.report import accepted
from tests.conformance.report.runs import HOSTILE, every_verdict, result, run


def read(tmp_path: Path, text: str) -> accepted.Baseline:
    path = tmp_path / "accepted.toml"
    path.write_text(text, "utf-8")
    return accepted.read(path)


def broken(judged: Run, known: accepted.Baseline) -> list[str]:
    return list(judged.broken(Level.SHOULD, known.known, known.passed))


def test_the_list_of_a_run_accepts_that_run(tmp_path: Path) -> None:
    for judged in (every_verdict(), run(result("a/b", Verdict.FAIL, HOSTILE))):
        assert broken(judged, read(tmp_path, accepted.render(judged))) == []


def test_what_was_tried_may_not_be_skipped_later(tmp_path: Path) -> None:
    known = read(tmp_path, accepted.render(run(result("a/passed"), result("a/skipped", Verdict.SKIP, "no"))))
    later = run(result("a/passed", Verdict.SKIP, "no"), result("a/skipped", Verdict.SKIP, "no"))
    assert broken(later, known) == ["a/passed"]


def test_a_list_of_other_rules_or_without_skipped_cases_says_nothing_of_what_is_skipped(tmp_path: Path) -> None:
    skips = run(result("a/b", Verdict.SKIP, "no"))
    assert broken(skips, read(tmp_path, 'rules = "0"\nskipped = []\n')) == []
    assert broken(skips, read(tmp_path, "")) == []


@pytest.mark.parametrize("text", ['skipped = "a/b"\nrules = "6"', "accept = []", "[[accepted]]\ncase = 1", "]"])
def test_a_list_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"accepted\.toml"):
        read(tmp_path, text)
