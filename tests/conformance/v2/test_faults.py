"""The suite can tell right from wrong on version 2: each planted fault is caught by the case that is about it.

The agents are in memory, and answer at once: what does not come at once never comes.
"""

from collections.abc import Iterable, Mapping
from functools import partial

import anyio
import pytest

from acp_conformance.agent.profile import Profile, Situation
from acp_conformance.agent.run import AgentRun
from acp_conformance.agent.v2 import cases
from acp_conformance.core.case import Case
from acp_conformance.core.result import Level, Run, Verdict
from tests.conformance.v2.clean import Clean
from tests.conformance.v2.faults import cancelling, meaning, messages, opening, prompts, sessions
from tests.conformance.v2.lines import starting

CASES = cases.load()
MODULES = (opening, prompts, cancelling, sessions, messages, meaning)
CAUGHT_BY: Mapping[str, type[Clean]] = {id: agent for module in MODULES for id, agent in module.CAUGHT_BY.items()}
DOES = ("quick", "hang", "stubborn", "fails", "plan", "tool", "cancellable", "shell", "permission")
PROFILE = Profile(
    situations={"stream": Situation("stream", says="one two three"), **{name: Situation(name) for name in DOES}}
)
# Twice what is waited for what a faulty agent never says; a sound one has its say at once, on a busy machine too.
SECONDS = 6.0
AGENTS_AT_ONCE = 16


async def judge(agent: type[Clean], chosen: Iterable[Case], timeout: float = SECONDS) -> Run:
    return await AgentRun([agent.__name__], PROFILE, timeout=timeout, jobs=6, start=starting(agent)).run(chosen)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Mapping[str, Run]:
    """The run of each chosen case over the agent that has its fault, all beside each other."""
    chosen = [id for id in CAUGHT_BY if any(f"[{id}]" in item.name for item in request.session.items)]
    found: dict[str, Run] = {}

    async def one(id: str, slots: anyio.Semaphore) -> None:
        async with slots:
            found[id] = await judge(CAUGHT_BY[id], [CASES[id]])

    async def all_of_them() -> None:
        slots = anyio.Semaphore(AGENTS_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for id in chosen:
                tasks.start_soon(one, id, slots)

    anyio.run(all_of_them)
    return found


def test_each_case_that_accuses_has_a_fault_that_it_catches() -> None:
    assert {case.id for case in CASES if case.level is not Level.CHOICE} == set(CAUGHT_BY)


@pytest.mark.parametrize("id", CAUGHT_BY)
def test_a_fault_is_caught_by_its_case(id: str, runs: Mapping[str, Run]) -> None:
    (result,) = runs[id].cases
    assert result.verdict is CASES[id].broken(), result.reason


@pytest.mark.parametrize(
    ("id", "agent"),
    [(id, agent) for module in (messages, meaning) for id, agents in module.ALSO_CAUGHT.items() for agent in agents],
)
def test_a_message_of_the_wrong_shape_or_meaning_is_caught(id: str, agent: type[Clean]) -> None:
    (result,) = anyio.run(judge, agent, [CASES[id]]).cases
    assert result.verdict is CASES[id].broken(), result.reason


@pytest.mark.parametrize("agent", meaning.ALLOWED)
def test_what_the_text_allows_is_no_fault(agent: type[Clean]) -> None:
    run = anyio.run(judge, agent, list(CASES), 60.0)
    broken = (Verdict.FAIL, Verdict.WARN)
    assert {case.id: case.reason for case in run.cases if case.verdict in broken} == {}


def test_an_agent_that_answers_no_request_is_accused_once() -> None:
    run = anyio.run(judge, opening.AnswersUnderTextIds, list(CASES), 0.2)
    assert [case.id for case in run.cases if case.verdict is Verdict.FAIL] == ["v2-negotiation/answers"]
    assert not any(case.verdict is Verdict.PASS for case in run.cases)


def test_what_the_schema_leaves_open_is_no_fault() -> None:
    whole = [case for case in CASES if case.whole_run]
    run = anyio.run(judge, messages.Open, whole, 60.0)
    assert {case.id: case.reason for case in run.cases if case.verdict is not Verdict.PASS} == {}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_clean_agent_is_not_accused(backend: str) -> None:
    run = anyio.run(partial(judge, Clean, list(CASES), timeout=60.0), backend=backend)
    other = {case.id: case.verdict for case in run.cases if case.verdict is not Verdict.PASS}
    choices = dict.fromkeys(("v2-prompts/empty", "v2-held/how"), Verdict.CHOICE)
    assert other == {**choices, "v2-auth/no-way": Verdict.NOT_APPLICABLE}
