"""Agreeing on version 2, and what a connection of it refuses."""

from __future__ import annotations

from conformance.agent.exchange import code_of
from conformance.agent.subject import Agent
from conformance.agent.v2.registry import SOURCE, case
from conformance.agent.v2.steps import agree
from conformance.core.case import MUST, fail

INVALID_REQUEST = -32600


@case("v2-negotiation/answers", level=MUST, source=SOURCE, section="Initialization")
async def answers(agent: Agent) -> None:
    """An agent that speaks version 2 answers 2 to a client that asks for 2."""
    await agree(agent)


@case("v2-negotiation/says-who", level=MUST, source=SOURCE, section="Initialization")
async def says_who(agent: Agent) -> None:
    """The answer to initialize has the name and the version of the agent."""
    info = (await agree(agent)).get("info")
    if not (isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)):
        fail(f"info is {info!r}"[:200])


@case("v2-negotiation/batches", level=MUST, source=SOURCE, section="Transports")
async def batches(agent: Agent) -> None:
    """An array of messages is answered by one -32600 with the id null."""
    await agree(agent)
    since = len(agent.received)
    await agent.raw(b"[]\n")
    answer = await agent.null_answer(since=since)
    if answer is None or code_of(answer) != INVALID_REQUEST:
        fail(f"the answer is {answer!r}"[:200])
