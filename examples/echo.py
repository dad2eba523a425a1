"""An agent in twelve lines: it repeats the prompt, word by word, until the user stops it."""

import anyio

from acp_server import Agent, Turn

agent = Agent("echo", version="1.0")


@agent.prompt
async def echo(turn: Turn):
    for word in turn.text.split():
        yield word + " "
        await anyio.sleep(0.1)


if __name__ == "__main__":
    agent.run()
