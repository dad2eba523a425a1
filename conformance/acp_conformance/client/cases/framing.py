"""How a client reads: long lines, several messages at once, whitespace, and the agent's standard error."""

import json

from acp_conformance.client.registry import case
from acp_conformance.client.subject import PROBE, Client
from acp_conformance.core.case import MUST, SHOULD

_STDIO = "Transports, stdio"


@case("framing/long-line", level=MUST, source="ACP v1", section=_STDIO)
async def long_line(client: Client) -> None:
    """A message of several hundred kilobytes is read completely, in whatever pieces it arrives."""
    await client.prompt()
    # Twice, one byte apart: any piece of even size cuts a character in one of them.
    await client.say("é" * 150_000)
    await client.say("." + "é" * 150_000)
    await client.nothing_answered("a long update")


@case("framing/long-request", level=MUST, source="ACP v1", section=_STDIO, after="framing/long-line")
async def long_request(client: Client) -> None:
    """A request of several hundred kilobytes is read completely, and answered."""
    await client.prompt()
    await client.answer(await client.conversation.ask(PROBE, {"text": "é" * 150_000}))


@case("framing/several-at-once", level=MUST, source="ACP v1", section=_STDIO)
async def several_at_once(client: Client) -> None:
    """Messages that arrive together are all read."""
    await client.prompt()
    conversation = client.conversation
    asks = [conversation.expect(PROBE) for _ in range(5)]
    messages = [{"jsonrpc": "2.0", "id": ask.id, "method": PROBE, "params": {}} for ask in asks]
    await conversation.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages), *messages)
    for ask in asks:
        await conversation.answer(ask)


@case("framing/whitespace", level=MUST, source="RFC 8259", section="Insignificant whitespace")
async def whitespace(client: Client) -> None:
    """A client accepts whitespace that JSON allows, including a carriage return before the newline."""
    await client.prompt()
    ask = client.conversation.expect(PROBE)
    message = {"jsonrpc": "2.0", "id": ask.id, "method": PROBE, "params": {}}
    line = json.dumps(message, separators=(" ,\t", "\t: ")).encode()
    await client.conversation.write(b" \t" + line + b" \r\n", message)
    await client.answer(ask)


@case("framing/standard-error", level=SHOULD, source="ACP v1", section=_STDIO)
async def standard_error(client: Client) -> None:
    """A client reads the agent's standard error, so that the agent is not blocked when it writes much."""
    await client.prompt()
    await client.conversation.write_stderr(b"a line of a log\n" * 32_768)
    await client.alive()
