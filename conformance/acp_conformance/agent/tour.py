"""Holds one conversation that uses all known features of the agent, so that the background check sees every kind of
message."""

from __future__ import annotations

from acp_conformance.core.case import Outcome

from .exchange import Ended
from .subject import Agent


async def tour(agent: Agent) -> None:
    """Use every known feature of the agent. A fault only ends a part of the conversation, because nothing is judged
    here."""
    for situation in agent.profile.situations or ("",):
        # Requests that one situation leaves unanswered are answered in the next.
        agent.let_go()
        try:
            session = await agent.session()
            if not situation:
                continue
            prompt = await agent.prompt(session, situation)
            if situation in ("hang", "stubborn", "nested"):
                await agent.said_something(prompt) if situation != "nested" else await agent.next_request()
                await agent.cancel(session)
            await prompt.answer()
        except Ended:
            return
        except Outcome:
            continue
    if agent.can("sessionCapabilities.list"):
        try:
            await (await agent.request("session/list", {})).answer()
        except Outcome:
            pass
    try:
        await agent.settle()  # its last messages count too
    except Outcome:
        return
