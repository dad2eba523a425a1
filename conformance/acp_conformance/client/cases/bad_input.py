"""A client whose agent writes lines that are not messages."""

from acp_conformance.client.conversation import Ended, Silent
from acp_conformance.client.registry import case
from acp_conformance.client.subject import PROBE, Client
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice

_JSON_RPC = "JSON-RPC 2.0"


async def _alive_or_ended(client: Client, *lines: bytes) -> None:
    await client.prompt()
    for line in lines:
        await client.conversation.write(line + b"\n")
    try:
        await client.alive()
    except Ended:
        pass


@case("bad-input/not-json", level=SHOULD, source=_JSON_RPC, section="Error object, -32700")
async def not_json(client: Client) -> None:
    """After a line that is not JSON a client continues or ends; it does not hang."""
    await _alive_or_ended(client, b"Loading the model...", b'{"jsonrpc": "2.0", "method"')


@case("bad-input/no-message", level=SHOULD, source=_JSON_RPC, section="Error object, -32600")
async def no_message(client: Client) -> None:
    """After JSON that is not a message a client continues or ends; it does not hang."""
    await _alive_or_ended(client, b"42", b'"text"', b"null", b"{}", b'{"jsonrpc":"2.0","method":7}')


@case("bad-input/not-utf8", level=SHOULD, source="ACP v1", section="Transports")
async def not_utf8(client: Client) -> None:
    """After a line that is not UTF-8 a client continues or ends; it does not hang."""
    await _alive_or_ended(client, b'{"jsonrpc":"2.0","method":"_conformance/hello","params":{"a":"\xff\xfe"}}')


@case("bad-input/unasked-response", level=MUST, source=_JSON_RPC, section="Response object")
async def unasked_response(client: Client) -> None:
    """A response without a request is not answered, and the connection stays open."""
    await client.prompt()
    conversation = client.conversation
    await conversation.send({"jsonrpc": "2.0", "id": "never asked", "result": {}})
    await conversation.send({"jsonrpc": "2.0", "id": 987_654, "error": {"code": -32603, "message": "no"}})
    await conversation.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}})
    await client.nothing_answered("a response")


@case("bad-input/batch", level=CHOICE, source=_JSON_RPC, section="Batch")
async def batch(client: Client) -> None:
    """The specification leaves open how a client reacts to a batch, because ACP has individual messages and JSON-RPC
    has batches."""
    await client.prompt()
    conversation = client.conversation
    asks = [conversation.expect(PROBE) for _ in range(2)]
    await conversation.send([{"jsonrpc": "2.0", "id": ask.id, "method": PROBE, "params": {}} for ask in asks])
    try:
        await conversation.until(lambda: all(ask.answers for ask in asks) or conversation.strays or None, "an answer")
    except Ended:
        choice("ends")
    except Silent:
        await client.alive()
        choice("does not answer it")
    choice("answers every request in it" if all(ask.answers for ask in asks) else "refuses it")
