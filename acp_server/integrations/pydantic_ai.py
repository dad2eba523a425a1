"""`from_agent` makes an agent from an agent of pydantic-ai (extra `pydantic-ai`).

pydantic-ai's agent runs in `run_native`, and only the cancel of the turn cancels it. A turn that is cancelled or fails
leaves nothing in the history for the model, as in `Turn.context`. The model is offered the session's tools
(`SessionToolset`). They run as in `Turn.run_tool`: they show their calls, request approval and end with the turn.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Final, cast

from acp_server import Agent, Message, ToolResult, Turn, UsageError, run_native
from acp_server.integrations.calls_view import REFUSED, CallsView
from acp_server.integrations.messages import History, appending, cut, replaces_instructions, text_of
from acp_server.integrations.model import ending, find_model, finished, stopped
from acp_server.integrations.model_server import AnswerBound
from acp_server.integrations.usage import Meter, Tokens, checked_size, titles_of
from acp_server.schema import SessionConfigSelect, SessionConfigSelectOption

MODEL: Final = "model"
"""The id of the config option for the model."""


def from_agent(
    agent: Any,
    *,
    name: str | None = None,
    deps: Any = None,
    usage_limits: Any = None,
    models: Mapping[str, Any] | Sequence[str] = (),
    context_size: int | None = None,
    **options: Any,
) -> Agent:
    """Return an agent whose turns are runs of `agent`, a `pydantic_ai.Agent`. It runs on asyncio only.

    Text and thinking are shown as they arrive, and tool calls from their beginning to their result. The user is asked
    about tools that need approval. The model is offered the tools of the session (`Session.tools`) in addition to the
    tools of its agent. The history of a session is stored with its turns (`Turn.keep`), in any store.

    - `name`: the agent's name, by default that of `agent`.
    - `deps`: the dependencies of the runs, or a function that gets the `Turn` and returns the dependencies.
    - `usage_limits`: the limits of each run, a `pydantic_ai.UsageLimits`.
    - `models`: the models that the user can choose from in each session; the first is the default. They are
      pydantic-ai's names, or a mapping from names for the user to models. A turn uses the model that is chosen when the
      turn begins. By default there is only the agent's model.
    - `context_size`: the models' context window in tokens, if pydantic-ai does not know it.
    - `options`: options of `Agent`. The default is `system_prompt="append"`.

    Raises UsageError for anything but an agent of pydantic-ai, and for a model name that cannot be used (see
    `find_model`).
    """
    options = appending(options)
    if options["system_prompt"] == "override" and _has_system_prompt(agent):
        raise UsageError(
            "pydantic-ai keeps a system_prompt in the history, where it cannot change; set instructions instead"
        )
    made = Agent(name or getattr(agent, "name", None) or "pydantic-ai", **options)
    named = models if isinstance(models, Mapping) else {model: find_model(model) for model in models}
    offer_models(made, list(named))
    handler = prompt_handler(agent, deps=deps, usage_limits=usage_limits, models=named, context_size=context_size)
    made.prompt(handler)
    return made


def _has_system_prompt(agent: Any) -> bool:
    return any(getattr(agent, name, None) for name in ("_system_prompts", "_system_prompt_functions"))


def offer_models(agent: Agent, names: Sequence[str]) -> None:
    """Offer these models as the agent's config option `MODEL` (ACP, Session Config Options). Has no effect if there are
    no names."""
    if names:
        choices = [
            SessionConfigSelectOption(value=name, name=title, description=None if title == name else name)
            for name, title in zip(names, titles_of(names), strict=True)
        ]
        option = SessionConfigSelect(id=MODEL, name="Model", category="model", current_value=names[0], options=choices)
        agent.config_options(option)


def prompt_handler(
    agent: Any,
    *,
    deps: Any = None,
    usage_limits: Any = None,
    models: Mapping[str, Any] | None = None,
    context_size: int | None = None,
    instructions: Callable[[Turn], Awaitable[str]] | None = None,
    settings: Callable[[Turn], Mapping[str, Any]] | None = None,
) -> Callable[[Turn], Awaitable[None]]:
    """Return the prompt handler of `from_agent`, for your own `Agent` that does more in a turn.

    `models`: the models, by the values of the agent's config option `MODEL`. `instructions`: a function that returns a
    turn's instructions, which are appended to the agent's own. By default they are the client's
    (`Session.instructions`), which may replace the agent's. `settings`: a function that returns a turn's model
    settings. Raises UsageError for anything but an agent of pydantic-ai.

    If the model or its server fails, the handler raises InternalError with a text for the user. If a run ends by
    design, the handler sets `Turn.stop_reason` to `max_turn_requests`, `max_tokens` or `refusal`.
    """
    if not hasattr(agent, "run_stream_events"):
        raise UsageError(f"from_agent needs an agent of pydantic-ai, not a {type(agent).__name__}")
    history = History("pydantic-ai", 1, dump=_dump, load=_load, said=_said)
    checked_size(context_size)

    async def prompt(turn: Turn) -> None:
        given = {"deps": deps(turn) if callable(deps) else deps, "usage_limits": usage_limits}
        if models:
            given["model"] = models[str(turn.session.config(MODEL))]
        if settings is not None:
            given["model_settings"] = settings(turn)
        given["instructions"] = turn.session.instructions() if instructions is None else await instructions(turn)
        before = history.before(turn)
        with ExitStack() as stack:
            if instructions is None and replaces_instructions(turn):
                stack.enter_context(agent.override(instructions=given.pop("instructions")))
            await answer(turn, before, given)

    async def answer(turn: Turn, before: list[Any], given: dict[str, Any]) -> None:
        async with ending(turn):
            behind = await run_native(_run(agent, turn, before, given, Meter(turn, context_size)))
            history.keep(turn, before, behind)

    return prompt


async def _run(agent: Any, turn: Turn, history: list[Any], options: dict[str, Any], meter: Meter) -> list[Any]:
    """Run one turn. Returns the history with this turn."""
    library = import_module("pydantic_ai")
    tools = SessionToolset(turn)
    view = CallsView(turn)
    bound = AnswerBound()
    options = {
        **options,
        "output_type": [agent.output_type, library.DeferredToolRequests],
        "toolsets": [tools.toolset],
        "capabilities": [_starts(view, tools.names), _counts(meter)],
    }
    given: dict[str, Any] = {"user_prompt": _content(turn.record.prompt)}
    try:
        while True:
            meter.begin()
            async with agent.run_stream_events(message_history=history, **options, **given) as events:
                begun = False
                try:
                    async for event in events:
                        begun = True
                        _count(bound, event)
                        await _show(turn, view, event, tools.names)
                except library.UsageLimitExceeded as error:
                    await stopped(turn, error)
                    return events.all_messages()
                except library.RunCancelled as ended:
                    # The agent was cancelled by one of its tools. A cancel of the turn would cancel this task instead.
                    return ended.all_messages()
                finally:
                    if begun:
                        meter.end(_tokens(events.usage))
            result = events.result
            if result is None:
                raise RuntimeError("the run has ended without a result")
            history = result.all_messages()
            if not isinstance(result.output, library.DeferredToolRequests):
                if not isinstance(result.output, str):
                    await turn.say(str(result.output))
                await finished(turn, history[-1].finish_reason)
                return history
            given = {"deferred_tool_results": await _decided(view, result.output, library)}
    finally:
        view.close()


def _starts(view: CallsView, shows_itself: Collection[str]) -> Any:
    """Return a capability that shows when a tool begins to run."""

    async def begun(_context: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        if tool_def.name not in shows_itself:
            # The stream's event of this call may come later.
            await view.begin(call.tool_call_id, call.tool_name, call.args_as_dict())
            await view.run(call.tool_call_id)
        return args

    return import_module("pydantic_ai.capabilities").Hooks(before_tool_execute=begun)


def _counts(meter: Meter) -> Any:
    """Return a capability that counts each response of the model."""

    async def answered(context: Any, *, request_context: Any, response: Any) -> Any:
        await meter.count(
            _tokens(response.usage),
            response.model_name,
            provider=response.provider_name,
            url=response.provider_url,
            context_size=context.model.context_window,
        )
        return response

    return import_module("pydantic_ai.capabilities").Hooks(after_model_request=answered)


def _tokens(used: Any) -> Tokens:
    thought = used.details.get("reasoning_tokens")
    return Tokens.read(used.input_tokens, used.output_tokens, thought, used.cache_read_tokens, used.cache_write_tokens)


async def _decided(view: CallsView, requests: Any, library: Any) -> Any:
    if requests.calls:
        raise UsageError("deferred tools are supported only if they need approval; external tools are not supported")
    decided: dict[str, Any] = {}
    for call in requests.approvals:
        arguments = call.args_as_dict()
        await view.begin(call.tool_call_id, call.tool_name, arguments)
        allowed = await view.permit(call.tool_name, arguments)
        decided[call.tool_call_id] = True if allowed else library.ToolDenied(REFUSED)
    return library.DeferredToolResults(approvals=decided)


def _count(bound: AnswerBound, event: Any) -> None:
    if event.event_kind == "part_start":
        bound.part()
        bound.add(getattr(event.part, "content", None) or getattr(event.part, "args", None))
    elif event.event_kind == "part_delta":
        bound.add(getattr(event.delta, "content_delta", None) or getattr(event.delta, "args_delta", None))
    elif event.event_kind == "function_tool_result":
        bound.over()


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


def _dump(messages: list[Any]) -> Any:
    return import_module("pydantic_ai.messages").ModelMessagesTypeAdapter.dump_python(messages, mode="json")


def _load(kept: Any) -> list[Any]:
    return import_module("pydantic_ai.messages").ModelMessagesTypeAdapter.validate_python(kept)


def _said(context: Sequence[Message]) -> list[Any]:
    """Return the conversation as messages of pydantic-ai."""
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
    """Return content blocks (ACP, Content) as pydantic-ai's content."""
    messages = import_module("pydantic_ai.messages")
    pieces: list[Any] = []
    for block in blocks:
        if (text := text_of(block)) is not None:
            pieces.append(text)
        elif block["type"] in ("image", "audio"):
            data = base64.b64decode(block["data"])
            pieces.append(messages.BinaryContent(data=data, media_type=block["mimeType"]))
    return "\n".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces


class SessionToolset:
    """Offers the tools of a turn's session as a toolset."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._library = import_module("pydantic_ai")
        self._toolsets = import_module("pydantic_ai.toolsets")
        self.names: set[str] = set()
        """The names of all tools that were offered."""
        self.toolset: Final = self._toolsets.DynamicToolset(self._now)
        """The toolset for pydantic-ai, evaluated for each request to the model."""

    def _now(self, _context: Any) -> Any:
        described = self._turn.session.tools.describe()
        self.names.update(tool["name"] for tool in described)
        return self._toolsets.FunctionToolset([self._tool(**tool) for tool in described])

    def _tool(self, name: str, description: str, input_schema: dict[str, Any]) -> Any:
        async def run(context: Any, /, **arguments: Any) -> Any:
            result = await self._turn.run_tool(name, arguments, id=context.tool_call_id)
            if result.status == "failed":
                raise self._library.ToolFailed(cut(result.message or "It failed."))
            return _told(result, self._library)

        return self._library.Tool.from_schema(run, name, description, input_schema, takes_ctx=True)


def _told(result: ToolResult, library: Any) -> Any:
    value: Any = result.value if result.ok else None
    shown = cast("list[Any]", value if isinstance(value, (list, tuple)) else [value])
    if any(getattr(piece, "type", "") in _MEDIA for piece in shown):
        return [_piece(piece, library) for piece in shown]
    if result.message is not None:
        return cut(result.message)
    return "It is done." if result.ok else "It was cancelled."


_MEDIA: Final = ("image", "audio")
"""Content types that models can read as such, besides text."""


def _piece(piece: Any, library: Any) -> Any:
    """Return content that a tool has shown in the form that models accept; "" for other content."""
    if isinstance(piece, str):
        return cut(piece)
    kind = getattr(piece, "type", "")
    if kind in _MEDIA:
        return library.BinaryContent(data=base64.b64decode(piece.data), media_type=piece.mime_type)
    return cut(piece.text) if kind == "text" else ""


__all__ = ["MODEL", "from_agent", "offer_models", "prompt_handler"]
