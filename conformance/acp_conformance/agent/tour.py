"""One conversation that goes through all that the agent is known to do, so that every message is seen once."""

from __future__ import annotations

from acp_conformance.core.case import Outcome

from .exchange import Ended
from .subject import Agent


async def tour(agent: Agent) -> None:
    """Go through everything the agent is known to do. Nothing is judged here, so what goes wrong only ends a part."""
    for situation in agent.profile.situations or ("",):
        # What one situation leaves unanswered is answered in the next.
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
        await agent.settle()  # what it says last is heard too
    except Outcome:
        return
