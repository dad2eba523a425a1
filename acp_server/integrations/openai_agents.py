"""`from_agent` makes an agent from an agent of the OpenAI Agents SDK (extra `openai-agents`).

The SDK's agent runs in `run_native`. A turn that is cancelled or fails leaves nothing in the history for the model, as
in `Turn.context`. The SDK's events are read by their attributes, and the SDK is not imported before the first turn.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, cast

import anyio

from acp_server import Agent, Message, Turn, UsageError, run_native
from acp_server.integrations.calls_view import REFUSED, CallsView
from acp_server.integrations.messages import History, appending, replaces_instructions, text_of
from acp_server.integrations.model import ending
from acp_server.integrations.usage import Meter, Tokens, checked_size

_DELTAS: Final = {
    "response.output_text.delta": "say",
    "response.refusal.delta": "say",
    "response.reasoning_summary_text.delta": "think",
    "response.reasoning_text.delta": "think",
}
"""The `Turn` method that shows the text of a model's event, by the event's type."""


def from_agent(
    agent: Any,
    *,
    name: str | None = None,
    context: Any = None,
    max_turns: int = 50,
    run_config: Any = None,
    context_size: int | None = None,
    **options: Any,
) -> Agent:
    """Return an agent whose turns are runs of `agent`, an `agents.Agent`. It runs on asyncio only.

    Text and reasoning are shown as they arrive, and tool calls from their beginning to their result, even if an agent
    after a handoff calls them. The user is asked about tools with `needs_approval`. The model is offered the tools of
    the session (`Session.tools`) in addition to the tools of its agent. The history of a session is stored with its
    turns (`Turn.keep`), in any store.

    - `name`: the agent's name, by default that of `agent`.
    - `context`: the context of the runs, or a function that gets the `Turn` and returns the context.
    - `max_turns`: the most requests to the model in one turn. If there are more, the stop reason is
      `max_turn_requests`.
    - `run_config`: an `agents.RunConfig`.
    - `context_size`: the models' context window in tokens, if genai-prices is not installed or does not know the
      models.
    - `options`: options of `Agent`. The default is `system_prompt="append"`.

    Raises UsageError for anything but an agent of the SDK.
    """
    if not (hasattr(agent, "handoffs") and hasattr(agent, "clone")):
        raise UsageError(f"from_agent needs an agent of the OpenAI Agents SDK, not a {type(agent).__name__}")
    made = Agent(name or agent.name, **appending(options))
    history = History("openai-agents", 1, dump=list, load=_load, said=_said)
    size = checked_size(context_size)

    @made.prompt
    async def prompt(turn: Turn) -> None:
        given = {"context": context(turn) if callable(context) else context, "max_turns": max_turns}
        before = history.before(turn)
        async with ending(turn):
            behind = await run_native(_Run(turn, given | {"run_config": run_config}, size).run(agent, before))
            history.keep(turn, before, behind)

    return made


class _Run:
    """Runs the SDK's agent for one turn."""

    def __init__(self, turn: Turn, options: dict[str, Any], context_size: int | None) -> None:
        self._library = import_module("agents")
        self._turn = turn
        self._meter = Meter(turn, context_size)
        self._options = options | {"run_config": self._instructed(options["run_config"])}
        self._view = CallsView(turn)
        self._ours: set[str] = set()
        """The names of the session tools. These tools show their calls themselves."""

    def _instructed(self, run_config: Any) -> Any:
        """Return the run configuration with the client's instructions for the model (ACP, System Prompt). They also
        apply after a handoff."""
        if not (told := self._turn.session.instructions()):
            return run_config
        config = run_config or self._library.RunConfig()
        own, replaces = config.call_model_input_filter, replaces_instructions(self._turn)

        async def instructed(data: Any) -> Any:
            made = data.model_data if own is None else own(data)
            model_data = await made if inspect.isawaitable(made) else made
            before = None if replaces else model_data.instructions
            return replace(model_data, instructions=f"{before}\n\n{told}" if before else told)

        return replace(config, call_model_input_filter=instructed)

    async def run(self, agent: Any, history: list[Any]) -> list[Any]:
        """Run the turn. Returns the history with this turn."""
        agent = agent.clone(tools=[*agent.tools, *map(self._tool, self._turn.session.tools.describe())])
        given: Any = [*history, {"role": "user", "content": _content(self._turn.record.prompt)}]
        try:
            while True:
                async with self._running(agent, given) as (result, events):
                    async for event in events:
                        await self._show(event)
                if not result.interruptions:
                    if result.final_output is not None and not isinstance(result.final_output, str):
                        await self._turn.say(str(result.final_output))
                    return result.to_input_list()
                given = result.to_state()
                for asked in result.interruptions:
                    await self._decide(given, asked)
        finally:
            self._view.close()

    @asynccontextmanager
    async def _running(self, agent: Any, given: Any) -> AsyncGenerator[tuple[Any, Any]]:
        """Start a run, and yield it with its events. The run has ended when the block is left, however it is left."""
        result = self._library.Runner.run_streamed(agent, given, hooks=self._hooks(), **self._options)
        # A resumed state includes the usage before it.
        before = _tokens(result.context_wrapper.usage)
        self._meter.begin()
        ended = anyio.Event()

        def end(_task: Any) -> None:
            ended.set()

        result.run_loop_task.add_done_callback(end)
        events = result.stream_events()
        try:
            yield result, events
        finally:
            # The order matters: closing the events first would wait for the end of the run.
            result.cancel()
            await ended.wait()
            await events.aclose()
            self._meter.end(_tokens(result.context_wrapper.usage).beyond(before))

    async def _show(self, event: Any) -> None:
        if event.type == "raw_response_event":
            if (how := _DELTAS.get(event.data.type)) is not None:
                await getattr(self._turn, how)(event.data.delta)
        elif event.type == "run_item_stream_event" and event.item.type == "tool_call_item":
            call = event.item.raw_item
            if getattr(call, "type", "") == "function_call" and call.name not in self._ours:
                await self._view.begin(call.call_id, call.name, _arguments(call.arguments))
        elif event.type == "run_item_stream_event" and event.item.type == "tool_call_output_item":
            await self._view.end(event.item.raw_item["call_id"], str(event.item.output))

    def _hooks(self) -> Any:
        """Return hooks for events that the SDK's stream does not have."""
        hooks = self._library.RunHooks()

        async def on_tool_start(context: Any, _agent: Any, tool: Any) -> None:
            # The stream's event of this call may come later.
            if tool.name not in self._ours:
                await self._view.begin(context.tool_call_id, tool.name, _arguments(context.tool_arguments))
                await self._view.run(context.tool_call_id)

        async def on_llm_end(_context: Any, agent: Any, response: Any) -> None:
            model, url = _model_of(agent, self._options["run_config"])
            # A model without a URL is OpenAI's, unless its name has a provider.
            await self._meter.count(_tokens(response.usage), model, provider="openai", url=url)

        hooks.on_tool_start = on_tool_start
        hooks.on_llm_end = on_llm_end
        return hooks

    async def _decide(self, state: Any, asked: Any) -> None:
        arguments = _arguments(asked.arguments)
        await self._view.begin(asked.raw_item.call_id, asked.name, arguments)
        if await self._view.permit(asked.name, arguments):
            state.approve(asked)
        else:
            state.reject(asked, rejection_message=REFUSED)

    def _tool(self, described: dict[str, Any]) -> Any:
        """Return a tool of the session as a tool of the SDK."""
        name: str = described["name"]
        self._ours.add(name)

        async def run(context: Any, arguments: str) -> str:
            given: Any = _arguments(arguments)
            read = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
            result = await self._turn.run_tool(name, read, id=context.tool_call_id)
            return result.message or f"It is {result.status}."

        return self._library.FunctionTool(
            name=name,
            description=described["description"],
            params_json_schema=described["input_schema"],
            on_invoke_tool=run,
            strict_json_schema=False,
        )


def _tokens(used: Any) -> Tokens:
    read = used.input_tokens_details
    return Tokens.read(
        used.input_tokens,
        used.output_tokens,
        used.output_tokens_details.reasoning_tokens,
        read.cached_tokens,
        getattr(read, "cache_write_tokens", 0),
    )


def _model_of(agent: Any, run_config: Any) -> tuple[Any, str | None]:
    """Return the name of the model that the agent uses and the URL of the model's server, as far as they are known."""
    model = getattr(run_config, "model", None) or agent.model or import_module("agents.models").get_default_model()
    url = getattr(getattr(model, "_client", None), "base_url", None)
    return getattr(model, "model", model), None if url is None else str(url)


def _arguments(text: str | None) -> Any:
    """Parse the arguments from a model. They are returned unchanged if they are not JSON."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _load(kept: Any) -> list[Any]:
    """Return the stored history. Raises ValueError if it is not a list of items for the model."""
    if not isinstance(kept, list) or not all(isinstance(item, dict) for item in cast("list[Any]", kept)):
        raise ValueError("not a list of items")
    return cast("list[Any]", kept)


def _said(context: Sequence[Message]) -> list[Any]:
    """Return the conversation as input for the model."""
    return [
        {"role": message.role, "content": message.text if message.role == "assistant" else _content(message.content)}
        for message in context
    ]


def _content(blocks: Sequence[dict[str, Any]]) -> Any:
    """Return content blocks (ACP, Content) as input for the model."""
    pieces: list[dict[str, Any]] = []
    for block in blocks:
        if (text := text_of(block)) is not None:
            pieces.append({"type": "input_text", "text": text})
        elif block["type"] == "image":
            url = f"data:{block['mimeType']};base64,{block['data']}"
            pieces.append({"type": "input_image", "image_url": url, "detail": "auto"})
    if all(piece["type"] == "input_text" for piece in pieces):
        return "\n".join(piece["text"] for piece in pieces)
    return pieces


__all__ = ["from_agent"]
