"""A test that fails says what has failed, at whichever end."""

from typing import Any

import pytest

from acp_server import Agent
from acp_server.testing import scripted

INITIALIZE = {"protocolVersion": 1}


async def initialize(serve: Any) -> None:
    async with scripted(serve) as client:
        client.answer("_ask", lambda message: message["options"])
        await client.result("initialize", INITIALIZE)


@pytest.mark.anyio
async def test_an_answer_that_raises_is_the_reason_for_what_does_not_come() -> None:
    async def ask(stream: Any) -> None:
        await stream.send(b'{"jsonrpc":"2.0","id":1,"method":"_ask","params":{}}\n')
        await stream.receive()

    with pytest.raises(AssertionError, match="has no answer, and KeyError: 'options'") as failed:
        await initialize(ask)
    assert isinstance(failed.value.__cause__, KeyError)


@pytest.mark.anyio
async def test_a_server_that_raises_is_the_reason_for_what_does_not_come() -> None:
    async def serve(stream: Any) -> None:
        raise ValueError("no such agent")

    with pytest.raises(AssertionError, match=r"(has no answer|can be sent), and ValueError: no such agent"):
        await initialize(serve)


@pytest.mark.anyio
@pytest.mark.parametrize("serve", [Agent("a"), Agent("a").connect])
async def test_what_is_not_served_is_said_at_once(serve: Any) -> None:
    with pytest.raises(AssertionError, match=r"(has no answer|can be sent), and TypeError: "):
        await initialize(serve)
