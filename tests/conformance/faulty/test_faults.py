"""The suite can tell right from wrong: each planted fault is caught by the cases that are about it.

`faults.toml` says which case catches which agent. All agents that the chosen tests need are run together, before the
first test: most of the time they wait for what never comes.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.core.case import Case, Level, Registry
from acp_conformance.core.causes import folded
from acp_conformance.core.process import Start
from acp_conformance.core.result import Run, Verdict
from tests.prefork import Prefork, prefork

HERE = Path(__file__).parent
AGENTS = HERE / "agents"
COMMAND = (sys.executable, str(AGENTS / "__main__.py"))
MACHINERY = ("__init__", "__main__", "rpc", "clean", "situations", "servers_of", "outgoing")
TABLE: dict[str, dict[str, list[str]]] = tomllib.loads((HERE / "faults.toml").read_text("utf-8"))
CHOICES = {f"choices/{name}": patterns for name, patterns in TABLE.pop("choices").items()}
FAULTS = {f"{group}/{name}": cases for group, names in TABLE.items() for name, cases in names.items()}

# A faulty agent may leave its client waiting for ever, and that is what is to be found; a sound one never does.
SECONDS_OF_A_FAULT = 5.0
SECONDS_OF_A_CASE = 30.0
AGENTS_AT_ONCE = 24
# What the clean agent does not announce, or announces, so that a rule has nothing to be about.
NOT_ABOUT_CLEAN = {
    *("gating/image", "gating/audio", "gating/has-logout"),
    *("gating/no-load", "gating/no-resume", "gating/no-list", "gating/no-close", "gating/no-delete"),
    "session-cancel/queued-prompt",
    *("initialize/logs-out", "sessions/mode-and-option-agree", "terminals/shown-by-tools"),
}


@pytest.fixture(scope="module")
def cases() -> Registry:
    return agent_cases.load()


@pytest.fixture(scope="module")
def agents() -> Iterator[Prefork]:
    """Starts the agents of the folder."""
    with prefork(*(path.stem for path in sorted(AGENTS.glob("[a-z]*.py"))), path=AGENTS) as started:
        yield started


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, cases: Registry, agents: Prefork) -> Mapping[str, Run]:
    """The run of each agent that a chosen test asks for, by the name of the agent."""
    names = {item.name for item in request.session.items if item.path == request.path}
    wanted = {name: ids for name, ids in (FAULTS | CHOICES).items() if any(f"[{name}]" in test for test in names)}
    return anyio.run(partial(run_all, wanted, cases, agents.start))


async def run_all(wanted: Mapping[str, Iterable[str]], cases: Registry, start: Start) -> Mapping[str, Run]:
    runs: dict[str, Run] = {}
    known = profile.load(str(HERE / "profile.toml"))
    slots = anyio.Semaphore(AGENTS_AT_ONCE)

    async def run(name: str, patterns: Iterable[str]) -> None:
        async with slots:
            seconds = SECONDS_OF_A_CASE if name in CHOICES else SECONDS_OF_A_FAULT
            judge = AgentRun((*COMMAND, name), known, timeout=seconds, jobs=2, start=start)
            runs[name] = await judge.run(cases.matching(patterns))

    async with anyio.create_task_group() as tasks:
        for name, patterns in wanted.items():
            tasks.start_soon(run, name, patterns)
    return runs


def planted() -> Iterator[tuple[str, str | None]]:
    """Name and docstring of every agent of the folder but the clean one."""
    for path in sorted(AGENTS.glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body if path.stem not in MACHINERY else []:
            if isinstance(node, ast.ClassDef):
                words = re.sub(r"(?<!^)(?=[A-Z0-9])", "-", node.name).lower()
                yield f"{path.stem.replace('_', '-')}/{words}", ast.get_docstring(node)


def test_every_agent_of_the_folder_is_in_the_table_and_says_what_is_wrong_with_it() -> None:
    there = dict(planted())
    assert there.keys() == FAULTS.keys() | CHOICES.keys()
    assert all(there.values())


def test_the_table_names_cases_that_exist(cases: Registry) -> None:
    assert {id for ids in FAULTS.values() for id in ids} <= {case.id for case in cases}
    assert all(cases.matching([pattern]) for patterns in CHOICES.values() for pattern in patterns)


def test_every_rule_has_a_fault_that_breaks_it(cases: Registry) -> None:
    binding = {case.id for case in cases if case.level is not Level.CHOICE}
    assert binding - {id for ids in FAULTS.values() for id in ids} == set()


@pytest.mark.parametrize("agent", FAULTS)
def test_a_fault_is_caught_by_its_cases(agent: str, runs: Mapping[str, Run], cases: Registry) -> None:
    found = {result.id: (result.verdict, result.reason) for result in runs[agent].cases}
    assert not {id: found[id] for id in found if found[id][0] not in caught(cases[id])}


def caught(case: Case) -> set[Verdict]:
    """The verdicts that tell of a fault; where the specification leaves it open, it is told and not judged."""
    return {case.broken()} | ({Verdict.CHOICE} if case.level is Level.CHOICE else set())


@pytest.mark.parametrize("agent", CHOICES)
def test_an_agent_that_uses_its_freedom_breaks_no_rule(agent: str, runs: Mapping[str, Run]) -> None:
    wrong = {result.id: result.reason for result in runs[agent].cases if result.verdict in ("fail", "warn", "error")}
    assert not wrong


def test_what_the_profile_sets_in_every_session_is_no_fault_of_the_agent(cases: Registry, agents: Prefork) -> None:
    known = replace(profile.load(str(HERE / "profile.toml")), mode="code", options={"pace": "careful"})
    judge = AgentRun(COMMAND, known, timeout=SECONDS_OF_A_CASE, start=agents.start)
    run = anyio.run(judge.run, cases.matching(["sessions/*mode*", "sessions/*option*"]))
    found = {result.id: result.reason for result in run.cases if result.verdict is not Verdict.PASS}
    assert found.keys() <= NOT_ABOUT_CLEAN, found


def test_a_question_that_the_client_answers_with_its_cancel_is_not_missed_among_the_withdrawn(
    cases: Registry, agents: Prefork
) -> None:
    known = profile.load(str(HERE / "profile.toml"))
    asks = replace(known, situations={**known.situations, "nested": known.situations["permission"]})
    judge = AgentRun((*COMMAND, "nested/not-withdrawn"), asks, timeout=SECONDS_OF_A_CASE, start=agents.start)
    run = anyio.run(judge.run, cases.matching(["nested/withdrawn"]))
    assert [result.verdict for result in run.cases] == [Verdict.NOT_APPLICABLE]


@pytest.mark.parametrize(
    ("judged", "verdict"),
    [
        (["nested/cancelled-turn-ends", "permission/cancelled-turn-ends"], Verdict.UNREACHED),
        (["nested/cancelled-turn-ends"], Verdict.SKIP),
    ],
)
def test_a_cancelled_question_is_judged_once_where_it_is_all_that_the_client_is_asked(
    judged: list[str], verdict: Verdict, cases: Registry, agents: Prefork
) -> None:
    known = profile.load(str(HERE / "profile.toml"))
    asks = replace(known, situations={**known.situations, "nested": known.situations["permission"]})
    agent = AgentRun(
        (*COMMAND, "asked/cancelled-question-ends-the-turn"), asks, timeout=SECONDS_OF_A_FAULT, start=agents.start
    )
    found = {result.id: result.verdict for result in anyio.run(agent.run, cases.matching(judged)).cases}
    assert found.pop("nested/cancelled-turn-ends") is verdict
    assert set(found.values()) <= {Verdict.FAIL}


def test_one_fault_has_one_cause_however_many_cases_it_fails(cases: Registry, agents: Prefork) -> None:
    known = profile.load(str(HERE / "profile.toml"))
    agent = AgentRun((*COMMAND, "gating/cannot-list"), known, timeout=SECONDS_OF_A_FAULT, start=agents.start)
    run = anyio.run(agent.run, cases.matching(["gating/has-list", "sessions/list-*", "sessions/pages-end"]))
    ((first, others),) = folded([result for result in run.cases if result.verdict is Verdict.FAIL])
    assert first.id == "gating/has-list"
    assert len(others) >= 5


@pytest.mark.parametrize("group", sorted({case.group for case in agent_cases.load()}))
def test_the_clean_agent_passes(group: str, cases: Registry, agents: Prefork) -> None:
    known = profile.load(str(HERE / "profile.toml"))
    judge = AgentRun(COMMAND, known, timeout=SECONDS_OF_A_CASE, start=agents.start)
    run = anyio.run(judge.run, cases.matching([group]))
    assert run.cases
    for result in run.cases:
        right = {Verdict.PASS, Verdict.CHOICE if result.level == "CHOICE" else Verdict.PASS}
        if result.id in NOT_ABOUT_CLEAN:
            right = {Verdict.NOT_APPLICABLE}
        assert result.verdict in right, f"{result.id}: {result.verdict}: {result.reason}"
