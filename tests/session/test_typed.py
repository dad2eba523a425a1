"""What pyright takes the result of a tool for is what it is."""

import pytest

from tests.session import typed
from tests.session.editor import END_TURN, editing


@pytest.mark.anyio
async def test_what_a_tool_returns_is_of_the_type_that_its_function_says() -> None:
    async with editing(typed.agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        ended = [each for each in editor.client.updates() if each.get("status") == "completed"]
        assert [each.get("rawOutput") for each in ended] == [1, ["a", "project"], None]
