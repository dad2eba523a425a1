"""Notifications that a client cannot use have no effect."""

from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client
from acp_conformance.core.case import MUST


@case("notifications/unknown", level=MUST, source="JSON-RPC 2.0", section="Notification")
async def unknown(client: Client) -> None:
    """An unknown notification is not answered, and the connection stays open."""
    await client.prompt()
    for method in ("_conformance/hello", "$/conformance", "conformance/hello"):
        await client.conversation.notify(method, {"a": 1})
    await client.nothing_answered("an unknown notification")


@case("notifications/invalid-params", level=MUST, source="JSON-RPC 2.0", section="Notification")
async def invalid_params(client: Client) -> None:
    """A notification with wrong params is not answered, and the connection stays open."""
    await client.prompt()
    for params in ([], {}, {"sessionId": client.session_id, "update": "no object"}, {"sessionId": 7, "update": {}}):
        await client.conversation.notify("session/update", params)
    await client.nothing_answered("a notification with wrong params")


@case("notifications/unknown-elicitation", level=MUST, source="ACP v1", section="Elicitation, URL completion")
async def unknown_elicitation(client: Client) -> None:
    """The completion of an unknown elicitation is ignored."""
    await client.prompt()
    await client.conversation.notify("elicitation/complete", {"elicitationId": "there is none"})
    await client.nothing_answered("the completion of an unknown elicitation")
    await client.end_turn()
