"""A situation that does not work is no fault of the agent: what needs it is skipped, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from acp_conformance.agent import situation
from acp_conformance.agent.cases import load
from acp_conformance.agent.profile import SITUATIONS, Profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.agent.subject import Agent
from acp_conformance.agent.v2 import cases as v2
from acp_conformance.core.result import CaseResult, Verdict
from tests.conformance.agent.test_run import BACKENDS, Started
from tests.conformance.fuzz.agent import Over, SmallAgent, chunk, error, result
from tests.conformance.fuzz.agents import PROFILE
from tests.conformance.v2.clean import Clean
from tests.conformance.v2.lines import starting
from tests.conformance.v2.test_faults import PROFILE as V2

ACCUSED = {Verdict.FAIL, Verdict.WARN, Verdict.SLOW, Verdict.UNREACHED}
CASES = {name: [case for case in load() if name in case.needs] for name in SITUATIONS}
OF_VERSION_1 = [name for name in CASES if CASES[name] and name != "fails"]
"""Any end of a turn will do for `fails`, and the others are of version 2."""


class Answers(SmallAgent):
    """Its turns say something and end, whatever the prompt is."""

    def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
        yield chunk(session, "I would rather not.")
        yield result(id, {"stopReason": "end_turn"})


class Silent(SmallAgent):
    """Its turns end at once, and say nothing."""

    def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
        yield result(id, {"stopReason": "end_turn"})


class Fails(SmallAgent):
    """Its turns end with an error: the model cannot be reached."""

    def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
        yield error(id, -32603)


class Refuses(SmallAgent):
    """Its turns are refused: it finds fault with every prompt."""

    def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
        yield error(id, -32602)


class Stops(SmallAgent):
    """Its turns begin to work, as `hang` does, and end by themselves."""

    def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
        yield chunk(session, "Working.")
        yield self._ask(id, session, "fs/read_text_file", {"path": "/tmp/a.txt"})
        yield result(id, {"stopReason": "end_turn"})


class Dies(SmallAgent):
    """Its process ends at a prompt."""

    def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
        raise Over


def judge(kind: type[SmallAgent], name: str, backend: str = "asyncio") -> list[CaseResult]:
    run = AgentRun(["small"], PROFILE, timeout=0.4, jobs=8, start=Started(kind))
    return list(anyio.run(run.run, CASES[name], backend=backend).cases)


def accusations(found: list[CaseResult]) -> dict[str, str]:
    return {each.id: each.reason for each in found if each.verdict in ACCUSED}


@pytest.mark.parametrize("kind", [Answers, Silent, Fails])
@pytest.mark.parametrize("name", [each for each in OF_VERSION_1 if each not in ("quick", "stream")])
def test_no_case_accuses_an_agent_whose_turn_is_another_one(name: str, kind: type[SmallAgent]) -> None:
    assert accusations(judge(kind, name)) == {}


@pytest.mark.parametrize("kind", [Fails, Refuses])
@pytest.mark.parametrize("name", ["quick", "stream"])
def test_no_case_accuses_an_agent_whose_turns_all_fail(name: str, kind: type[SmallAgent]) -> None:
    assert accusations(judge(kind, name)) == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_skipped_says_what_came_instead(backend: str) -> None:
    (found,) = [each for each in judge(Answers, "permission", backend) if each.id == "permission/rejected"]
    assert found.verdict is Verdict.SKIP
    assert found.reason == (
        "the situation 'permission' does not work: instead of a turn that requests permission and waits for the "
        "response, came a turn that ended with the stop reason 'end_turn'"
    )


@pytest.mark.parametrize("kind", [Answers, Refuses])
def test_a_situation_of_the_profile_that_does_not_come_about_is_a_failure_of_its_own(kind: type[SmallAgent]) -> None:
    cases = [*CASES["permission"], *CASES["plan"], *load().matching(["profile"])]
    run = AgentRun(["small"], PROFILE, timeout=0.4, jobs=8, start=Started(kind))
    *others, found = anyio.run(run.run, cases).cases
    assert {each.verdict for each in others} <= {Verdict.SKIP, Verdict.NOT_APPLICABLE}
    assert found.verdict is Verdict.FAIL
    assert "the situation 'permission' does not work: instead of a turn that requests permission" in found.reason
    assert "the situation 'plan' does not work: instead of a turn that reports a plan" in found.reason


def test_without_a_profile_no_situation_has_to_come_about() -> None:
    run = AgentRun(["small"], Profile(), timeout=0.4, jobs=8, start=Started(Answers))
    (found,) = anyio.run(run.run, load().matching(["profile"])).cases
    assert found.verdict is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize("name", ["hang", "stubborn", "nested"])
def test_a_turn_that_ends_by_itself_is_none_that_runs_until_it_is_cancelled(name: str) -> None:
    found = judge(Stops, name)
    assert accusations(found) == {}
    assert any("then runs until it is cancelled" in each.reason or "until it is" in each.reason for each in found)


@pytest.mark.parametrize("name", OF_VERSION_1)
def test_an_agent_that_dies_at_its_prompt_is_accused(name: str) -> None:
    assert accusations(judge(Dies, name))


def test_a_situation_is_tried_once_however_many_cases_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    async def missing(agent: Agent, name: str, version: int) -> str:
        tried.append(name)
        return await situation.missing(agent, name, version)

    monkeypatch.setattr("acp_conformance.agent.run.missing", missing)
    assert len(judge(Answers, "permission")) > 20
    assert tried == ["permission"]


@pytest.mark.parametrize("wrong", ["hang", "permission", "cancellable", "shell"])
def test_the_same_holds_for_version_2(wrong: str) -> None:
    # Its turn is that of `quick`, which says something and ends.
    known = Profile(situations={**V2.situations, wrong: V2.situations["quick"]})
    cases = [case for case in v2.load() if wrong in case.needs]
    run = AgentRun(["clean"], known, timeout=1.0, jobs=6, start=starting(Clean))
    found = anyio.run(run.run, cases).cases
    assert accusations(list(found)) == {}
    assert any(f"the situation {wrong!r} does not work" in each.reason for each in found)
