"""A client's responses to requests that it cannot serve."""

from typing import Any

from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client, brief
from acp_conformance.core.case import MUST, fail, not_applicable
from acp_conformance.core.schema import announced

_ACP = "ACP v1"


async def _refused_as_unknown(client: Client, method: str) -> None:
    await client.prompt()
    ask = await client.conversation.ask(method, {"a": 1})
    answer = await client.answer(ask)
    error = answer.get("error")
    if not isinstance(error, dict) or error.get("code") != -32601:
        fail(f"{method} was answered with {brief(answer)}")
    await client.alive()


@case("requests/unknown-method", level=MUST, source=_ACP, section="Extensibility, Custom Requests")
async def unknown_method(client: Client) -> None:
    """A request with an unknown method is answered with -32601, and the connection stays open."""
    await _refused_as_unknown(client, "_conformance/unknown")


@case("requests/dollar-method", level=MUST, source="JSON-RPC 2.0", section="Error object")
async def dollar_method(client: Client) -> None:
    """A request is answered even if its method begins with $/, unlike a notification."""
    await _refused_as_unknown(client, "$/conformance/unknown")


@case("requests/elicitation", level=MUST, source=_ACP, section="Elicitation, Responses")
async def elicitation(client: Client) -> None:
    """A form is accepted, declined or cancelled, and a form that is withdrawn is answered once."""
    await client.prompt()
    client.require("elicitation.form")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    ask = await client.ask("elicitation/create", {"mode": "form", "message": "Who?", "requestedSchema": schema})
    await client.alive()
    if not ask.answers:
        await client.conversation.notify("$/cancel_request", {"requestId": ask.id})
    answer = await client.answer(ask)
    result = answer.get("result")
    action = result.get("action") if isinstance(result, dict) else None
    if "error" not in answer and action not in ("accept", "decline", "cancel"):
        fail(f"the elicitation was answered with {brief(answer)}")
    await client.alive()
    if len(ask.answers) > 1:
        fail(f"the elicitation got {len(ask.answers)} answers")


@case("requests/not-announced", level=MUST, source=_ACP, section="Initialization, Capabilities")
async def not_announced(client: Client) -> None:
    """A request for a method that the client has not announced is answered with an error."""
    await client.prompt()
    tries: list[tuple[str, str, dict[str, Any]]] = [
        ("terminal", "terminal/create", {"command": "true"}),
        ("fs.writeTextFile", "fs/write_text_file", {"path": str(client.folder / "new.txt"), "content": ""}),
        ("fs.readTextFile", "fs/read_text_file", {"path": str(client.folder / "new.txt")}),
        (
            "elicitation.form",
            "elicitation/create",
            {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        ),
    ]
    for capability, method, params in tries:
        if announced(client.capabilities, capability):
            continue
        answer = await client.call(method, params)
        if "error" not in answer:
            fail(f"{method} was answered with {brief(answer)}, although {capability} is not announced")
        return
    not_applicable("the client announces everything")


@case("requests/invalid-params", level=MUST, source="JSON-RPC 2.0", section="Error object")
async def invalid_params(client: Client) -> None:
    """A permission request with wrong params is answered, but not with an option that was not offered."""
    await client.prompt()
    for params in ({"options": "all"}, {"toolCall": 7, "options": [{"name": 1}]}):
        answer = await client.call("session/request_permission", params)
        outcome = answer["result"].get("outcome") if isinstance(answer.get("result"), dict) else None
        if "error" not in answer and not (isinstance(outcome, dict) and outcome.get("outcome") == "cancelled"):
            fail(f"a permission request with params {params} was answered with {brief(answer)}")
    await client.alive()
