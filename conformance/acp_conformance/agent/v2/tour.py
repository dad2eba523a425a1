"""Holds one conversation of version 2 that uses all known features of the agent."""

from __future__ import annotations

from acp_conformance.agent.exchange import Ended
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import Outcome

from .steps import reached, session_of, work

_LASTING = ("hang", "stubborn", "nested", "cancellable", "shell")
"""The situations that last until they are cancelled."""


async def tour(agent: Agent) -> None:
    """Use every known feature of the agent. A fault only ends a part of the conversation, because nothing is judged
    here."""
    try:
        for situation in agent.profile.situations:
            await _work(agent, situation)
        session = await session_of(agent)
        await (await agent.request("session/list", {})).answer()
        await (await agent.request("session/close", {"sessionId": session})).answer()
    except Outcome:
        pass
    try:
        await agent.settle()  # its last messages count too
    except Outcome:
        return


async def _work(agent: Agent, situation: str) -> None:
    try:
        session = await session_of(agent)
        since = len(agent.received)
        await work(agent, session, situation)
        if situation in _LASTING:
            await agent.fence()  # its earlier messages count
            await agent.notify("session/cancel", {"sessionId": session})
        await reached(agent, session, "idle", since=since)
    except Ended:
        raise
    except Outcome:
        return
