"""A handler on version 2 that ends the program: the work has its end, and the connection raises the exception."""

import pytest

from acp_server import Agent, Turn
from tests.session.v2.editor import editing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_its_exception_ends_the_connection_after_the_work_was_ended(error: BaseException) -> None:
    agent = Agent("ends")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        raise error

    async def client() -> None:
        async with editing(agent) as editor:
            end = await editor.ask(await editor.open())
            assert end["stopReason"] == "error"
            await editor.client.wait_ended()

    with pytest.raises(type(error)) as raised:
        await client()
    assert raised.value is error
