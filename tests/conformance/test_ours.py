"""Our own agents keep every rule of the suite that applies to them, on both backends, with nothing tolerated.

The scripted agent announces everything and has every situation, so that no rule is left out for want of something to
try it on; the workspace agent is what users get.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.core import tables
from acp_conformance.core.result import Run, Verdict
from acp_conformance.report.terminal import Terminal
from acp_server.apps import coder
from tests.conformance.in_memory import NOT_IN_MEMORY, from_file, starting
from tests.prefork import RUNTIME, Prefork, prefork

HERE = Path(__file__).parent
SERVE = str(Path(sys.executable).with_name("acp-server"))
COMMANDS = {"scripted": [SERVE, "serve", str(HERE / "scripted.py")], "workspace": [SERVE, "serve", "--store", "memory"]}
FILES = {"scripted": HERE / "scripted.py", "workspace": Path(coder.__file__)}
BACKENDS = ["asyncio", "trio"]
PATIENCE = 40.0
# Cases that are tried beside each other. In most of them the suite waits for what must not come.
AT_ONCE = 16

KEPT = {Verdict.PASS, Verdict.CHOICE, Verdict.NOT_APPLICABLE}

WITHOUT_MCP = {
    *("sessions/starts-mcp-server", "sessions/mcp-server-as-told"),
    *("sessions/starts-each-mcp-server", "sessions/close-ends-mcp-server"),
}
"""It connects to MCP servers where the extra `mcp` is installed, which these tests do without."""


def in_memory(name: str, backend: str) -> Run:
    """All cases but those that are about the process. `make conformance` runs them all on processes."""
    cases = [case for case in agent_cases.load() if case not in agent_cases.load().matching(NOT_IN_MEMORY)]
    judged = AgentRun(
        [name], profile.load(name), timeout=PATIENCE, jobs=AT_ONCE, start=starting(from_file(FILES[name]))
    )
    return anyio.run(judged.run, cases, backend=backend)


def show(judged: Run) -> str:
    """What pytest prints of a run that is not as it should be."""
    Terminal(sys.stdout).end(judged)
    return "see the summary"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_scripted_agent_keeps_every_rule_and_none_is_skipped(backend: str) -> None:
    judged = in_memory("scripted", backend)
    assert {case.id for case in judged.cases if case.verdict not in KEPT} == set(), show(judged)
    # It announces everything, so that these alone, for agents that do not announce something, can be about it.
    assert {case.id for case in judged.cases if case.verdict is Verdict.NOT_APPLICABLE} == {
        *(f"gating/no-{what}" for what in ("load", "resume", "list", "close", "delete", "logout")),
        # An id of that length is refused, and its tool shows no terminal.
        *("envelope/long-answer", "terminals/shown-by-tools"),
        # A page of it holds more sessions than the suite makes, and its second prompt does not wait.
        *("sessions/pages-list-each-once", "sessions/pages-keep-the-filter", "session-cancel/queued-prompt"),
    }, show(judged)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_workspace_agent_keeps_every_rule_that_it_can_be_tried_on(backend: str) -> None:
    judged = in_memory("workspace", backend)
    missing = set(profile.SITUATIONS) - set(profile.load("workspace").situations)
    for case in judged.cases:
        if case.verdict is Verdict.SKIP:
            assert case.reason.startswith("the profile has no situation")
            assert missing & set(agent_cases.load()[case.id].needs), show(judged)
        elif case.id not in WITHOUT_MCP:
            assert case.verdict in KEPT, show(judged)


@pytest.fixture(scope="module")
def processes() -> Iterator[Prefork]:
    """Starts our agents as processes."""
    with prefork(*RUNTIME, "acp_server.apps.cli.commands", "acp_server.apps.coder") as started:
        yield started


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_our_agents_end_as_processes_should(name: str, backend: str, processes: Prefork) -> None:
    command = [*COMMANDS[name], "--backend", backend]
    judged = AgentRun(command, profile.load(name), timeout=PATIENCE, jobs=AT_ONCE, start=processes.start)
    run = anyio.run(judged.run, agent_cases.load().matching(NOT_IN_MEMORY))
    assert {case.id for case in run.cases if case.verdict not in KEPT} == set(), show(run)


@pytest.mark.parametrize("name", tables.names(profile.INCLUDED))
def test_every_profile_that_comes_with_the_suite_is_well_formed_and_says_whose_it_is(name: str) -> None:
    found = profile.load(name)
    assert found.name
    assert found.situations


def test_the_scripted_agent_has_every_situation() -> None:
    assert set(profile.load("scripted").situations) == set(profile.SITUATIONS)
