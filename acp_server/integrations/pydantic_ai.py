"""`from_agent`: an agent of pydantic-ai as an agent (extra `pydantic-ai`).

It runs by `run_native`, with the cancel of the turn as its only one. A turn that is cut or fails leaves nothing in the
history that its model sees, as in `Turn.context`. The session's own tools are offered to it by `pydantic_ai_tools`, and
what goes wrong with its model is told by `model_errors`.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib import import_module
from typing import Any, Final
from weakref import WeakKeyDictionary

from acp_server.agent.app import Agent
from acp_server.errors import EncodeError, UsageError
from acp_server.integrations.calls_view import REFUSED, CallsView
from acp_server.integrations.model_errors import in_words
from acp_server.integrations.pydantic_ai_tools import SessionToolset
from acp_server.session.session import Session
from acp_server.session.turn import OwnStopReason, Turn
from acp_server.store.records import Message
from acp_server.tasks.native import run_native

logger = logging.getLogger("acp_server.integrations")

_KEY: Final = "pydantic-ai"
_VERSION: Final = 1
"""What is kept with each turn, and in which form."""

_STOPS: Final[dict[str | None, OwnStopReason]] = {"length": "max_tokens", "content_filter": "refusal"}
"""By why the model has stopped."""


def from_agent(
    agent: Any, *, name: str | None = None, deps: Any = None, usage_limits: Any = None, **options: Any
) -> Agent:
    """An agent whose turns are runs of `agent`, a `pydantic_ai.Agent`; on asyncio only.

    Text and thinking are shown as they come, tool calls from their beginning to their result, and the user is asked
    about tools that need approval. The model is offered the tools of the session (`Session.tools`) beside its agent's.
    The history of a session is kept with its turns (`Turn.keep`), in whatever store it is. `name`: else the agent's.
    `deps`: of its runs; a function gets the `Turn`. `usage_limits`: of each run, a `pydantic_ai.UsageLimits`.
    `options`: those of `Agent`. Raises UsageError for what is not an agent.
    """
    made = Agent(name or getattr(agent, "name", None) or "pydantic-ai", **options)
    made.prompt(prompt_handler(agent, deps=deps, usage_limits=usage_limits))
    return made


def prompt_handler(agent: Any, *, deps: Any = None, usage_limits: Any = None) -> Callable[[Turn], Awaitable[None]]:
    """The prompt handler of `from_agent`, for an `Agent` of yours that does more in a turn. Raises UsageError for what
    is not an agent.

    It raises InternalError with words for the user if the model or its server fails, and sets `Turn.stop_reason` to
    `max_turn_requests`, `max_tokens` or `refusal` where a run has ended for that.
    """
    if not hasattr(agent, "run_stream_events"):
        raise UsageError(f"from_agent takes an agent of pydantic-ai, not a {type(agent).__name__}")
    histories: WeakKeyDictionary[Session, list[Any]] = WeakKeyDictionary()

    async def prompt(turn: Turn) -> None:
        async def run() -> None:
            history = histories.get(turn.session) or _recalled(turn)
            given = {"deps": deps(turn) if callable(deps) else deps, "usage_limits": usage_limits}
            try:
                histories[turn.session] = behind = await _run(agent, turn, history, given)
                _keep(turn, history, behind)
            except Exception as error:
                if (told := in_words(error)) is not None:
                    raise told from error
                raise

        await run_native(run())

    return prompt


async def _run(agent: Any, turn: Turn, history: list[Any], options: dict[str, Any]) -> list[Any]:
    """Run one turn: the history behind it."""
    library = import_module("pydantic_ai")
    tools = SessionToolset(turn)
    view = CallsView(turn)
    options = {**options, "output_type": [agent.output_type, library.DeferredToolRequests], "toolsets": [tools.toolset]}
    given: dict[str, Any] = {"user_prompt": _content(turn.record.prompt)}
    try:
        while True:
            async with agent.run_stream_events(message_history=history, **options, **given) as events:
                begun = False
                try:
                    async for event in events:
                        begun = True
                        await _show(turn, view, event, tools.names)
                except library.UsageLimitExceeded:
                    turn.stop_reason = "max_turn_requests"
                    return events.all_messages()
                finally:
                    if begun:
                        used = events.usage
                        turn.add_usage(input_tokens=used.input_tokens, output_tokens=used.output_tokens)
            result = events.result
            if result is None:
                raise RuntimeError("the run has ended without a result")
            history = result.all_messages()
            if not isinstance(result.output, library.DeferredToolRequests):
                if not isinstance(result.output, str):
                    await turn.say(str(result.output))
                turn.stop_reason = _STOPS.get(history[-1].finish_reason, "end_turn")
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


async def _show(turn: Turn, view: CallsView, event: Any, shows_itself: Collection[str]) -> None:
    kind = event.event_kind
    if kind == "part_start":
        await _say(turn, event.part.part_kind, getattr(event.part, "content", None))
    elif kind == "part_delta":
        await _say(turn, event.delta.part_delta_kind, getattr(event.delta, "content_delta", None))
    elif kind == "function_tool_call" and event.part.tool_name not in shows_itself:
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


def _keep(turn: Turn, before: list[Any], behind: list[Any]) -> None:
    """Keep with the turn what it has added to the history; or all of it, if it has changed what was there."""
    adapter = import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    whole = behind[: len(before)] != before
    added = adapter.dump_python(behind if whole else behind[len(before) :], mode="json")
    try:
        turn.keep(_KEY, {"whole": whole, "messages": added}, version=_VERSION)
    except (UsageError, EncodeError):
        logger.warning("the messages of a turn take too much to be kept; what was said in it is kept")


def _recalled(turn: Turn) -> list[Any]:
    """The history of the session before this turn: what its turns have kept; of others, what was said in them."""
    adapter = import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    recalled: list[Any] = []
    for past in turn.session.record.context():
        if past is turn.record:
            continue
        kept = past.kept(_KEY, _VERSION)
        try:
            added = _said(past.messages()) if kept is None else adapter.validate_python(kept["messages"])
        except ValueError:
            logger.warning("what turn %s has kept cannot be read; what was said in it is used", past.id)
            kept, added = None, _said(past.messages())
        recalled = [*([] if kept is not None and kept["whole"] else recalled), *added]
    return recalled


def _said(context: Sequence[Message]) -> list[Any]:
    """What was said, as messages of pydantic-ai."""
    messages = import_module("pydantic_ai.messages")
    recalled: list[Any] = []
    for message in context:
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
