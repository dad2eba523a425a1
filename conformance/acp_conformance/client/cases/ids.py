"""The responses to the agent's requests have the same ids."""

from collections.abc import Iterable

from acp_conformance.client.conversation import Ended, Silent
from acp_conformance.client.registry import case
from acp_conformance.client.subject import PROBE, Client
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail

_JSON_RPC = "JSON-RPC 2.0"


async def _echoed(client: Client, ids: Iterable[int | str]) -> None:
    conversation = client.conversation
    await client.prompt()
    for id in ids:
        ask = await conversation.ask(PROBE, {}, id=id)
        await conversation.until(
            lambda ask=ask: ask.answers or conversation.strays or None, f"an answer to the request with the id {id!r}"
        )
        if not ask.answers:
            fail(f"the request with the id {id!r} was answered with the id {conversation.strays[0].get('id')!r}")


@case("ids/integers", level=MUST, source=_JSON_RPC, section="Response object")
async def integers(client: Client) -> None:
    """The response to a request with an integer id has the same integer."""
    await _echoed(client, [0, 70_007, -1, 2**31, 2**53 - 1])


@case("ids/strings", level=MUST, source=_JSON_RPC, section="Response object")
async def strings(client: Client) -> None:
    """The response to a request with a string id has the same string, even if it looks like a number."""
    await _echoed(client, ["70007", "", "6f1c0e0e-9d0c-4f2b-8a51-1d1a3c3c5b52", 'ünï "\\\n\u2028 🙂'])


@case("ids/int64", level=SHOULD, source="ACP v1", section="Schema, RequestId")
async def int64(client: Client) -> None:
    """Integer ids that a double cannot represent are returned exactly."""
    await _echoed(client, [2**53 + 1, 2**63 - 1, -(2**63)])


@case("ids/null", level=CHOICE, source=_JSON_RPC, section="Request object")
async def null(client: Client) -> None:
    """The specification leaves open how a client reacts to a request with the id null, which is allowed but
    discouraged."""
    await client.prompt()
    ask = await client.conversation.ask(PROBE, {}, id=None)
    try:
        await client.answer(ask)
    except Ended:
        choice("ends")
    except Silent:
        await client.alive()
        choice("does not answer it")
    choice("answers it")
