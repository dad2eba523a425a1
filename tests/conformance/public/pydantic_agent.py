"""An agent of Pydantic AI behind `pydantic-acp`, with a model that says what the prompt tells it to.

A prompt has a line `model: [...]`, as for the model of this folder. The agent runs in an environment of its own,
which has neither this project nor its tests.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic_acp import AdapterConfig, NativeApprovalBridge, run_acp
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

SCRIPT = re.compile(r"^model: (\[.*\])$", re.MULTILINE)


async def say(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """What the last prompt has told; "Done." when its tool has answered."""
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    script = ["Well."]
    for part in parts:
        if isinstance(part, UserPromptPart):
            blocks = [part.content] if isinstance(part.content, str) else part.content
            found = [text for block in blocks if isinstance(block, str) for text in SCRIPT.findall(block)]
            script = json.loads(found[-1]) if found else ["Well."]
        elif isinstance(part, ToolReturnPart):
            script = ["Done."]
    for number, piece in enumerate(script):
        if piece == "HANG":
            await asyncio.Event().wait()
        if piece == "FAIL":
            raise RuntimeError("the model cannot be reached")
        if isinstance(piece, dict):
            [(name, arguments)] = piece.items()
            yield {number: DeltaToolCall(name=name, json_args=json.dumps(arguments))}
        else:
            yield piece


agent = Agent(FunctionModel(stream_function=say), name="pydantic")


@agent.tool_plain
def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_text("utf-8")


@agent.tool_plain(requires_approval=True)
def write(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content, "utf-8")
    return "written"


run_acp(agent, config=AdapterConfig(approval_bridge=NativeApprovalBridge()))
