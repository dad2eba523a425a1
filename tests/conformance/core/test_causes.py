"""One fault is read about once: cases whose reasons differ in values alone have a cause in common."""

import pytest

from acp_conformance.core.causes import folded, with_causes
from acp_conformance.core.result import CaseResult, Verdict
from tests.conformance.report.runs import result


def failed(id: str, reason: str) -> CaseResult:
    return result(id, Verdict.FAIL, reason)


def causes(*cases: CaseResult, **broken_in: str) -> list[list[str]]:
    found = folded(with_causes(cases, {name.replace("_", "/"): id for name, id in broken_in.items()}))
    return [[first.id, *(each.id for each in others)] for first, others in found]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "the answer to session/prompt (id 4) did not come in 2.5 s",
            "the answer to session/prompt (id 17) did not come in 10 s",
        ),
        (
            "session/list is answered with -32601",
            'session/list was answered with an error: {"code": -32601, "message": "No"}',
        ),
        ("an id is a string, this is 1.5, in ids/zero: {...}", "an id is a string, this is 2.5, in ids/one: {...}"),
        ("the user said 'a', the replay has ''", "of 200 characters the replay has 0"),
        ("stopReason is 'end' instead of 'cancelled'", "stopReason is None instead of 'cancelled'"),
    ],
)
def test_reasons_that_differ_in_values_have_one_cause(one: str, other: str) -> None:
    assert causes(failed("a/one", one), failed("b/other", other)) == [["a/one", "b/other"]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("session/list is answered with -32601", "session/load is answered with -32601"),
        ("session/list is answered with -32601", "session/list is answered with -32602"),
        ("there is no answer", "there is no answer"),
        ("the answer to session/new did not come in time", "the answer to session/load did not come in time"),
    ],
)
def test_other_methods_codes_and_groups_have_other_causes(one: str, other: str) -> None:
    assert causes(failed("a/one", one), failed("b/other", other)) == [["a/one"], ["b/other"]]


def test_what_fails_where_lines_are_no_json_is_told_below_that() -> None:
    cases = [failed("turns/one", "no chunk came"), failed("ids/two", "7 is not 8"), failed("envelope/json", "not JSON")]
    wire = dict.fromkeys(("turns_one", "envelope_json"), "envelope/json")
    assert causes(*cases, **wire) == [["envelope/json", "turns/one"], ["ids/two"]]


def test_a_problem_without_company_names_no_cause() -> None:
    (case,) = with_causes([failed("a/one", "no")])
    assert case.cause == ""


def test_what_is_kept_has_no_cause() -> None:
    assert [case.cause for case in with_causes([result("a/one"), result("a/two")])] == ["", ""]
