"""What changed between two runs."""

import io

import pytest

from acp_conformance.core.result import CaseResult, Verdict
from acp_conformance.report.compare import Comparison, compare, show
from tests.conformance.report.runs import hostile, result, run


def changed(was: Verdict, now: Verdict, reason_was: str = "", reason_now: str = "") -> Comparison:
    return compare(run(result("a/b", was, reason_was)), run(result("a/b", now, reason_now)))


def ids(cases: object) -> list[str]:
    assert isinstance(cases, list)
    return [(case if isinstance(case, CaseResult) else case[1]).id for case in cases]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (Verdict.PASS, Verdict.FAIL),
        (Verdict.PASS, Verdict.WARN),
        (Verdict.PASS, Verdict.SKIP),
        (Verdict.SKIP, Verdict.WARN),
        (Verdict.WARN, Verdict.FAIL),
        (Verdict.FAIL, Verdict.ERROR),
        (Verdict.CHOICE, Verdict.FAIL),
        (Verdict.NOT_APPLICABLE, Verdict.FAIL),
    ],
)
def test_worse_one_way_is_better_the_other_way(was: Verdict, now: Verdict) -> None:
    worse, better = changed(was, now), changed(now, was)
    assert (ids(worse.worse), worse.better, worse.otherwise, worse.exit_code) == (["a/b"], [], [], 1)
    assert (ids(better.better), better.worse, better.otherwise, better.exit_code) == (["a/b"], [], [], 0)


@pytest.mark.parametrize("verdict", Verdict)
def test_what_stays_as_it_was_is_not_mentioned(verdict: Verdict) -> None:
    same = changed(verdict, verdict, "because", "because")
    assert (same.worse, same.better, same.otherwise, same.new, same.gone, same.exit_code) == ([], [], [], [], [], 0)


def test_another_choice_and_a_rule_that_now_applies_are_neither() -> None:
    for comparison in (
        changed(Verdict.CHOICE, Verdict.CHOICE, "refused", "queued"),
        changed(Verdict.NOT_APPLICABLE, Verdict.PASS),
        changed(Verdict.PASS, Verdict.CHOICE, "", "refused"),
    ):
        assert (ids(comparison.otherwise), comparison.exit_code) == (["a/b"], 0)


def test_another_reason_for_the_same_failure_is_no_change() -> None:
    assert changed(Verdict.FAIL, Verdict.FAIL, "3 answers", "2 answers").otherwise == []


def test_cases_come_and_go() -> None:
    comparison = compare(run(result("a/old"), result("a/b")), run(result("a/b"), result("a/new", Verdict.FAIL)))
    assert (ids(comparison.new), ids(comparison.gone), comparison.exit_code) == (["a/new"], ["a/old"], 0)


def test_agents_and_clients_are_not_compared() -> None:
    with pytest.raises(ValueError, match="one run judges an agent, the other a client"):
        compare(run(), run(kind="client"))


def test_only_what_differs_is_shown() -> None:
    before = run(result("a/same"), result("a/bad"), result("a/good", Verdict.FAIL, "twice"), result("a/gone"))
    after = run(result("a/same"), result("a/bad", Verdict.WARN, "late"), result("a/good"), result("a/new"))
    stream = io.StringIO()
    show(compare(before, after), stream)
    assert stream.getvalue() == (
        "before: sample 1.2 (protocol 1), 2026-01-02T03:04:05.678901+00:00\n"
        "after: sample 1.2 (protocol 1), 2026-01-02T03:04:05.678901+00:00\n"
        "\nWorse\n  a/bad  pass -> warn\n      late\n"
        "\nBetter\n  a/good  fail -> pass\n      twice\n"
        "\nNew\n  a/new  pass\n"
        "\nGone\n  a/gone  pass\n"
        "\n1 worse, 1 better, 0 otherwise, 1 new, 1 gone\n"
    )


def test_a_file_from_a_stranger_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    show(compare(hostile(), run(subject=None, started="\x1b[2J")), stream)
    show(compare(run(), hostile()), stream)
    assert not set(stream.getvalue()) & {"\x1b", "\x00", "\r", "\u202e"}
