"""How a client answers an agent: requests for the user, unknown requests, arrays."""

from acp_conformance.client.cases import load
from acp_conformance.client.cases.permission import left_open
from acp_conformance.client.subject import PROBE, Client, brief
from acp_conformance.client.v2.registry import SOURCE, case, same_as
from acp_conformance.core.case import MUST, fail, not_applicable
from acp_conformance.core.schema import announced

_OLD = load()
_PERMISSION = "Permission requests"

same_as(_OLD["permission/offered-option"], "v2-requests/offered-option", _PERMISSION)
same_as(_OLD["permission/rejection-rejects"], "v2-requests/rejection-rejects", _PERMISSION)
same_as(_OLD["requests/unknown-method"], "v2-requests/unknown-method", "Extensibility")


@case("v2-requests/withdrawn", level=MUST, source=SOURCE, section=_PERMISSION, needs="approve")
async def withdrawn(client: Client) -> None:
    """A permission request that the agent withdraws is answered once, with the outcome cancelled or with -32800."""
    await client.prompt()
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    await client.update(client.dialect.call("call-1"))
    ask = await client.ask("session/request_permission", client.dialect.question("call-1", options))
    await left_open(client, ask)
    await client.conversation.notify("$/cancel_request", {"requestId": ask.id})
    answer = await client.answer(ask)
    result, error = answer.get("result"), answer.get("error")
    outcome = result.get("outcome") if isinstance(result, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    if code != -32800 and not (isinstance(outcome, dict) and outcome.get("outcome") == "cancelled"):
        fail(f"a question that was withdrawn was answered with {brief(answer)}")
    await client.alive()
    if len(ask.answers) > 1:
        fail(f"a question that was withdrawn got {len(ask.answers)} answers")


@case("v2-requests/gone", level=MUST, source=SOURCE, section="Methods")
async def gone(client: Client) -> None:
    """A request for files or terminals, which version 2 does not have, is refused with -32601."""
    await client.prompt()
    (client.folder / "here.txt").write_text("here\n")
    for method, params in (
        ("fs/read_text_file", {"path": str(client.folder / "here.txt")}),
        ("terminal/create", {"command": "true"}),
    ):
        answer = await client.call(method, params)
        error = answer.get("error")
        if not isinstance(error, dict) or error.get("code") != -32601:
            fail(f"{method} was answered with {brief(answer)}")


@case("v2-requests/batch", level=MUST, source=SOURCE, section="Transports")
async def batch(client: Client) -> None:
    """The members of an array are not served, and the client still answers."""
    await client.prompt()
    conversation = client.conversation
    ask = conversation.expect(PROBE)
    await conversation.send([{"jsonrpc": "2.0", "id": ask.id, "method": PROBE, "params": {}}])
    await client.alive()
    if ask.answers:
        fail(f"a request inside of an array was answered with {brief(ask.answers[0])}")


@case("v2-requests/elicitation", level=MUST, source=SOURCE, section="Elicitation")
async def elicitation(client: Client) -> None:
    """An elicitation of a kind that was not announced is refused, and a withdrawn elicitation of an announced kind is
    answered once."""
    await client.prompt()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    ask = await client.ask("elicitation/create", {"mode": "form", "message": "Who?", "requestedSchema": schema})
    if announced(client.capabilities, "elicitation.form"):
        await client.alive()
        if ask.answers:
            not_applicable("the client answers elicitations by itself")
        await client.conversation.notify("$/cancel_request", {"requestId": ask.id})
    answer = await client.answer(ask)
    result = answer.get("result")
    action = result.get("action") if isinstance(result, dict) else None
    if "error" not in answer and (action != "cancel" or not announced(client.capabilities, "elicitation.form")):
        fail(f"the elicitation was answered with {brief(answer)}")
    await client.alive()
    if len(ask.answers) > 1:
        fail(f"the elicitation got {len(ask.answers)} answers")
