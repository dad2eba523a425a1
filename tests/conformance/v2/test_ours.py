"""Our own agents keep every rule of version 2, on both backends; agents of version 1 are not accused by its cases."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.agent.v2 import cases
from acp_conformance.core.result import Verdict
from acp_conformance.report.words import subject_of
from acp_server.apps import coder
from tests.conformance.in_memory import from_file, starting
from tests.conformance.v2 import lines
from tests.conformance.v2.clean import Clean
from tests.conformance.v2.connection import INFO, Refusal
from tests.conformance.v2.test_faults import PROFILE

FILES = {
    "scripted": Path(__file__).parents[1] / "scripted.py",
    "workspace": Path(coder.__file__),
}
KEPT = {Verdict.PASS, Verdict.CHOICE, Verdict.NOT_APPLICABLE}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", FILES)
def test_our_agents_keep_every_rule_of_version_2(name: str, backend: str) -> None:
    judged = AgentRun([name], profile.load(name), timeout=40.0, start=starting(from_file(FILES[name])))
    run = anyio.run(judged.run, list(cases.load()), backend=backend)
    missing = set(profile.SITUATIONS) - set(profile.load(name).situations)
    wrong = {
        case.id: case.reason
        for case in run.cases
        if case.verdict not in KEPT
        and not (case.verdict is Verdict.SKIP and missing & set(cases.load()[case.id].needs))
    }
    assert wrong == {}


def test_both_versions_are_judged_in_one_run() -> None:
    chosen = [*agent_cases.load().matching(["schema", "initialize"]), *cases.load().matching(["v2-prompts", "v2-auth"])]
    start = starting(from_file(FILES["scripted"]))
    judged = AgentRun(["scripted"], profile.load("scripted"), timeout=40.0, jobs=16, start=start)
    run = anyio.run(judged.run, chosen)
    assert {case.id: case.reason for case in run.cases if case.verdict not in KEPT} == {}
    assert run.protocols == [1, 2]


class OnlyVersion2(Clean):
    """It refuses clients that ask for version 1."""

    def initialize(self, params: Any) -> Any:
        if params.get("protocolVersion") == 1:
            raise Refusal(-32022, {"requested": 1, "supported": [2]})
        return super().initialize(params)


def test_an_agent_that_speaks_version_2_alone_is_judged() -> None:
    judged = AgentRun(["two"], PROFILE, timeout=20.0, start=lines.starting(OnlyVersion2))
    run = anyio.run(judged.run, cases.load().matching(["v2-negotiation", "v2-cancel"]))
    assert {case.id: case.reason for case in run.cases if case.verdict is not Verdict.PASS} == {}
    assert subject_of(run) == "clean 1 (protocol 2)"


class OnlyVersion1(Clean):
    """It answers 1 to everything, takes requests at once, and finds no method of a session."""

    def early(self, id: Any, method: str) -> None:
        self.request(id, method, {})

    def initialize(self, params: Any) -> Any:
        self.version = 1
        return {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {}}


def test_an_agent_of_version_1_is_not_accused() -> None:
    judged = AgentRun(["one"], PROFILE, timeout=20.0, start=lines.starting(OnlyVersion1))
    run = anyio.run(judged.run, list(cases.load()))
    assert {case.verdict for case in run.cases} <= {Verdict.UNREACHED, Verdict.PASS}
    # Of what it answers it is known that it is no higher version.
    assert [case.id for case in run.cases if case.verdict is Verdict.PASS] == ["v2-negotiation/no-higher"]
