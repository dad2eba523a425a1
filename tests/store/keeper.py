"""An agent for the tests of what is kept: it says what it was told before, and hangs if told so."""

from collections.abc import AsyncIterator

import anyio

from acp_server import Agent, Turn

agent = Agent("keeper")


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    if turn.text == "before":
        yield ", ".join(message.text for message in turn.context() if message.role == "user")
        return
    yield f"re: {turn.text}"
    if turn.text == "hang":
        await anyio.sleep_forever()
