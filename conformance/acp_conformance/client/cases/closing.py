"""The end of a conversation: an agent that dies, a user who leaves, an agent that does not end."""

import anyio

from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client
from acp_conformance.core.case import CHOICE, SHOULD, choice, fail

_ACP = "ACP v1"
_STDIO = "Transports, stdio"


def _leaving(client: Client) -> float:
    """Return the seconds that a client may take to end. It may wait for its agent before it kills the agent."""
    return 3 * client.conversation.patience


async def _leaves(client: Client, what: str) -> None:
    """Check that the client ends by itself, or when its user leaves."""
    client.stage.spare()
    await client.user("leave")
    if not await client.stage.exited(_leaving(client)):
        fail(f"{what}, and the client was still running {_leaving(client):g} s later")


@case("closing/agent-dies-in-a-turn", level=SHOULD, source=_ACP, section=_STDIO)
async def agent_dies_in_a_turn(client: Client) -> None:
    """A client whose agent dies in the middle of a turn ends, or lets its user leave; it does not hang."""
    await client.prompt()
    await client.say("working")
    await client.conversation.exit(1)
    await _leaves(client, "the agent died in a turn")


@case("closing/agent-dies-at-the-start", level=SHOULD, source=_ACP, section=_STDIO)
async def agent_dies_at_the_start(client: Client) -> None:
    """A client whose agent dies instead of answering initialize ends, or lets its user leave; it does not hang."""
    await client.greeting()
    client.begin_trial()
    await client.conversation.exit(1)
    await _leaves(client, "the agent died at the start")


@case("closing/agent-closes-its-output", level=SHOULD, source=_ACP, section=_STDIO)
async def agent_closes_its_output(client: Client) -> None:
    """A client whose agent closes its output in a turn ends, or lets its user leave; it does not hang."""
    await client.prompt()
    await client.conversation.close_output()
    await _leaves(client, "the agent closed its output")


@case("closing/status-after-a-death", level=CHOICE, source=_ACP, section=_STDIO)
async def status_after_a_death(client: Client) -> None:
    """The specification leaves open the exit status of a client whose agent died in a turn."""
    await client.prompt()
    await client.conversation.exit(1)
    client.stage.spare()
    await client.user("leave")
    if await client.stage.exited():
        choice(f"ends with status {client.stage.program.status}")
    choice("does not end")


@case("closing/lets-the-agent-go", level=SHOULD, source=_ACP, section=_STDIO)
async def lets_the_agent_go(client: Client) -> None:
    """A client whose user leaves closes its agent's input or ends the agent, and then ends."""
    await client.prompt()
    conversation = client.conversation
    await client.end_turn()
    await client.user("leave")
    with anyio.move_on_after(_leaving(client)):
        await conversation.closed.wait()
    if not conversation.closed.is_set():
        fail("the agent's input was not closed")
    await conversation.exit(0)
    if not await client.stage.exited(_leaving(client)):
        fail("the agent is gone, and the client does not end")


@case("closing/ends-an-agent-that-stays", level=SHOULD, source=_ACP, section=_STDIO)
async def ends_an_agent_that_stays(client: Client) -> None:
    """A client ends an agent that continues to run although its input was closed."""
    await client.prompt()
    conversation = client.conversation
    await client.end_turn()
    await client.user("leave")
    program = client.stage.program
    if not await client.stage.exited(2 * _leaving(client)):
        fail("the agent does not go by itself, and neither does the client")
    # A signal that was sent at the last moment may still be on its way.
    with anyio.move_on_after(1.0):
        await conversation.over.wait()
    if not conversation.over.is_set():
        fail(f"the client ended with status {program.status} and left its agent running")
