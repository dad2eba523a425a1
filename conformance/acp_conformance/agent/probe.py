"""Finds facts before the first case: whether the agent starts and answers, its name, and its speed.

Every time-out of the run is derived from the measured times, so that a slow agent does not count as silent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from acp_conformance.core.case import Outcome
from acp_conformance.core.result import Subject, clean

from .exchange import Ended, NoAnswer, code_of
from .subject import FENCE, VERSION, Agent
from .v2 import steps as v2


@dataclass(frozen=True, slots=True)
class Probe:
    """The facts about the agent of a run."""

    subject: Subject | None = None
    fence_method: str = FENCE
    cannot_run: str = ""
    """Why no case can be run."""
    deaf: str = ""
    """Why only the case about the response to `initialize` is worth running."""
    stderr: str = ""
    start: float = 0.0
    """Seconds from its start to its first response."""
    latency: float = 0.0
    """Seconds of the slowest response after that."""


async def probe(agent: Agent, *, short: float) -> Probe:
    """Find the facts that every case needs. `short`: the time-out for optional responses, in seconds."""
    began = time.monotonic()
    try:
        pending = await agent.ask_initialize()
        answer = await pending.answer()
    except Ended as ended:
        if not agent.received and not agent.unfinished:
            return Probe(cannot_run=f"it wrote no message: {agent.ended or ended.reason}")
        return Probe(deaf=f"initialize is not answered: {agent.ended}")
    except NoAnswer as missing:
        return Probe(deaf=f"initialize is not answered: {missing.reason}")
    start = time.monotonic() - began
    try:
        result = await v2.agree(agent) if code_of(answer) == v2.UNSUPPORTED else answer.get("result")
    except Outcome:
        result = None
    found = Probe(_subject(result), start=start)
    agent.initialized = result if isinstance(result, dict) else {}
    began = time.monotonic()
    try:
        await (await agent.request(FENCE, {})).answer(within=short)
    except Outcome:
        found = replace(found, fence_method="session/new")
    latency = time.monotonic() - began if found.fence_method == FENCE else 0.0
    for step in (_session, _turn) if agent.version == VERSION else (_turn_of_version_2,):
        began = time.monotonic()
        try:
            await step(agent)
        except Outcome:
            break
        latency = max(latency, time.monotonic() - began)
    return replace(found, latency=latency)


async def _session(agent: Agent) -> None:
    await agent.log_in()
    await agent.session()


async def _turn(agent: Agent) -> None:
    prompt = await agent.prompt(await agent.session(), "quick")
    await prompt.result()


async def _turn_of_version_2(agent: Agent) -> None:
    await v2.run(agent, await v2.session_of(agent), "quick")


def _subject(result: object) -> Subject | None:
    if not isinstance(result, dict):
        return None
    version = result.get("protocolVersion")
    info = result.get("agentInfo" if version == VERSION else "info")
    name, own_version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)
    return {
        "name": clean(name) if isinstance(name, str) else None,
        "version": clean(own_version) if isinstance(own_version, str) else None,
        "protocolVersion": version if isinstance(version, int) and not isinstance(version, bool) else None,
    }
