# pyright: strict
"""Lambdas and functions that say what a tool's call is and what the user is asked: what is said, and that strict type
checkers know their parameters, which `make types` shows by this file."""

from typing import Any

import pytest

from acp_server import Agent, Approval, Tool, ToolContext, Turn
from tests.session.editor import END_TURN, editing
from tests.tools.calls import shown, text
from tests.tools.kept import PERMISSION, selected

agent = Agent("lambdas")


@agent.prompt
async def run(turn: Turn) -> None:
    await turn.run_tool(turn.text, {name: name for name in agent.tools[turn.text].input_schema["properties"]})


@agent.tool(title=lambda a: f"Say {a}", approval=lambda a: f"Say {a}?")
async def one(a: str) -> str:
    return a


@agent.tool(title=lambda a, b: f"Say {a}{b}", approval=lambda a, b: Approval(f"Say {a}{b}?"))
async def two(call: ToolContext, a: str, b: str) -> str:
    return a + b


@agent.tool(title=lambda a, b, c: f"Say {a}{b}{c}", approval=lambda a, b, c: f"Say {a}{b}{c}?")
async def three(a: str, b: str, c: str) -> str:
    return a + b + c


def title(a: str, *, b: str = "") -> str:
    return f"Say {a}{b}"


async def question(call: ToolContext, *, a: str, b: str) -> Approval:
    return Approval(f"Say {a}{b}?")


@agent.tool(title=title, approval=question)
async def named(a: str, b: str) -> str:
    return a + b


made = Tool(one.function, name="made", title=lambda a: f"Say {a}", approval=lambda a: f"Say {a}?")
agent.add_tool(made)


@pytest.mark.anyio
@pytest.mark.parametrize("tool", [one, two, three, named, made])
async def test_a_function_of_the_arguments_says_what_a_call_is_and_asks(tool: Tool[Any]) -> None:
    said = "Say " + "".join(tool.input_schema["properties"])
    async with editing(agent) as editor:
        prompt = await editor.prompt(await editor.open(), tool.name)
        request = await editor.client.expect_request(PERMISSION)
        assert text(request["params"]["toolCall"])[0] == f"{said}?"
        await editor.client.respond(request, selected("allow_once"))
        assert await editor.answer(prompt) == END_TURN
        assert shown(editor)[0]["title"] == said
