"""How a client stops a turn, or a prompt that is not in the conversation yet."""

from acp_conformance.client.cases import load
from acp_conformance.client.conversation import Ended
from acp_conformance.client.subject import Client, brief
from acp_conformance.client.v2.registry import SOURCE, case, same_as
from acp_conformance.core.case import MUST, fail

_SECTION = "Cancellation"
_OLD = load()

same_as(_OLD["cancel/is-a-notification"], "v2-cancel/is-a-notification", _SECTION)
same_as(_OLD["cancel/confirmed"], "v2-cancel/confirmed", _SECTION)
same_as(_OLD["permission/cancelled"], "v2-cancel/permission", _SECTION)


@case("v2-cancel/before-the-answer", level=MUST, source=SOURCE, section=_SECTION, needs="cancel")
async def before_the_answer(client: Client) -> None:
    """A client stops a prompt without a response by session/cancel, or withdraws it by $/cancel_request."""
    await client.initialize()
    await client.session()
    prompt = await client.arrived()
    await client.user("cancel")
    message = await client.conversation.any_of("session/cancel", "$/cancel_request")
    if message.is_request:
        fail(f"{message.method} has the id {message.value['id']!r}: it is a request")
    name, wanted = "sessionId", client.session_id
    if message.method == "$/cancel_request":
        name, wanted = "requestId", prompt.value.get("id")
    if message.param(name) != wanted:
        fail(f"{message.method} names {brief(message.param(name))} instead of {wanted!r}")
    await client.conversation.refuse(prompt, -32800, "Request cancelled")
    try:
        await client.alive()
    except Ended:
        pass
