"""An agent that keeps its sessions in the file that it is given, so that they outlive it: it says what it was shown."""

import sys

from acp_server import Agent, SqliteStore, Turn

agent = Agent("keeper", version="1.0", store=SqliteStore(sys.argv[1]))


@agent.prompt
async def prompt(turn: Turn) -> None:
    await turn.say(" | ".join(message.text for message in turn.context() if message.role == "user"))


if __name__ == "__main__":
    agent.run()
