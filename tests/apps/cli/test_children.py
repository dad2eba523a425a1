"""What a chat shows of child sessions."""

import anyio
import pytest

from acp_server import Turn
from acp_server.apps.cli.chat.children import Children
from acp_server.apps.cli.screen import Screen
from acp_server.client import RemoteAgent
from acp_server.schema import SessionUpdate, SubagentUpdate
from tests.client.test_subagents import talking
from tests.session.children import KINDS, delegating

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", KINDS)
async def test_each_line_of_a_child_has_its_title(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("Reader", description="Reads") as reader:
            await reader.say("one\ntw")
            async with reader.subagent("Deep\x1b[31m") as deep:
                await deep.say("deep\x1b]0;title\x07")
                await deep.run_tool("look")
            await reader.say("o")
        with anyio.move_on_after(0):
            async with turn.subagent("Bad"):
                await anyio.sleep_forever()

    async def program(remote: RemoteAgent) -> None:
        screen = Screen()
        children = Children(screen, remote)

        def heard(update: SessionUpdate) -> None:
            if isinstance(update, SubagentUpdate):
                children.told(update)

        session = await remote.new_session("/project", on_update=heard)
        await session.ask("go")

    await talking(delegating(work), kind, program)
    shown = capsys.readouterr().out
    lines = [line.strip() for line in shown.splitlines()]
    assert "\x1b" not in shown
    assert lines[:2] == ["Reader: Reads", "Reader: one"]
    assert "Reader: two" in lines
    assert next(line for line in lines if line.startswith("Deep")).endswith("begins")
    assert any("look" in line for line in lines)
    assert any(line.startswith("Bad: (error: ") for line in lines)
