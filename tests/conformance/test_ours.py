"""Our own agents keep every rule of the suite that applies to them, on both backends, with nothing tolerated.

The scripted agent announces everything and has every situation, so that no rule is left out for want of something to
try it on; the workspace agent is what users get.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from conformance import agent as agent_cases
from conformance import profile
from conformance.case import Case
from conformance.report.terminal import Terminal
from conformance.result import Run, Verdict
from conformance.run import AgentRun

HERE = Path(__file__).parent
SERVE = str(Path(sys.executable).with_name("acp-server"))
COMMANDS = {"scripted": [SERVE, "serve", str(HERE / "scripted.py")], "workspace": [SERVE, "serve"]}
BACKENDS = ["asyncio", "trio"]
PATIENCE = 40.0

KEPT = {Verdict.PASS, Verdict.CHOICE, Verdict.NOT_APPLICABLE}

# A run takes half a minute of an idle machine with two cores, and several times as long of a busy one.
pytestmark = pytest.mark.timeout(400)


def run(name: str, backend: str, cases: Iterable[Case]) -> Run:
    # Enough for a machine that does something else as well; it costs no time where nothing is wrong.
    judged = AgentRun([*COMMANDS[name], "--backend", backend], profile.load(name), timeout=PATIENCE)
    return anyio.run(judged.run, cases)


def show(judged: Run) -> str:
    """What pytest prints of a run that is not as it should be."""
    Terminal(sys.stdout).end(judged)
    return "see the summary"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_scripted_agent_keeps_every_rule_and_none_is_skipped(backend: str) -> None:
    judged = run("scripted", backend, agent_cases.load())
    assert {case.id for case in judged.cases if case.verdict not in KEPT} == set(), show(judged)
    # It announces everything, so that these alone, for agents that do not announce something, can be about it.
    assert {case.id for case in judged.cases if case.verdict is Verdict.NOT_APPLICABLE} == {
        f"gating/no-{what}" for what in ("load", "resume", "list", "close", "delete", "logout")
    }, show(judged)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_workspace_agent_keeps_every_rule_that_it_can_be_tried_on(backend: str) -> None:
    # What no prompt of its has a part in was tried on trio with the scripted agent; `make conformance` does it again.
    cases = [case for case in agent_cases.load() if backend == "asyncio" or case.needs]
    judged = run("workspace", backend, cases)
    missing = set(profile.SITUATIONS) - set(profile.load("workspace").situations)
    for case in judged.cases:
        if case.verdict is Verdict.SKIP:
            assert case.reason.startswith("the profile has no situation")
            assert missing & set(agent_cases.load()[case.id].needs), show(judged)
        else:
            assert case.verdict in KEPT, show(judged)


@pytest.mark.parametrize("name", profile.included())
def test_every_profile_that_comes_with_the_suite_is_well_formed_and_says_whose_it_is(name: str) -> None:
    found = profile.load(name)
    assert found.name
    assert found.situations


def test_the_scripted_agent_has_every_situation() -> None:
    assert set(profile.load("scripted").situations) == set(profile.SITUATIONS)
