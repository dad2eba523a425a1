"""Judging version 2: our agents keep its rules, planted faults are found, agents of version 1 are not accused."""

from pathlib import Path

import anyio
import pytest

from acp_server import workspace
from conformance.agent import profile
from conformance.agent.run import AgentRun
from conformance.agent.v2 import cases
from conformance.core.result import Verdict
from tests.conformance.in_memory import from_file, starting
from tests.conformance.subjects import command

FILES = {
    "scripted": Path(__file__).parent / "scripted.py",
    "workspace": Path(workspace.__file__),
}
PROFILE = profile.Profile(situations={name: profile.Situation(name) for name in ("quick", "hang")})

AGENT = """
import json, sys
FAULT = sys.argv[1]
open_prompt = []

def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def state(name, **members):
    update = {"sessionUpdate": "state_update", "state": name, **members}
    write(method="session/update", params={"sessionId": "s", "update": update})

def serve(message):
    if isinstance(message, list):
        if FAULT != "v2-negotiation/batches":
            write(id=None, error={"code": -32600, "message": "no batches"})
        return
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "x"} if FAULT == "v2-negotiation/says-who" else {"name": "x", "version": "1"}
        version = {"v2-negotiation/answers": 3, "version 1": 1}.get(FAULT, 2)
        write(id=id, result={"protocolVersion": version, "info": info, "capabilities": {"session": {}}})
    elif method == "session/new":
        write(id=id, result={"sessionId": "s"})
    elif method == "session/prompt":
        hangs = message["params"]["prompt"][0]["text"] == "hang"
        if FAULT == "v2-prompts/answered-at-insertion" and hangs:
            return
        write(id=id, result={} if FAULT == "v2-prompts/message-id" else {"messageId": "m"})
        state("running")
        if not hangs:
            reason = {} if FAULT == "v2-prompts/stop-reason" else {"stopReason": "end_turn"}
            for _ in range(2 if FAULT == "v2-prompts/one-idle" else 1):
                state("idle", **reason)
    elif method == "session/cancel":
        state("idle", stopReason="error" if FAULT == "v2-cancel/idle-cancelled" else "cancelled")
    elif method == "$/cancel_request" and FAULT == "v2-cancel/inserted-stays":
        write(id=message["params"]["requestId"], error={"code": -32800, "message": "cancelled"})
    elif method == "session/close":
        state("idle", stopReason="cancelled")
        write(id=id, result={})
        if FAULT == "v2-cancel/close":
            state("idle")
    elif id is not None:
        write(id=id, error={"code": -32601, "message": "Method not found"})

for line in sys.stdin:
    serve(json.loads(line))
"""

pytestmark = pytest.mark.timeout(200)


def verdicts(fault: str, pattern: str = "*") -> dict[str, Verdict]:
    judged = AgentRun([*command("")[:2], "-c", AGENT, fault], PROFILE, timeout=4.0)
    run = anyio.run(judged.run, cases.load().matching([pattern]))
    return {case.id: case.verdict for case in run.cases}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", FILES)
def test_our_agents_keep_every_rule_of_version_2(name: str, backend: str) -> None:
    judged = AgentRun([name], profile.load(name), timeout=40.0, start=starting(from_file(FILES[name])))
    run = anyio.run(judged.run, list(cases.load()), backend=backend)
    # The workspace agent has no situation of its own that hangs.
    kept = {Verdict.PASS} if name == "scripted" else {Verdict.PASS, Verdict.SKIP}
    assert {case.id: case.reason for case in run.cases if case.verdict not in kept} == {}


def test_an_agent_without_a_fault_keeps_them() -> None:
    assert set(verdicts("").values()) == {Verdict.PASS}


@pytest.mark.parametrize("id", [case.id for case in cases.load()])
def test_each_planted_fault_is_found_by_its_case(id: str) -> None:
    assert verdicts(id, id) == {id: cases.load()[id].broken()}


def test_an_agent_of_version_1_is_not_accused() -> None:
    assert set(verdicts("version 1").values()) == {Verdict.UNREACHED}
