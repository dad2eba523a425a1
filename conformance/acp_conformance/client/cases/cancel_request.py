"""How a client reacts to $/cancel_request for requests of the agent. Support is optional, but a response is
required."""

from acp_conformance.client.conversation import Ask, Silent
from acp_conformance.client.registry import case
from acp_conformance.client.subject import PROBE, Client, brief
from acp_conformance.core.case import MUST, choice, fail, not_applicable

from .terminals import start

_SOURCE = "ACP v1"
_SECTION = "Cancellation, $/cancel_request Notification"


async def _cancel(client: Client, id: object) -> None:
    await client.conversation.notify("$/cancel_request", {"requestId": id})


def _allowed(ask: Ask) -> None:
    """A response to a cancelled request is a result, or -32800."""
    answer = ask.answers[0]
    error = answer.get("error")
    if error is not None and (not isinstance(error, dict) or error.get("code") != -32800):
        fail(f"a cancelled {ask.method} was answered with {brief(answer)}")


def _once(ask: Ask) -> None:
    if len(ask.answers) != 1:
        fail(f"a cancelled {ask.method} got {len(ask.answers)} answers: {brief(ask.answers)}")


async def _pending_wait(client: Client, **id: object) -> tuple[Ask, str]:
    """Send a request that stays open, because it waits for a command that does not end by itself."""
    await client.prompt()
    client.require("terminal")
    terminal = await start(client, "import time\ntime.sleep(60)")
    ask = await client.ask("terminal/wait_for_exit", {"terminalId": terminal}, **id)
    await client.alive()
    return ask, terminal


@case("cancel-request/allowed-answer", level=MUST, source=_SOURCE, section=_SECTION)
async def allowed_answer(client: Client) -> None:
    """A request that the agent withdraws is answered with -32800 or with a result."""
    ask, _ = await _pending_wait(client)
    await _cancel(client, ask.id)
    try:
        await client.answer(ask)
    except Silent:
        await client.alive()
        choice("does not support it: the request goes on")
    _allowed(ask)


@case("cancel-request/answers-once", level=MUST, source=_SOURCE, section=_SECTION)
async def answers_once(client: Client) -> None:
    """A request that the agent withdraws, even twice, is answered exactly once."""
    ask, terminal = await _pending_wait(client)
    await _cancel(client, ask.id)
    await _cancel(client, ask.id)
    await client.result("terminal/release", {"terminalId": terminal})
    await client.answer(ask)
    await client.alive()
    _once(ask)


@case("cancel-request/permission", level=MUST, source=_SOURCE, section=_SECTION)
async def permission(client: Client) -> None:
    """A permission request that the agent withdraws is answered at most once, with -32800 or with an outcome."""
    await client.prompt()
    options = [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}]
    params = {"toolCall": {"toolCallId": "call-1", "title": "Run"}, "options": options}
    ask = await client.ask("session/request_permission", params)
    await client.alive()
    if ask.answers:
        not_applicable("the client answers permission requests by itself, before they can be withdrawn")
    await _cancel(client, ask.id)
    try:
        await client.answer(ask)
    except Silent:
        await client.alive()
        choice("does not support it: the question is still open")
    _allowed(ask)
    await client.alive()
    _once(ask)


@case("cancel-request/unknown-id", level=MUST, source="RFD request-cancellation", section="FAQ")
async def unknown_id(client: Client) -> None:
    """The withdrawal of a request that was never made is not answered, and the connection stays open."""
    await client.prompt()
    for id in (123_456, "never"):
        await _cancel(client, id)
    await client.nothing_answered("the withdrawal of an unknown request")


@case("cancel-request/already-answered", level=MUST, source="RFD request-cancellation", section="FAQ")
async def already_answered(client: Client) -> None:
    """The withdrawal of an answered request causes no second response."""
    await client.prompt()
    ask = await client.conversation.ask(PROBE, {})
    await client.answer(ask)
    await _cancel(client, ask.id)
    await client.alive()
    _once(ask)


@case("cancel-request/malformed", level=MUST, source="JSON-RPC 2.0", section="Notification")
async def malformed(client: Client) -> None:
    """A malformed withdrawal is not answered, and the connection stays open."""
    await client.prompt()
    for params in ({}, [7], {"requestId": True}, {"requestId": {"a": 1}}, {"id": 1}):
        await client.conversation.notify("$/cancel_request", params)
    await client.nothing_answered("a malformed withdrawal")


@case("cancel-request/same-type", level=MUST, source=_SOURCE, section="Schema, RequestId")
async def same_type(client: Client) -> None:
    """The withdrawal of "70007" does not affect the request 70007, and the withdrawal of 70008 does not affect the
    request "70008"."""
    first, terminal = await _pending_wait(client, id=70_007)
    second = await client.ask("terminal/wait_for_exit", {"terminalId": terminal}, id="70008")
    for ask, other in ((first, "70007"), (second, 70_008)):
        await _cancel(client, other)
        await client.alive()
        if ask.answers:
            fail(f"request {ask.id!r} was answered with {brief(ask.answers[0])} when {other!r} was withdrawn")
