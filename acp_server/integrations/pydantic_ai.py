"""`from_agent`: an agent of pydantic-ai as an agent (extra `pydantic-ai`).

It runs by `run_native`, with the cancel of the turn as its only one. A turn that is cut or fails leaves nothing in the
history that its model sees, as in `Turn.context`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from acp_server.agent.app import Agent
from acp_server.errors import UsageError
from acp_server.integrations.calls_view import REFUSED, CallsView
from acp_server.session.session import Session
from acp_server.session.turn import Turn
from acp_server.tasks.native import run_native


def from_agent(agent: Any, *, name: str | None = None, deps: Any = None, **options: Any) -> Agent:
    """An agent whose turns are runs of `agent`, a `pydantic_ai.Agent`; on asyncio only.

    Text and thinking are shown as they come, tool calls from their beginning to their result, and the user is asked
    about tools that need approval. The history of a session is kept while it is open, and begins with what was said in
    it (`Turn.context`) when it is loaded. `name`: else the agent's. `deps`: of its runs; a function gets the `Turn`.
    `options`: those of `Agent`. Raises UsageError for what is not an agent.
    """
    if not hasattr(agent, "run_stream_events"):
        raise UsageError(f"from_agent takes an agent of pydantic-ai, not a {type(agent).__name__}")
    made = Agent(name or agent.name or "pydantic-ai", **options)
    histories: WeakKeyDictionary[Session, list[Any]] = WeakKeyDictionary()

    @made.prompt
    async def prompt(turn: Turn) -> None:
        async def run() -> None:
            history = histories.get(turn.session) or _recalled(turn)
            given = deps(turn) if callable(deps) else deps
            histories[turn.session] = await _run(agent, turn, history, given)

        await run_native(run())

    return made


async def _run(agent: Any, turn: Turn, history: list[Any], deps: Any) -> list[Any]:
    """Run one turn: the history behind it."""
    library = import_module("pydantic_ai")
    view = CallsView(turn)
    given: dict[str, Any] = {"user_prompt": _content(turn.record.prompt)}
    output = [agent.output_type, library.DeferredToolRequests]
    try:
        while True:
            result = None
            async with agent.run_stream_events(
                message_history=history, output_type=output, deps=deps, **given
            ) as events:
                async for event in events:
                    if event.event_kind == "agent_run_result":
                        result = event.result
                    else:
                        await _show(turn, view, event)
            if result is None:
                raise RuntimeError("the run has ended without a result")
            turn.add_usage(input_tokens=result.usage.input_tokens, output_tokens=result.usage.output_tokens)
            history = result.all_messages()
            if not isinstance(result.output, library.DeferredToolRequests):
                if not isinstance(result.output, str):
                    await turn.say(str(result.output))
                return history
            given = {"deferred_tool_results": await _decided(view, result.output, library)}
    finally:
        view.close()


async def _decided(view: CallsView, requests: Any, library: Any) -> Any:
    if requests.calls:
        raise UsageError("tools that run elsewhere are not known here; only those that need approval are")
    decided: dict[str, Any] = {}
    for call in requests.approvals:
        arguments = call.args_as_dict()
        await view.begin(call.tool_call_id, call.tool_name, arguments)
        allowed = await view.permit(call.tool_name, arguments)
        decided[call.tool_call_id] = True if allowed else library.ToolDenied(REFUSED)
    return library.DeferredToolResults(approvals=decided)


async def _show(turn: Turn, view: CallsView, event: Any) -> None:
    kind = event.event_kind
    if kind == "part_start":
        await _say(turn, event.part.part_kind, getattr(event.part, "content", None))
    elif kind == "part_delta":
        await _say(turn, event.delta.part_delta_kind, getattr(event.delta, "content_delta", None))
    elif kind == "function_tool_call":
        await view.begin(event.part.tool_call_id, event.part.tool_name, event.part.args_as_dict())
    elif kind == "function_tool_result":
        part = event.part
        failed = part.part_kind == "retry-prompt" or part.outcome != "success"
        text = part.model_response() if part.part_kind == "retry-prompt" else part.model_response_str()
        await view.end(part.tool_call_id, text, failed=failed)


async def _say(turn: Turn, kind: str, text: Any) -> None:
    if isinstance(text, str) and kind == "text":
        await turn.say(text)
    elif isinstance(text, str) and kind == "thinking":
        await turn.think(text)


def _recalled(turn: Turn) -> list[Any]:
    """What was said in the session before this turn, as messages of pydantic-ai."""
    messages = import_module("pydantic_ai.messages")
    recalled: list[Any] = []
    for message in turn.context()[:-1]:
        if message.role == "user":
            parts = [messages.UserPromptPart(_content(message.content))]
            recalled.append(messages.ModelRequest(parts=parts))
        else:
            recalled.append(messages.ModelResponse(parts=[messages.TextPart(message.text)]))
    return recalled


def _content(blocks: Sequence[dict[str, Any]]) -> Any:
    """Content blocks (ACP, Content) as pydantic-ai takes them."""
    messages = import_module("pydantic_ai.messages")
    pieces: list[Any] = []
    for block in blocks:
        if block["type"] == "text":
            pieces.append(block["text"])
        elif block["type"] in ("image", "audio"):
            data = base64.b64decode(block["data"])
            pieces.append(messages.BinaryContent(data=data, media_type=block["mimeType"]))
        elif block["type"] == "resource_link":
            pieces.append(f"[{block['name']}]({block['uri']})")
        elif block["type"] == "resource" and "text" in block["resource"]:
            pieces.append(f"{block['resource']['uri']}:\n{block['resource']['text']}")
    return "\n".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces
