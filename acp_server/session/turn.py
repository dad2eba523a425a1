"""One prompt turn (ACP, Prompt Turn) as authors see it: the prompt, the methods to answer it, tools and child sessions.

`acp_server.session.updates.LiveTurn` holds the turn's state and sends its updates. `acp_server.session.prompting`
decides when a turn runs and how its prompt is answered.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from math import inf
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast, get_args, overload

from acp_server.errors import ToolCancelled, ToolFailed, ToolRejected, UsageError
from acp_server.session.plan import Compaction, Priority, Step
from acp_server.store.history import Message, messages_with_tools
from acp_server.store.records import TurnError, TurnRecord, Usage
from acp_server.tasks.cause import Cause

if TYPE_CHECKING:
    from acp_server.peer.answer import Answer
    from acp_server.schema.content import ContentBlock
    from acp_server.schema.updates import PlanEntry, SessionUpdate
    from acp_server.session.client import Client
    from acp_server.session.session import Session
    from acp_server.session.state import TurnState
    from acp_server.session.subagents import Subagent
    from acp_server.session.updates import LiveTurn
    from acp_server.store.records import ToolResult


_NOTES: Final = 16
_LONGEST_KEY: Final = 64
_LONGEST_VALUE: Final = 512

OwnStopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal"]
"""The stop reasons that a prompt handler can set."""


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class OfTool(Protocol[R_co]):
    """A tool whose function returns `R_co`: the type of an `acp_server.Tool` for type checkers."""

    @property
    def function(self) -> Callable[..., R_co]:
        """The function that the tool calls."""
        ...


class Turn:
    """The argument of a prompt handler. It has the user's message, the methods to answer it, the `client`, and the
    `session`, which outlives the turn."""

    # Without a `__dict__`, setting a misspelt attribute raises AttributeError instead of having no effect.
    __slots__ = ("__weakref__", "_live", "record", "session")

    session: Final[Session]
    """The session that the turn belongs to."""
    record: Final[TurnRecord]
    """The stored part of the turn."""

    def __init__(self, live: LiveTurn) -> None:
        self._live = live
        self.session = live.session
        self.record = live.record

    @property
    def id(self) -> str:
        """The id of the turn. Each turn has a new one."""
        return self.record.id

    @property
    def state(self) -> TurnState:
        """The state of the turn."""
        return self._live.state

    @property
    def created_at(self) -> float:
        """When the prompt arrived, in seconds since the epoch."""
        return self.record.created_at

    @property
    def ended_at(self) -> float | None:
        """When the turn ended, in seconds since the epoch; None until then."""
        return self.record.ended_at

    @property
    def last_error(self) -> TurnError | None:
        """The error with which the turn failed, as in the client's response; None if it did not fail."""
        return self.record.last_error

    @property
    def prompt(self) -> Sequence[ContentBlock]:
        """The user's message as content blocks (ACP, Content). Some clients repeat the messages of cancelled turns at
        the beginning of the next prompt. Those blocks are left out here, but `params` has them."""
        live = self._live
        if live.request is None:
            from acp_server.schema.content import PromptRequest

            live.request = PromptRequest.from_wire({**live.params, "prompt": live.blocks})
        return live.request.prompt

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the prompt as received, including members that are not in the protocol."""
        return self._live.params

    @property
    def answer(self) -> Answer:
        """Additions to the response to the prompt: `turn.answer.meta[...]`. They are sent even if the turn is
        cancelled. In version 2 they are sent with the state `idle`, which marks the end of a turn there."""
        return self._live.answer

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the prompt; empty if it is missing or malformed."""
        meta = self._live.params.get("_meta")
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}

    @property
    def text(self) -> str:
        """The text blocks of the user's message, joined by newlines."""
        blocks = self._live.blocks
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            return blocks[0]["text"]
        return "\n".join([block["text"] for block in blocks if block["type"] == "text"])

    @property
    def client(self) -> Client:
        """The calls to the client: files, terminals, permission, elicitation."""
        return self.session.client

    @property
    def is_cancelled(self) -> bool:
        """Whether the turn is being cancelled, for any cause."""
        return self._live.cause is not None

    @property
    def cause(self) -> Cause | None:
        """The cause of the turn's cancel; None if the turn is not being cancelled and did not end as cancelled."""
        return self._live.cause

    # -- its updates

    async def say(self, text: str) -> None:
        """Send a chunk of the agent's message (ACP, Prompt Turn). Waits while the client reads too slowly.

        Raises TurnEnded if the prompt is already answered, and ConnectionClosed.
        """
        await self._live.chunk("agent_message_chunk", text)

    async def think(self, text: str) -> None:
        """Send a chunk of the agent's reasoning; otherwise like `say`."""
        await self._live.chunk("agent_thought_chunk", text)

    async def plan(self, entries: Sequence[PlanEntry | str]) -> None:
        """Show the whole plan, which replaces the previous one (ACP, Agent Plan). A string is a step that has not
        begun. `step` marks one step as in progress while you work on it."""
        await self._live.steps.show(entries)

    def step(self, content: str, *, priority: Priority | None = None) -> Step:
        """`async with turn.step("Read the git log"):` shows the step as in progress within the block (ACP, Agent Plan).
        If the plan has no step with this text, a new step is added. The step is completed when the block ends. If the
        block raises, a note is added to the step's text: refused (`ToolRejected`), cancelled or failed."""
        return Step(self._live.steps, content, priority)

    async def notice(self, title: str, *, severity: str = "info", description: str | None = None) -> None:
        """Show the user plain text that is not part of the conversation. `severity`: `info`, `warning` or `error`.
        Clients may ignore notices, and many version 1 clients cannot show them. Otherwise like `say`."""
        from acp_server.schema.updates import Notice

        await self._live.update(Notice(severity=severity, title=title, description=description))

    def compaction(self) -> Compaction:
        """Report that the agent's context is being shortened: put the work into `async with turn.compaction() as
        compaction:`."""
        return Compaction(self._live)

    async def show(self, piece: Any) -> None:
        """Show text, a content block or a session update, as if the prompt handler had yielded it. Otherwise like
        `say`.

        Raises UsageError for anything else.
        """
        await self._live.show(piece)

    async def update(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """Send any session update of `acp_server.schema`; otherwise like `say`.

        An update that only some clients understand (a notice, a compaction) is not sent to other clients. `meta`: the
        `_meta` of the notification, which some clients read; `update.meta` is the `_meta` of the update.
        """
        await self._live.update(update, meta=meta)

    def put(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """Send an update without waiting, for use in callbacks. If the client reads too slowly, many such updates fill
        the memory. Raises TurnEnded."""
        self._live.put(update, meta=meta)

    async def room(self) -> None:
        """Wait while the buffer of unsent updates is above `FLOOD`. Call it before starting work that sends updates.
        Raises TurnEnded and ConnectionClosed."""
        await self._live.room()

    # -- what is known about it

    def context(self, *, cancelled: bool = False, tools: bool = False) -> list[Message]:
        """Return the messages for a model: the earlier turns of `SessionRecord.context`, then this prompt. `cancelled`:
        whether to include turns that the user cancelled, with the partial results of their cancelled tools.

        A message has a `role` (`user` or `assistant`) and `content`, which is a list of content blocks in their wire
        form. `tools`: whether to include tool calls and their results, as blocks `tool_use` and `tool_result` in the
        shapes of MCP (`acp_server.store.history`). `acp_server.integrations.messages` converts them for the APIs of
        models.
        """
        turns = [turn for turn in self.session.record.context(cancelled=cancelled) if turn is not self.record]
        said = [messages_with_tools(turn.contents) if tools else turn.messages() for turn in turns]
        return [message for messages in said for message in messages] + [Message("user", self.record.prompt)]

    def keep(self, key: str, value: Any, *, version: int = 1) -> None:
        """Store a framework's state with the turn, for use in the next turns. `value` is bytes, or a value that JSON
        can express. It is dropped if the turn fails or is cancelled.

        `key`: the framework's name. A second value with the same key replaces the first one. `version`: the version of
        the value's format. Later, read the value with `TurnRecord.kept(key, version)` of the turns in
        `session.record.context()`. Raises EncodeError, UsageError for more than `Limits.turn` bytes, and TurnEnded.
        """
        self._live.keep(key, value, version)

    @property
    def usage(self) -> Usage | None:
        """The sum of all `add_usage` calls in this turn, or None if there were none. It is part of the response to the
        prompt."""
        return self.record.usage

    def add_usage(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        total_tokens: int | None = None,
        thought_tokens: int | None = None,
        cached_read_tokens: int | None = None,
        cached_write_tokens: int | None = None,
        context_size: int | None = None,
        cost: float | None = None,
        currency: str = "USD",
    ) -> None:
        """Add the tokens of one model call. Input and output tokens include thought and cached tokens. Pass
        `total_tokens` if the total is more than the sum of input and output.

        `context_size`: the size of the model's context in tokens. If given, an update is sent at once (ACP, Session
        Usage), in which the used part of the context is the input and output of this call. `cost`: the cost of this
        call, in `currency`; the update has the sum for the session. Raises UsageError for negative numbers, other
        types, and a second currency.
        """
        sums = input_tokens + output_tokens
        counted = Usage(
            *(input_tokens, output_tokens, sums if total_tokens is None else total_tokens),
            *(thought_tokens, cached_read_tokens, cached_write_tokens),
        )
        if not all(type(number) is int and number >= 0 for number in (*counted, context_size) if number is not None):
            raise UsageError("a number of tokens must be an int that is not negative")
        if cost is not None:
            self._add_cost(cost, currency)
        self.record.usage = counted if self.record.usage is None else self.record.usage.plus(counted)
        if context_size is not None and self.record.ended_at is None:
            from acp_server.schema.updates import Cost, UsageUpdate

            total = self.session.record.cost
            told = None if total is None else Cost(amount=total[0], currency=total[1])
            self._live.put(UsageUpdate(used=sums, size=context_size, cost=told))

    def _add_cost(self, cost: float, currency: str) -> None:
        before, unit = self.session.record.cost or (0.0, currency)
        if unit != currency:
            raise UsageError(
                f"all costs of a session must have one currency, and this session has costs in {unit!r} already"
            )
        if not (isinstance(cast("Any", cost), int | float) and 0 <= cost < inf):
            raise UsageError("a cost must be a number that is not negative")
        self.session.record.cost = before + cost, currency

    @property
    def stop_reason(self) -> OwnStopReason:
        """The stop reason of a turn that neither is cancelled nor fails (ACP, Stop Reasons); `end_turn` by default.
        Raises UsageError if it is set to a value that is not an `OwnStopReason`."""
        return self._live.stop_reason

    @stop_reason.setter
    def stop_reason(self, reason: OwnStopReason) -> None:
        if reason not in get_args(OwnStopReason):
            reasons = ", ".join(get_args(OwnStopReason))
            raise UsageError(
                f"the stop reason must be one of {reasons}, not {reason!r}; session.cancel(Cause.USER) ends a turn "
                "as cancelled"
            )
        self._live.stop_reason = reason

    @property
    def meta_data(self) -> Mapping[str, str]:
        """The author's notes, stored with the turn: at most 16, keys of 1 to 64 characters, values of 1 to 512.

        The mapping is read-only: assign a new one to change it. Raises UsageError for other values.
        """
        return MappingProxyType(self.record.meta_data or {})

    @meta_data.setter
    def meta_data(self, notes: Mapping[str, str]) -> None:
        if len(notes) > _NOTES:
            raise UsageError(f"the meta data of a turn can have at most {_NOTES} entries")
        for key, value in notes.items():
            if not (_fits(key, _LONGEST_KEY) and _fits(value, _LONGEST_VALUE)):
                given = f"a {type(key).__name__} with a {type(value).__name__}"
                raise UsageError(
                    f"meta data needs keys of 1 to {_LONGEST_KEY} characters and values of 1 to {_LONGEST_VALUE} "
                    f"characters, not {given}"
                )
        self.record.meta_data = dict(notes)

    # -- its subagents and tools

    def subagent(
        self, title: str, *, task: str | None = None, description: str | None = None, cwd: str | None = None
    ) -> Subagent:
        """`async with turn.subagent("Reviewer", task="Look at the diff") as child:` gives a part of the work to a child
        session (ACP, Subagents). `child` is the child's `Turn`. Updates, tool calls and questions sent with it belong
        to the child. A child may have its own children. It has the tools and settings of its parent, but not the
        parent's history.

        `title`: the title that the user sees. `task`: the child's prompt, which is also `child.text`. `description`:
        the child's purpose. `cwd`: the child's working directory, by default that of the parent. In a tool, use
        `call.subagent`.

        If the client cancels the child, the block ends without an exception, like a cancel scope. Then
        `child.is_cancelled` is true, and the turn continues. If the block raises, the exception propagates, and the
        client sees that the child has failed. Without `Agent(unstable={"subagents"})`, and for clients without child
        sessions, the client sees a tool call with the messages of the child.

        Raises UsageError for anything but text, and InvalidParams for a `cwd` that is not absolute; the block raises
        TurnEnded and ConnectionClosed.
        """
        from acp_server.session.subagents import Subagent

        return Subagent(self._live, self._live.node, title, task, description, cwd)

    @overload
    async def call(self, tool: OfTool[AsyncGenerator[Any] | Generator[Any]], /, **arguments: Any) -> str: ...

    @overload
    async def call(self, tool: OfTool[Awaitable[R]], /, **arguments: Any) -> R: ...

    @overload
    async def call(self, tool: OfTool[R], /, **arguments: Any) -> R: ...

    @overload
    async def call(self, tool: str, /, **arguments: Any) -> Any: ...

    async def call(self, tool: Any, /, **arguments: Any) -> Any:
        """Run a tool and return the result of its function. `tool` is the object that `Agent.tool` made, or the tool's
        name.

        Raises ToolFailed, whose cause is the function's exception; ToolRejected if the user did not approve the call;
        ToolCancelled if only this call was cancelled. The `result` of each of these exceptions is the ToolResult. A
        prompt handler need not catch the last two. To run several tools in parallel, call them in several tasks.
        """
        result = await self.run_tool(tool, arguments)
        if result.status == "completed":
            return result.value
        if result.status == "failed":
            raise ToolFailed(result.message, result=result) from result.error
        raise (ToolRejected if result.status == "rejected" else ToolCancelled)(result.message, result=result)

    async def run_tool(
        self, tool: Any, arguments: Mapping[str, Any] | None = None, *, id: str | None = None
    ) -> ToolResult:
        """Run a tool, usually by name, with the arguments of a model, and return the result for the model.

        The client sees a tool call, from `pending` to a final status, and a permission request if the tool needs
        approval. `id`: the model's id of the call. It becomes the `toolCallId`, unless an earlier call of the session
        had it. For an unknown tool, or arguments that do not fit, the result's status is `failed`. The call waits until
        the client has caught up with reading. Raises UsageError, for example while a call with the same id runs, and
        TurnEnded after the turn.
        """
        return await self.session.tools.run(self, tool, arguments or {}, id)

    @property
    def tool_results(self) -> Sequence[ToolResult]:
        """The results of the ended tool calls, in the order in which they ended. Calls that ended because the turn was
        cancelled are included, so that a handler's `finally` can read them. The results are stored with the turn
        (`TurnRecord.tool_results`)."""
        return tuple(self._live.results or ())

    def cancel_tool(self, id: str) -> bool:
        """Cancel one tool call; the turn continues. May be called from any thread. Returns False if no call with this
        id runs."""
        return self.session.tools.cancel(self, id)


live_of: Final[Callable[[Turn], LiveTurn]] = attrgetter("_live")
"""Returns the runtime's side of a turn."""


def _fits(text: object, longest: int) -> bool:
    return isinstance(text, str) and 1 <= len(text) <= longest
