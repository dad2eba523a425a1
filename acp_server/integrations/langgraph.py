"""`from_graph` makes an agent from a graph of LangGraph (extra `langgraph`). `session_tools` returns the session's
tools for the graph's nodes.

The graph runs in `run_native`, so that a cancel closes the connection to its model. The session's id is the id of the
graph's thread. If a cancel leaves tool calls without results, they are repaired at the beginning of the next turn. A
user sees text, reasoning, tool calls and questions of the run (`View`). Messages of LangChain are read by their
attributes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from acp_server import Agent, Message, Turn, UsageError, run_native
from acp_server.integrations.calls_view import REFUSED, CallsView
from acp_server.integrations.messages import appending, cut, openai_messages
from acp_server.integrations.model import ending, finished
from acp_server.integrations.usage import Meter, Tokens, checked_size

MODELS: Final = ("ai", "AIMessageChunk")
"""The types of a model's messages: whole messages, and messages that a node has merged from chunks."""


@dataclass(frozen=True)
class Started:
    """The event that a tool begins to run. `starts` writes it to the run's stream."""

    id: str
    name: str
    arguments: Any


def starts() -> Any:
    """Return a callback that writes an event for each tool call that begins. The event comes after everything that was
    streamed before, from any thread."""
    handler = import_module("langchain_core.callbacks").BaseCallbackHandler()

    def begun(
        tool: dict[str, Any], _text: str, *, inputs: Any = None, tool_call_id: str | None = None, **_: Any
    ) -> None:
        if tool_call_id is not None:
            write = import_module("langgraph.config").get_stream_writer()
            write(Started(tool_call_id, tool["name"], inputs))

    handler.run_inline = True
    handler.on_tool_start = begun
    return handler


class View(CallsView):
    """Shows one turn to the user."""

    def __init__(self, turn: Turn, context_size: int | None) -> None:
        super().__init__(turn)
        self._meter = Meter(turn, context_size)
        self.seen: set[str | None] = set()
        """The ids of models' messages that were shown, in this turn or before. They are remembered because a graph
        around a subgraph writes the subgraph's messages again."""
        self.finish: Any = None
        """Why the model's last response ended, as its server reports it."""
        self.offered: set[str] = set()
        """The names of session tools that the graph has requested. These tools show their calls themselves."""

    async def begin(self, id: str, name: str, arguments: Any) -> None:
        """Show a tool call, unless the tool shows it itself."""
        if name not in self.offered:
            await super().begin(id, name, arguments)

    async def chunk(self, message: Any) -> None:
        """Show a chunk of a message, or the whole message of a model that does not stream. Only models' messages are
        shown."""
        if message.type not in MODELS:
            return
        for block in message.content_blocks:
            if block["type"] == "text":
                await self.turn.say(block["text"])
            elif block["type"] == "reasoning":
                await self.turn.think(block.get("reasoning", ""))

    async def messages(self, messages: list[Any]) -> None:
        """Handle the messages that a node has added to the state."""
        for message in messages:
            if message.type in MODELS and (message.id is None or message.id not in self.seen):
                self.seen.add(message.id)
                await self._count(message)
                told = message.response_metadata
                self.finish = told.get("finish_reason") or told.get("stop_reason")
                for call in message.tool_calls:
                    await self.begin(call["id"], call["name"], call["args"])
            elif message.type == "tool":
                await self.end(message.tool_call_id, str(message.text), failed=message.status == "error")

    async def started(self, call: Any) -> None:
        """Handle a custom event of the stream. Only events of `starts` are handled; the graph may write others."""
        if isinstance(call, Started):
            await self.begin(call.id, call.name, call.arguments)
            await self.run(call.id)

    async def ask(self, _turn: Turn, value: Any) -> Any:
        """Return the user's answer to an `interrupt()`: decisions for the middleware that requests approvals, else a
        bool."""
        requests: Any = cast("dict[str, Any]", value).get("action_requests") if isinstance(value, dict) else None
        if not isinstance(requests, list):
            return await self.permit("graph", value, value if isinstance(value, str) else None)
        decisions: list[dict[str, str]] = []
        for request in cast("list[dict[str, Any]]", requests):
            allowed = await self.permit(request["name"], request.get("args"))
            decisions.append({"type": "approve"} if allowed else {"type": "reject", "message": REFUSED})
        return {"decisions": decisions}

    async def _count(self, message: Any) -> None:
        if (used := message.usage_metadata) is None:
            return
        read, made = used.get("input_token_details", {}), used.get("output_token_details", {})
        tokens = Tokens.read(
            used["input_tokens"],
            used["output_tokens"],
            made.get("reasoning"),
            read.get("cache_read"),
            read.get("cache_creation"),
        )
        told = message.response_metadata
        await self._meter.count(tokens, told.get("model_name"), provider=told.get("model_provider"))


running: Final[ContextVar[View | None]] = ContextVar("running", default=None)
"""The view of the run that the current code is part of; None outside of a run."""


def session_tools() -> list[Any]:
    """Return the tools of the session (`Session.tools`), including the tools of its MCP servers, as tools of LangChain.

    These are the current tools of the session whose turn runs. Call this function in a node, once for `bind_tools` and
    once for the `ToolNode`. The tools run as in `Turn.run_tool`: they request approval and end with the turn. They are
    asynchronous. Outside of a turn the list is empty.
    """
    view = running.get()
    if view is None:
        return []
    described = view.turn.session.tools.describe()
    view.offered.update(tool["name"] for tool in described)
    return [
        _kind()(name=tool["name"], description=tool["description"], args_schema=tool["input_schema"], coroutine=_unused)
        for tool in described
    ]


async def _unused(**_: Any) -> None:
    """Do nothing. LangChain requires a function, but `_invoked` is called instead."""


@cache
def _kind() -> Any:
    return type("SessionTool", (import_module("langchain_core.tools").StructuredTool,), {"ainvoke": _invoked})


async def _invoked(self: Any, given: Any, _config: Any = None, **_: Any) -> Any:
    """Run the tool for a model's call, which has an id, or for arguments without a call."""
    view = running.get()
    if view is None:
        raise RuntimeError(f"{self.name} is a tool of a session and can run only in a turn of that session")
    call: dict[str, Any] = given if given.get("type") == "tool_call" else {"args": given, "id": None}
    id: str | None = call["id"]
    result = await view.turn.run_tool(self.name, call["args"], id=id)
    text = cut(result.message or f"It is {result.status}.")
    if id is None:
        return text
    return import_module("langchain_core.messages").ToolMessage(
        text, tool_call_id=id, name=self.name, status="success" if result.ok else "error"
    )


__all__ = ["OnInterrupt", "from_graph", "session_tools"]

OnInterrupt: TypeAlias = "Callable[[Turn, Any], Awaitable[Any]]"

_INSTRUCTIONS = "acp_server.system_prompt"
"""The id of the message with the client's instructions, which is the first message of its thread."""

_CANCELLED = "This call was cancelled. Its effects are unknown."


def from_graph(
    graph: Any,
    *,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    on_interrupt: OnInterrupt | None = None,
    context_size: int | None = None,
    **options: Any,
) -> Agent:
    """Return an agent whose turns are runs of `graph`, a compiled graph whose state has `messages`. It runs on asyncio
    only.

    Text and reasoning of the graph's models are shown as they arrive, and tool calls from their beginning to their
    result. The thread of the graph's checkpointer is the session's id. A graph without a checkpointer gets one in
    memory. A thread that the checkpointer does not have begins with the session's history (`Turn.context`).

    A run that exceeds its `recursion_limit` ends with `max_turn_requests`. If a model fails, the user gets an error
    with a readable text. Nodes get the tools of the session from `session_tools`.

    - `name`: the agent's name, by default the graph's.
    - `config`: more members of LangGraph's `RunnableConfig`.
    - `on_interrupt`: a function that gets the turn and the value of an `interrupt()`, and returns the value to resume
      with. By default the user is asked for permission. Requests of `HumanInTheLoopMiddleware` are resumed with its
      decisions, other interrupts with True or False.
    - `context_size`: the models' context window in tokens, if genai-prices is not installed or does not know the
      models.
    - `options`: options of `Agent`. The default is `system_prompt="append"`, because a graph keeps its own
      instructions.

    Raises UsageError for anything but a compiled graph.
    """
    if not (hasattr(graph, "astream") and hasattr(graph, "aget_state")):
        raise UsageError(f"from_graph needs a compiled graph, not a {type(graph).__name__}; call its compile()")
    if not graph.checkpointer:
        memory = import_module("langgraph.checkpoint.memory")
        # A copy, so that the author's graph is unchanged.
        graph = graph.copy(update={"checkpointer": memory.InMemorySaver()})
    options = appending(options)
    if options["system_prompt"] == "override":
        raise UsageError(
            "the instructions of a graph are in its nodes, where a client cannot override them; use "
            "system_prompt='append'"
        )
    agent = Agent(name or graph.get_name(), **options)
    size = checked_size(context_size)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with ending(turn):
            view = View(turn, size)
            await run_native(_Run(graph, view, dict(config or {}), on_interrupt).run())

    return agent


class _Run:
    """Runs the graph for one turn."""

    def __init__(self, graph: Any, view: View, config: dict[str, Any], on_interrupt: OnInterrupt | None) -> None:
        self._graph = graph
        self._turn = view.turn
        self._view = view
        thread = {"thread_id": view.turn.session.id}
        self._config = {**config, "configurable": {**config.get("configurable", {}), **thread}}
        self._on_interrupt = on_interrupt or self._view.ask

    async def run(self) -> None:
        command = import_module("langgraph.types").Command
        given: Any = {"messages": await self._messages()}
        running.set(self._view)
        try:
            while interrupts := await self._stream(given):
                given = command(
                    resume={item.id: await self._on_interrupt(self._turn, item.value) for item in interrupts}
                )
            await finished(self._turn, self._view.finish)
        finally:
            self._view.close()

    async def _stream(self, given: Any) -> list[Any]:
        """Show one run of the graph until it ends or waits for a decision. Returns the interrupts that the graph waits
        for."""
        interrupts: dict[str, Any] = {}
        modes = ["messages", "updates", "custom"]
        graph = self._graph.with_config(callbacks=[starts()])
        async with aclosing(graph.astream(given, self._config, stream_mode=modes, subgraphs=True)) as events:
            async for _, mode, data in events:
                if mode == "custom":
                    await self._view.started(data)
                    continue
                if mode == "messages":
                    await self._view.chunk(data[0])
                    continue
                for node, update in cast("dict[str, Any]", data).items():
                    if node == "__interrupt__":
                        # Each graph around a subgraph reports the subgraph's interrupt again.
                        interrupts |= {item.id: item for item in update}
                    else:
                        await self._view.messages(_messages_in(update))
        return list(interrupts.values())

    async def _messages(self) -> list[Any]:
        """Return the input of the run: results that the state lacks, followed by this turn's prompt."""
        state = await self._graph.aget_state(self._config)
        known: list[Any] = _messages_in(state.values)
        if not known:
            return [*self._instructions(), *openai_messages(self._turn.context(tools=True))]
        self._view.seen.update(message.id for message in known)
        answered = {message.tool_call_id for message in known if message.type == "tool"}
        missing = [
            {"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": _CANCELLED, "status": "error"}
            for message in known
            if message.type in MODELS
            for call in message.tool_calls
            if call["id"] not in answered
        ]
        added = [*missing, *openai_messages([Message("user", self._turn.record.prompt)])]
        return [*self._changed(known), *added]

    def _instructions(self) -> list[Any]:
        """Return the client's instructions for the model (ACP, System Prompt), as a list with one message or none."""
        told = self._turn.session.instructions()
        return [import_module("langchain_core.messages").SystemMessage(told, id=_INSTRUCTIONS)] if told else []

    def _changed(self, known: list[Any]) -> list[Any]:
        """Return the messages to add so that the client's current instructions are the first message of the thread. The
        list is empty if they are already."""
        before = [message for message in known if message.id == _INSTRUCTIONS]
        now = self._instructions()
        if [message.content for message in before] == [message.content for message in now]:
            return []
        removed = import_module("langchain_core.messages").RemoveMessage
        everything = import_module("langgraph.graph.message").REMOVE_ALL_MESSAGES
        return [removed(id=everything), *now, *(message for message in known if message.id != _INSTRUCTIONS)]


def _messages_in(update: Any) -> list[Any]:
    """Return the messages in a node's output or in a state. A node may write several times, or not at all."""
    if isinstance(update, (list, tuple)):
        return [message for part in cast("list[Any]", update) for message in _messages_in(part)]
    found: Any = cast("dict[str, Any]", update).get("messages") if isinstance(update, dict) else None
    # A node that replaces messages wraps them.
    found = getattr(found, "value", found)
    several = cast("list[Any]", found if isinstance(found, list) else [] if found is None else [found])
    return [message for message in several if hasattr(message, "type")]
