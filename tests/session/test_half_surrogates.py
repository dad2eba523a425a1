"""Names that are not UTF-8, and emoji that were cut: what the client gets can be read by any parser of JSON."""

import json
from typing import Any

import orjson
import pytest

from acp_server import Agent, ToolContext, Turn
from acp_server.errors import EncodeError
from acp_server.schema import ToolCall
from tests.session.editor import END_TURN, Editor, editing

HALF = "a\udcff"
MENDED = "a\N{REPLACEMENT CHARACTER}"

pytestmark = pytest.mark.anyio


def agent() -> Agent:
    agent = Agent("half")

    @agent.tool(kind="edit", approval=True)
    async def touch(call: ToolContext, path: str, more: dict[str, int]) -> str:
        call.progress(path)
        return path

    @agent.prompt
    async def prompt(turn: Turn) -> Any:
        match turn.text:
            case "say":
                yield HALF
                yield "\ud83d\ude00"
            case "use":
                await turn.run_tool(touch, {"path": HALF, "more": {HALF: 1}})
            case "show":
                await turn.update(ToolCall(tool_call_id="1", title=HALF, raw_input={HALF: [{HALF: HALF}]}))
            case "title":
                await turn.session.set_title(HALF)
            case how:
                calls: dict[str, Any] = {
                    "read": lambda: turn.client.read_text_file(f"/{HALF}"),
                    "write": lambda: turn.client.write_text_file(f"/{HALF}", ""),
                    "run": lambda: turn.client.create_terminal("ls", [HALF]),
                    "run in": lambda: turn.client.create_terminal("ls", cwd=f"/{HALF}"),
                }
                with pytest.raises(EncodeError, match="cannot be encoded in UTF-8"):
                    await calls[how]()

    @agent.method("_half")
    async def half(call: Any) -> dict[str, str]:
        return {HALF: HALF}

    return agent


def readable(editor: Editor) -> str:
    """All that the client got, after a strict parser has read it."""
    text = json.dumps(editor.client.received)
    orjson.loads(text)
    return text


@pytest.mark.parametrize("prompt", ["say", "use", "show"])
async def test_what_the_client_is_told_can_be_read_by_any_parser(prompt: str) -> None:
    async with editing(agent()) as editor:
        editor.client.answer(
            "session/request_permission", {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        )
        assert await editor.ask(await editor.open(), prompt) == END_TURN
        assert json.dumps(MENDED)[1:-1] in readable(editor)
        if prompt == "say":
            assert "".join(editor.said()) == f"{MENDED}\N{GRINNING FACE}"
        if prompt == "use":
            assert len(editor.client.all("session/request_permission")) == 1


async def test_a_list_with_such_a_title_can_be_read() -> None:
    async with editing(agent()) as editor:
        await editor.ask(await editor.open(), "title")
        [listed] = (await editor.client.result("session/list", {}))["sessions"]
        assert listed["title"] == MENDED
        readable(editor)


async def test_what_a_method_returns_can_be_read_and_its_id_comes_back_as_it_was() -> None:
    async with editing(agent()) as editor:
        assert await editor.client.result("_half", {}) == {MENDED: MENDED}
        await editor.client.send({"jsonrpc": "2.0", "id": HALF, "method": "_half", "params": {}})
        assert (await editor.client.response(HALF))["result"] == {MENDED: MENDED}


@pytest.mark.parametrize("what", ["read", "write", "run", "run in"])
async def test_a_path_or_command_that_cannot_be_sent_is_refused_before_it_is(what: str) -> None:
    async with editing(agent()) as editor:
        assert await editor.ask(await editor.open(), what) == END_TURN
        assert not editor.asked("fs/")
        assert not editor.asked("terminal/")
