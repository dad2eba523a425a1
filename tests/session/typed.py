"""What a type checker knows of calls of tools: `make types` checks it."""

from collections.abc import AsyncGenerator
from typing import assert_type

from acp_server import Agent, ToolContext, Turn
from acp_server.tools.editor import Editor

agent = Agent("a")


@agent.tool
def count(word: str) -> int:
    return len(word)


@agent.tool(kind="read", needs_editor=True)
async def look(word: str, call: ToolContext) -> list[str]:
    assert_type(call.editor, Editor)
    return [word, call.editor.script_name]


@agent.tool
async def stream(word: str) -> AsyncGenerator[str]:
    yield word


@agent.prompt
async def prompt(turn: Turn) -> None:
    assert_type(await turn.call(count, word="a"), int)
    assert_type(await turn.call(look, word="a"), list[str])
    assert_type(await turn.call(stream, word="a"), str)
