"""What the conformance suite says of an agent of an adapter, whose model does what it is asked for."""

import sys
from typing import Any

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.profile import Profile, Situation
from acp_conformance.agent.run import AgentRun
from acp_conformance.core.result import Verdict
from acp_conformance.report.terminal import Terminal
from tests.conformance.in_memory import NOT_IN_MEMORY, starting
from tests.integrations import contract
from tests.integrations.model_server import HANG, ModelServer, Refusal, model_server, tool_call

PATIENCE = 40.0

SAYS: dict[str, list[Any] | Refusal] = {
    "quick": ["Hello."],
    "stream": ["One, ", "two, ", "three."],
    "hang": ["Well", HANG],
    "tool": [tool_call("look", {"word": "a"})],
    "permission": [tool_call("touch", {"word": "a"})],
    "fails": Refusal(400, {"message": "no"}),
}
"""By the last that is said to the model. What tools have found ends the turn."""

KEPT = {Verdict.PASS, Verdict.CHOICE, Verdict.NOT_APPLICABLE}

WITHOUT_MCP = {"sessions/starts-mcp-server", "sessions/mcp-server-as-told"}
"""An adapter connects to MCP servers where its author says `mcp=True`, which is tried in `tests/mcp`."""


class Script(list[Any]):
    """The replies of a model that goes by what is said to it."""

    def __init__(self, server: ModelServer) -> None:
        super().__init__()
        self._server = server

    def pop(self, _index: Any = 0) -> Any:
        last = self._server.requests[-1]["messages"][-1]
        if last["role"] == "tool":
            return ["Done."]
        said = str(last["content"])
        return next((reply for word, reply in SAYS.items() if word in said), ["Hello."])


async def conforms(make: contract.Make) -> None:
    """It keeps every rule that it can be tried on."""
    async with model_server() as server:
        server.replies = Script(server)
        stream = Situation("stream", says="One, two, three.")
        known = Profile("adapter", situations={name: Situation(name) for name in SAYS} | {"stream": stream})
        loaded = agent_cases.load()
        cases = [case for case in loaded if case not in loaded.matching(NOT_IN_MEMORY)]
        judged = AgentRun(["adapter"], known, timeout=PATIENCE, start=starting(lambda: make(server, contract.Tools())))
        run = await judged.run(cases)
    missing = set(profile.SITUATIONS) - set(SAYS)
    failed = {
        case.id
        for case in run.cases
        if case.verdict not in KEPT
        and case.id not in WITHOUT_MCP
        and not (case.verdict is Verdict.SKIP and missing & set(loaded[case.id].needs))
    }
    if failed:
        Terminal(sys.stdout).end(run)
    assert failed == set()
    tried = {need for case in run.cases if case.verdict is Verdict.PASS for need in loaded[case.id].needs}
    assert tried >= set(SAYS)
