"""How a client prompts, and how it reacts to an error."""

from acp_conformance.client.conversation import Ended, Silent
from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client
from acp_conformance.core.case import MUST, SHOULD, fail

_ACP = "ACP v1"
_MOMENT = 1.0
"""Seconds in which a client that sends typed text at once has sent it. A slower one is not reported."""


@case("turns/session-id", level=MUST, source=_ACP, section="Prompt Turn, User Message")
async def session_id(client: Client) -> None:
    """A prompt has exactly the session id of the response to session/new."""
    request = await client.prompt()
    if request.param("sessionId") != client.session_id:
        fail(f"sessionId is {request.param('sessionId')!r}, the session is {client.session_id!r}")


@case("turns/after-the-session", level=MUST, source=_ACP, section="Prompt Turn")
async def after_the_session(client: Client) -> None:
    """A client prompts only in a session that exists."""
    conversation = client.conversation
    await client.initialize()
    request = await conversation.receive("session/new")
    client.begin_trial()
    # An error: a client that reads it has no session; a client that does not wait has prompted anyway.
    await conversation.refuse(request, -32603, "Internal error")
    await conversation.close_output()
    try:
        await conversation.receive("session/prompt")
    except (Ended, Silent):
        return
    fail("session/prompt was sent although session/new had not been answered, and then failed")


@case("turns/failed-prompt", level=SHOULD, source="JSON-RPC 2.0", section="Error object")
async def failed_prompt(client: Client) -> None:
    """After an error response to a prompt, a client still answers requests, or ends."""
    prompt = await client.prompt()
    await client.conversation.refuse(prompt, -32603, "Internal error")
    try:
        await client.alive()
    except Ended:
        pass


@case(
    "turns/prompt-after-a-failed-one",
    level=SHOULD,
    source=_ACP,
    section="Prompt Turn",
    needs="again",
    after="turns/failed-prompt",
)
async def prompt_after_a_failed_one(client: Client) -> None:
    """After a failed prompt, the client sends the user's next prompt in the same session, and accepts its response."""
    prompt = await client.prompt()
    client.conversation.hold("session/prompt")
    await client.conversation.refuse(prompt, -32603, "Internal error")
    await client.user("again")
    second = await client.prompted()
    if second.param("sessionId") != client.session_id:
        fail(f"the next prompt names {second.param('sessionId')!r}, the session is {client.session_id!r}")
    await client.say("answering")
    await client.end_turn()
    client.stage.spare()
    await client.user("leave")
    if not await client.stage.exited(3 * client.conversation.patience):
        fail("the second prompt was answered, and the client does not end")


@case("turns/one-at-a-time", level=SHOULD, source=_ACP, section="Prompt Turn, 6. Continue Conversation", needs="again")
async def one_at_a_time(client: Client) -> None:
    """A client sends text that the user types during a turn after the end of the turn."""
    await client.prompt()
    await client.say("working")
    await client.alive()
    await _typed_meanwhile(client, "the turn runs")
    await client.end_turn()


@case(
    "turns/one-at-a-time-at-cancel",
    level=SHOULD,
    source=_ACP,
    section="Prompt Turn, 6. Continue Conversation",
    needs=("again", "cancel"),
    after="turns/one-at-a-time",
)
async def one_at_a_time_at_cancel(client: Client) -> None:
    """A client sends text that the user types while a turn stops after the agent has confirmed the end of the turn."""
    await client.prompt()
    await client.say("working")
    await client.alive()
    await client.cancelled()
    await _typed_meanwhile(client, "the cancelled turn has not ended")
    await client.end_turn("cancelled")


async def _typed_meanwhile(client: Client, when: str) -> None:
    client.conversation.hold("session/prompt")
    await client.user("again")
    # The client has read the line by the time that it has answered twice, or it reads it only after the turn.
    for _ in range(2):
        await client.alive()
    try:
        message = await client.conversation.receive("session/prompt", _MOMENT)
    except Silent:
        return
    if message.param("sessionId") == client.session_id:
        fail(f"session/prompt is sent while {when}")
