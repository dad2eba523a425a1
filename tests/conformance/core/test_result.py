"""The data of a run: into JSON and back, and the exit code it stands for."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from acp_conformance.core.result import SUITE, TEXT_LIMIT, CaseResult, Level, Run, Verdict, shorten


def result(verdict: Verdict) -> CaseResult:
    return CaseResult(
        id=f"ids/{verdict.name.lower()}",
        group="ids",
        title="A rule.",
        level=Level.MUST,
        section="Nowhere",
        source="ACP v1",
        verdict=verdict,
        reason="because",
        seconds=0.25,
        transcript=({"at": 0.1, "from": "suite", "text": '{"id":1}'}, {"at": 0.2, "from": "subject", "text": "é\n"}),
        stderr="oh",
    )


def run(verdicts: Sequence[Verdict]) -> Run:
    subject = {"name": "a", "version": None, "protocolVersion": 1}
    return Run("agent", ("python", "agent.py"), subject, "2026-01-01T00:00:00+00:00", 1.5, [*map(result, verdicts)])  # pyright: ignore[reportArgumentType]


def test_a_run_comes_back_from_json_as_it_was() -> None:
    before = run(list(Verdict))
    data = json.loads(json.dumps(before.to_json()))
    assert Run.from_json(data).to_json() == before.to_json()
    assert data["suite"] == SUITE
    assert data["cases"][0]["transcript"][1] == {"at": 0.2, "from": "subject", "text": "é\n"}
    assert [case["verdict"] for case in data["cases"]] == [verdict.value for verdict in Verdict]


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"suite": "0"},
        {"suite": SUITE},
        {"suite": SUITE, "cases": [{}]},
        {"suite": SUITE, "cases": [{"level": "MUST", "verdict": "great"}]},
        {"suite": SUITE, "cases": None},
        {"suite": SUITE, "cases": [], "more": 1},
    ],
)
def test_what_is_no_run_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        Run.from_json(data)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([Verdict.PASS], 0),
        ([Verdict.PASS, Verdict.WARN, Verdict.SKIP, Verdict.NOT_APPLICABLE, Verdict.CHOICE], 0),
        ([Verdict.WARN], 0),
        ([Verdict.PASS, Verdict.FAIL], 1),
        ([Verdict.FAIL, Verdict.ERROR], 1),
        ([Verdict.PASS, Verdict.ERROR], 2),
        ([Verdict.SKIP, Verdict.NOT_APPLICABLE], 2),
        ([], 2),
    ],
)
def test_the_exit_code_tells_a_broken_must_from_what_could_not_be_run(verdicts: list[Verdict], code: int) -> None:
    assert run(verdicts).exit_code() == code


def test_an_interrupted_run_and_a_mistake_of_the_suite_have_exit_codes_of_their_own() -> None:
    assert run([Verdict.PASS, Verdict.SUITE_ERROR, Verdict.ERROR]).exit_code() == 3
    assert run([Verdict.SUITE_ERROR, Verdict.FAIL]).exit_code() == 1
    assert run([Verdict.PASS, Verdict.SLOW, Verdict.UNREACHED]).exit_code() == 0
    assert replace(run([Verdict.FAIL]), interrupted=True).exit_code() == 130


def test_a_warning_counts_where_what_should_be_is_required() -> None:
    assert run([Verdict.PASS, Verdict.WARN]).exit_code() == 0
    assert run([Verdict.PASS, Verdict.WARN]).exit_code(Level.SHOULD) == 1


def test_what_was_broken_before_does_not_count_and_everything_else_does() -> None:
    broken = run([Verdict.PASS, Verdict.FAIL, Verdict.WARN])
    assert broken.exit_code(Level.SHOULD, {"ids/fail", "ids/warn"}) == 0
    assert broken.exit_code(Level.SHOULD, {"ids/fail"}) == 1
    assert broken.exit_code(Level.MUST, {"ids/warn"}) == 1


def test_verdicts_are_counted_also_those_that_never_came() -> None:
    counts = run([Verdict.PASS, Verdict.PASS, Verdict.SKIP]).counts()
    assert list(counts) == list(Verdict)
    assert (counts[Verdict.PASS], counts[Verdict.SKIP], counts[Verdict.FAIL]) == (2, 1, 0)


def test_a_long_text_is_cut_and_says_so() -> None:
    assert shorten("x" * TEXT_LIMIT) == "x" * TEXT_LIMIT
    assert shorten("x" * (TEXT_LIMIT + 1234)) == "x" * TEXT_LIMIT + "... (1,234 more characters)"
