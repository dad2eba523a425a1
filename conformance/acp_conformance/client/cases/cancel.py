"""How a client cancels a turn, and the messages that it still accepts afterwards."""

from acp_conformance.client.conversation import Ended
from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client
from acp_conformance.core.case import MUST, SHOULD, fail

_ACP = "ACP v1"
_CANCELLATION = "Prompt Turn, Cancellation"


@case("cancel/is-a-notification", level=MUST, source=_ACP, section=_CANCELLATION, needs="cancel")
async def is_a_notification(client: Client) -> None:
    """A turn is cancelled by the notification session/cancel, which names the session."""
    await client.prompt()
    await client.say("working")
    await client.alive()
    message = await client.cancelled()
    if message.is_request:
        fail(f"session/cancel has the id {message.value['id']!r}: it is a request")
    if message.param("sessionId") != client.session_id:
        fail(f"session/cancel names {message.param('sessionId')!r}, the session is {client.session_id!r}")


@case("cancel/accepts-updates", level=SHOULD, source=_ACP, section=_CANCELLATION, needs="cancel")
async def accepts_updates(client: Client) -> None:
    """A client accepts updates between session/cancel and the response to the prompt."""
    await client.prompt()
    await client.update({"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Run", "status": "in_progress"})
    await client.alive()
    await client.cancelled()
    await client.update({"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "failed"})
    await client.say("stopped")
    await client.nothing_answered("an update after session/cancel")


@case("cancel/confirmed", level=SHOULD, source=_ACP, section=_CANCELLATION, needs="cancel")
async def confirmed(client: Client) -> None:
    """After the agent has confirmed a cancel the client continues or ends; it does not hang."""
    await client.prompt()
    await client.alive()
    await client.cancelled()
    await client.end_turn("cancelled")
    try:
        await client.alive()
    except Ended:
        pass
