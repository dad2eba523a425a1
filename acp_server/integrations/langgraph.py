"""`from_graph`: a graph of LangGraph as an agent (extra `langgraph`).

The graph runs by `run_native`, so that a cancel closes the connection to its model. Its thread is the session. What a
cut leaves in its state is repaired when the next turn begins. How it is shown is in `langgraph_view`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from importlib import import_module
from typing import Any, TypeAlias, cast

from acp_server.agent.app import Agent
from acp_server.errors import UsageError
from acp_server.integrations.langgraph_tools import running, session_tools
from acp_server.integrations.langgraph_view import MODELS, View, starts
from acp_server.integrations.messages import openai_messages
from acp_server.integrations.model import in_words
from acp_server.session.turn import Turn
from acp_server.store.records import Message
from acp_server.tasks.native import run_native

__all__ = ["from_graph", "session_tools"]

OnInterrupt: TypeAlias = "Callable[[Turn, Any], Awaitable[Any]]"

_CANCELLED = "This call was cancelled. What it has done by then is not known."


def from_graph(
    graph: Any,
    *,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    on_interrupt: OnInterrupt | None = None,
    **options: Any,
) -> Agent:
    """An agent whose turns are runs of `graph`, a compiled graph whose state has `messages`; on asyncio only.

    Text and reasoning of its models are shown as they come, tool calls from their beginning to their result. The thread
    of its checkpointer is the session's id; without a checkpointer it gets one in memory, and a session that it does
    not know (any more) begins with what was said in it (`Turn.context`).

    A run that needs more steps than its `recursion_limit` ends with `max_turn_requests`. What goes wrong with a model
    is told in words for the user. Nodes get the tools of the session by `session_tools`.

    `name`: of the agent, else the graph's. `config`: more of LangGraph's `RunnableConfig`. `on_interrupt`: a function
    of the turn and the value of an `interrupt()` that returns what to resume with. Without it the user is asked for
    permission: requests of `HumanInTheLoopMiddleware` are resumed with its decisions, others with True or False.
    `options`: those of `Agent`. Raises UsageError for what is not a compiled graph.
    """
    if not (hasattr(graph, "astream") and hasattr(graph, "aget_state")):
        raise UsageError(f"from_graph takes a compiled graph, not a {type(graph).__name__}: call its compile()")
    if not graph.checkpointer:
        memory = import_module("langgraph.checkpoint.memory")
        # A copy: the author's own use of the graph stays as it is.
        graph = graph.copy(update={"checkpointer": memory.InMemorySaver()})
    agent = Agent(name or graph.get_name(), **options)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with in_words():
            await run_native(_Run(graph, turn, dict(config or {}), on_interrupt).run())

    return agent


class _Run:
    """One turn."""

    def __init__(self, graph: Any, turn: Turn, config: dict[str, Any], on_interrupt: OnInterrupt | None) -> None:
        self._graph = graph
        self._turn = turn
        self._view = View(turn)
        self._config = {**config, "configurable": {**config.get("configurable", {}), "thread_id": turn.session.id}}
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
        except import_module("langgraph.errors").GraphRecursionError:
            self._turn.stop_reason = "max_turn_requests"
        finally:
            self._view.close()

    async def _stream(self, given: Any) -> list[Any]:
        """Show one run of the graph until it ends or waits for a decision: the interrupts that it waits for."""
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
                        # That of a subgraph is told by each graph around it as well.
                        interrupts |= {item.id: item for item in update}
                    else:
                        await self._view.messages(_messages_in(update))
        return list(interrupts.values())

    async def _messages(self) -> list[Any]:
        """What the run begins with: this turn's message, behind what is missing in the state before it."""
        state = await self._graph.aget_state(self._config)
        known: list[Any] = _messages_in(state.values)
        if not known:
            return openai_messages(self._turn.context(tools=True))
        answered = {message.tool_call_id for message in known if message.type == "tool"}
        missing = [
            {"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": _CANCELLED, "status": "error"}
            for message in known
            if message.type in MODELS
            for call in message.tool_calls
            if call["id"] not in answered
        ]
        return [*missing, *openai_messages([Message("user", self._turn.record.prompt)])]


def _messages_in(update: Any) -> list[Any]:
    """The messages in what a node has written, or in a state; a node may write several times, or nothing."""
    if isinstance(update, (list, tuple)):
        return [message for part in cast("list[Any]", update) for message in _messages_in(part)]
    found: Any = cast("dict[str, Any]", update).get("messages") if isinstance(update, dict) else None
    # A node that replaces messages wraps them.
    found = getattr(found, "value", found)
    several = cast("list[Any]", found if isinstance(found, list) else [] if found is None else [found])
    return [message for message in several if hasattr(message, "type")]
