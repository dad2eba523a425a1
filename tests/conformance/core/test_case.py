"""How rules are registered and chosen, and that every rule of the suite is written down whole."""

from pathlib import Path
from types import ModuleType

import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent.profile import SITUATIONS
from acp_conformance.client import cases as client_cases
from acp_conformance.core.case import (
    MUST,
    SHOULD,
    Level,
    Outcome,
    Registry,
    Verdict,
    choice,
    fail,
    not_applicable,
    skip,
)


def registry() -> Registry:
    made = Registry("agent")
    for id in ("ids/zero", "ids/text", "batch/empty"):

        @made.case(id, level=MUST, source="ACP v1", section="Nowhere", needs="hang")
        async def rule(_: object) -> None:
            """A rule.

            More about it.
            """

    return made


def test_a_case_knows_its_rule_and_its_group() -> None:
    case = registry()["ids/zero"]
    assert (case.title, case.group, case.needs) == ("A rule.", "ids", ("hang",))


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ([], ["ids/zero", "ids/text", "batch/empty"]),
        (["ids"], ["ids/zero", "ids/text"]),
        (["*/empty", "ids/zero"], ["ids/zero", "batch/empty"]),
        (["ids/ZERO"], []),
    ],
)
def test_cases_are_chosen_by_id_or_group_and_keep_their_order(patterns: list[str], chosen: list[str]) -> None:
    assert [case.id for case in registry().matching(patterns)] == chosen


@pytest.mark.parametrize("id", ["ids", "ids/", "Ids/zero", "ids/zero_one", "ids/zero/one", "ids/-zero"])
def test_an_id_that_is_not_group_and_words_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match="kebab"):
        Registry("agent").case(id, level=MUST, source="", section="")


def test_an_id_is_taken_once() -> None:
    with pytest.raises(ValueError, match="two cases are named ids/zero"):
        registry().case("ids/zero", level=MUST, source="", section="")


def test_a_case_that_states_no_rule_is_refused() -> None:
    async def silent(_: object) -> None:
        pass

    with pytest.raises(ValueError, match="no docstring"):
        Registry("agent").case("a/b", level=MUST, source="", section="")(silent)


@pytest.mark.parametrize(
    ("ending", "verdict"),
    [
        (fail, Verdict.FAIL),
        (skip, Verdict.SKIP),
        (not_applicable, Verdict.NOT_APPLICABLE),
        (choice, Verdict.CHOICE),
    ],
)
def test_a_case_ends_early_with_a_verdict_and_a_reason(ending: object, verdict: Verdict) -> None:
    with pytest.raises(Outcome) as caught:
        ending("because")  # pyright: ignore[reportCallIssue]
    assert (caught.value.verdict, caught.value.reason) == (verdict, "because")


def test_a_broken_rule_is_judged_by_its_level() -> None:
    broken = {case.level: case.broken() for case in agent_cases.load()}
    assert broken == {Level.MUST: Verdict.FAIL, Level.SHOULD: Verdict.WARN, Level.CHOICE: Verdict.FAIL}
    assert SHOULD in broken


def test_a_case_that_another_one_stands_for_names_a_case_that_is_judged_before_it() -> None:
    cases = agent_cases.load()
    for case in cases:
        seen = {case.id}
        while case.after:
            case = cases[case.after]
            assert case.id not in seen
            assert not case.whole_run
            seen.add(case.id)


def test_batches_bind_as_those_of_json_rpc_under_strict_only() -> None:
    for case in agent_cases.load().matching(["batch"]):
        assert case.level is not Level.MUST
        assert case.stricter().level is case.strict
    assert agent_cases.load()["batch/empty"].stricter().level is Level.MUST


@pytest.mark.parametrize(
    ("pattern", "level"),
    [
        ("bad-input/no-version", Level.CHOICE),
        ("bad-input/other-version", Level.SHOULD),
        ("ids/boolean", Level.SHOULD),
        ("ids/object", Level.SHOULD),
        ("ids/array", Level.SHOULD),
        ("schema/custom-members", Level.SHOULD),
    ],
)
def test_a_rule_that_binds_the_sender_or_a_later_schema_may_lift_is_no_must(pattern: str, level: Level) -> None:
    assert agent_cases.load()[pattern].level is level


def test_members_beside_the_schema_are_a_warning_for_clients_too() -> None:
    assert client_cases.load()["schema/custom-members"].level is Level.SHOULD


def test_every_case_for_agents_says_where_its_rule_stands_and_needs_only_what_profiles_have() -> None:
    cases = agent_cases.load()
    for case in cases:
        assert case.source, case.id
        assert case.section, case.id
        assert case.title.endswith("."), case.id
        assert set(case.needs) <= set(SITUATIONS), case.id
    titles = [case.title for case in cases]
    assert len(titles) == len(set(titles)), "each case states a rule of its own"


def test_no_group_is_empty() -> None:
    groups = {case.group for case in agent_cases.load()}
    assert groups >= {"envelope", "ids", "bad-input", "initialize", "gating", "sessions", "batch", "ordering"} | {
        "closing",
        "schema",
    }


def test_a_file_of_cases_that_is_not_listed_is_no_secret(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text("")
    package = ModuleType("cases_of_a_test")
    package.__path__ = [str(tmp_path)]
    with pytest.raises(LookupError, match="second"):
        Registry("test").load(package, ["first"])
    with pytest.raises(LookupError, match="third"):
        Registry("test").load(package, ["first", "second", "third"])
