"""Our own agent, judged over a line, is what it is on standard input and output; `acp-server connect` stands for it.

The cases that share one process are tried here. All of them:

    acp-server serve tests/conformance/scripted.py --listen 127.0.0.1:8080
    acp-conformance agent --profile scripted -- acp-server connect http://127.0.0.1:8080/acp
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.core.result import Verdict

from .test_ours import AT_ONCE, HERE, KEPT, SERVE, show

DIFFERS = {"schema/custom-members"}
"""By the draft, the answer to `session/load` names its session over HTTP."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the scripted agent is."""
    command = [SERVE, "serve", str(HERE / "scripted.py"), "--listen", "127.0.0.1:0", "--log-level", "ERROR"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    assert process.stderr is not None
    with process.stderr:
        found = re.match(r"Listening on http(://.*)", process.stderr.readline())
        assert found is not None
        yield found[1]
        process.terminate()
        process.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_the_agent_keeps_every_rule_over_a_line(scheme: str, address: str) -> None:
    cases = [case for case in agent_cases.load() if case.quick]
    command = [str(Path(SERVE)), "connect", scheme + address]
    run = AgentRun(command, profile.load("scripted"), jobs=AT_ONCE, quick=True)
    judged = anyio.run(run.run, cases)
    differs = DIFFERS if scheme == "http" else set[str]()
    assert {case.id for case in judged.cases if case.verdict not in KEPT} == differs, show(judged)
    assert sum(case.verdict is Verdict.PASS for case in judged.cases) > 150
