"""One prompt turn (ACP, Prompt Turn): its properties, its tool calls and its states. Its updates are in
`acp_server.session.updates`.

Methods of the runtime are in `LiveTurn`, so that help and completion do not offer them to authors. `LiveTurn.move`
alone changes the state, and `acp_server.session.state` has the table of states. `acp_server.session.prompting` decides
when a turn runs and how its prompt is answered.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeVar, cast, get_args, overload

from acp_server.errors import RequestCancelled, SessionClosed, ToolCancelled, ToolFailed, ToolRejected, UsageError
from acp_server.peer.outcome import refusal
from acp_server.session.state import UNEXPLAINED, TurnState
from acp_server.session.unended import say_silent, say_unended
from acp_server.session.updates import FLOOD, PACE, TurnUpdates, too_late
from acp_server.store.history import Message, messages_with_tools
from acp_server.store.records import TurnError, TurnRecord, UnkeptTurn, Usage
from acp_server.tasks.cause import Cause

if TYPE_CHECKING:
    from acp_server.peer.answer import Answer
    from acp_server.schema.content import ContentBlock, PromptRequest
    from acp_server.session.client import Client
    from acp_server.session.definition import TurnHost
    from acp_server.session.live_session import LiveSession
    from acp_server.session.session import Session
    from acp_server.session.subagents import Subagent
    from acp_server.session.updates import Speech
    from acp_server.store.records import ToolResult
    from acp_server.tasks.tree import Node


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


class Turn(TurnUpdates):
    """The argument of a prompt handler: the user's message, the methods to answer it, `client`, and `session`, which
    outlives the turn."""

    # Without a `__dict__`, setting a misspelt attribute raises AttributeError instead of having no effect.
    __slots__ = (
        *("__weakref__", "_blocks", "_cause_at_end", "_host", "_params", "_questions", "_request", "_results"),
        *("_stop_reason", "session", "state", "tool_calls"),
    )

    session: Final[Session]
    """The session that the turn belongs to."""

    def __init__(
        self, session: Session, host: TurnHost, request: PromptRequest | None, blocks: list[dict[str, Any]]
    ) -> None:
        self.session = session
        self._host = host
        params: Any = host.request.params
        self._params: dict[str, Any] = params
        self._blocks = blocks
        self._request = request if len(blocks) == len(params["prompt"]) else None
        self.node: Node = host.node
        kind = TurnRecord if session.keeps_history else UnkeptTurn
        self.record: TurnRecord = kind(blocks, most=host.connection.limits.turn)
        """The stored part of the turn."""
        self._updates = self._speech = session.updates
        self._pause_at = time.monotonic() + PACE
        self._begun = {}
        self._entries = ()
        self._said = self._shown_steps = None
        self._cause_at_end: Cause | None = None
        """The cause when the turn ended. A later cancel of its request does not change it."""
        self._stop_reason: OwnStopReason = "end_turn"
        self.state = TurnState.CREATED
        self.tool_calls: Any = None
        """The running tool calls, kept by the agent's `ToolHost`; None before the first call."""
        self._results: list[ToolResult] | None = None
        self._questions = 0

    @property
    def id(self) -> str:
        """The id of the turn, new for every turn."""
        return self.record.id

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
        """The user's message as content blocks (ACP, Content). Some clients repeat the messages of cancelled turns
        right before this one; those blocks are left out here, and `params` has them."""
        if self._request is None:
            from acp_server.schema.content import PromptRequest

            self._request = PromptRequest.from_wire({**self._params, "prompt": self._blocks})
        return self._request.prompt

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the prompt as received, with members that are not in the protocol."""
        return self._params

    @property
    def answer(self) -> Answer:
        """Additions to the response to the prompt, also after a cancel: `turn.answer.meta[...]`. In version 2 they go
        into the state `idle`, which marks the end of a turn there."""
        return self._host.answer

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the prompt; empty if it is missing or malformed."""
        meta = self._params.get("_meta")
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}

    @property
    def text(self) -> str:
        """The text blocks of the user's message, joined by newlines."""
        blocks = self._blocks
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
        return self.cause is not None

    @property
    def cause(self) -> Cause | None:
        """Why the turn is being cancelled, or was cancelled when it ended; None if it was not."""
        return self.node.cause if self.record.ended_at is None else self._cause_at_end

    # -- what is known about it

    def context(self, *, cancelled: bool = False, tools: bool = False) -> list[Message]:
        """The messages for a model: the earlier turns of `SessionRecord.context`, then this prompt. `cancelled`:
        include turns that the user cancelled, with the partial results of their cancelled tools.

        A message is a pair of `role`, `user` or `assistant`, and `content`, content blocks in their wire form. `tools`:
        include tool calls and their results, as blocks `tool_use` and `tool_result` in the shapes of MCP
        (`acp_server.store.history`). `acp_server.integrations.messages` converts them for the APIs of models.
        """
        turns = [turn for turn in self.session.record.context(cancelled=cancelled) if turn is not self.record]
        said = [messages_with_tools(turn.contents) if tools else turn.messages() for turn in turns]
        return [message for messages in said for message in messages] + [Message("user", self.record.prompt)]

    def keep(self, key: str, value: Any, *, version: int = 1) -> None:
        """Store a framework's state with the turn, for the next turns: bytes, or a value that JSON can express. It is
        dropped if the turn fails or is cancelled.

        `key`: the framework's name; a second value replaces the first one of this turn. `version`: of the value's
        format. `TurnRecord.kept(key, version)` of the turns in `session.record.context()` returns the value. Raises
        EncodeError, UsageError for more than `Limits.turn` bytes, and TurnEnded.
        """
        if self.record.ended_at is not None:
            raise too_late()
        self.record.keep(key, version, value)

    @property
    def usage(self) -> Usage | None:
        """The sum of `add_usage` in this turn, or None. The response to the prompt has it."""
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
        """Add the tokens of one call of a model. Input and output include thought and cached tokens. `total_tokens`:
        if it is more than their sum.

        `context_size`: the size of the model's context in tokens. With it an update is sent at once (ACP, Session
        Usage), with the input and output of this call as the used part. `cost`: of this call, in `currency`; that
        update has the sum of the session. Raises UsageError for negative numbers, other types, and a second currency.
        """
        sums = input_tokens + output_tokens
        counted = Usage(
            *(input_tokens, output_tokens, sums if total_tokens is None else total_tokens),
            *(thought_tokens, cached_read_tokens, cached_write_tokens),
        )
        if not all(type(number) is int and number >= 0 for number in (*counted, context_size) if number is not None):
            raise UsageError("a number of tokens is a whole number, and not negative")
        if cost is not None:
            self._add_cost(cost, currency)
        self.record.usage = counted if self.record.usage is None else self.record.usage.plus(counted)
        if context_size is not None and self.record.ended_at is None:
            from acp_server.schema.updates import Cost, UsageUpdate

            total = self.session.record.cost
            told = None if total is None else Cost(amount=total[0], currency=total[1])
            self.put(UsageUpdate(used=sums, size=context_size, cost=told))

    def _add_cost(self, cost: float, currency: str) -> None:
        before, unit = self.session.record.cost or (0.0, currency)
        if unit != currency:
            raise UsageError(f"the costs of a session have one currency: there are costs in {unit!r} already")
        if not (isinstance(cast("Any", cost), int | float) and 0 <= cost < inf):
            raise UsageError("a cost is a number, and not negative")
        self.session.record.cost = before + cost, currency

    @property
    def stop_reason(self) -> OwnStopReason:
        """The stop reason of a turn that is not cancelled and does not fail (ACP, Stop Reasons); `end_turn` at first.
        Setting a value that is not an `OwnStopReason` raises UsageError."""
        return self._stop_reason

    @stop_reason.setter
    def stop_reason(self, reason: OwnStopReason) -> None:
        if reason not in get_args(OwnStopReason):
            reasons = ", ".join(get_args(OwnStopReason))
            raise UsageError(f"{reason!r} is not one of {reasons}; session.cancel(Cause.USER) ends it as cancelled")
        self._stop_reason = reason

    @property
    def meta_data(self) -> Mapping[str, str]:
        """The author's notes, stored with the turn: at most 16, keys of 1 to 64 characters, values of 1 to 512.

        The mapping is read-only: assign a new one to change it. Raises UsageError for other values.
        """
        return MappingProxyType(self.record.meta_data or {})

    @meta_data.setter
    def meta_data(self, notes: Mapping[str, str]) -> None:
        if len(notes) > _NOTES:
            raise UsageError(f"a turn has {_NOTES} pairs of meta data at most")
        for key, value in notes.items():
            if not (_fits(key, _LONGEST_KEY) and _fits(value, _LONGEST_VALUE)):
                given = f"a {type(key).__name__} with a {type(value).__name__}"
                raise UsageError(
                    f"meta data is text, keys of 1 to {_LONGEST_KEY} characters and values of 1 to {_LONGEST_VALUE}; "
                    f"this is {given}"
                )
        self.record.meta_data = dict(notes)

    # -- its subagents and tools

    def subagent(
        self, title: str, *, task: str | None = None, description: str | None = None, cwd: str | None = None
    ) -> Subagent:
        """`async with turn.subagent("Reviewer", task="Look at the diff") as child:` gives a part of the work to a child
        session (ACP, Subagents). `child` is its `Turn`. Updates, tool calls and questions there belong to the
        child, which may have children. It has the tools and settings of its parent, and no history besides.

        `title`: shown to the user. `task`: the child's prompt, `child.text`. `description`: its purpose. `cwd`: its
        working directory, the parent's by default. In a tool: `call.subagent`.

        When the client cancels the child, the block ends without an exception, like a cancel scope. Then
        `child.is_cancelled` is true, and the turn goes on. An exception of the block propagates, and the client sees
        that the child has failed. Without `Agent(unstable={"subagents"})`, and for clients without child sessions, the
        client sees a tool call with the messages of the child.

        Raises UsageError for anything but text, and InvalidParams for a `cwd` that is not absolute; the block raises
        TurnEnded and ConnectionClosed.
        """
        from acp_server.session.subagents import Subagent

        return Subagent(self, self.node, title, task, description, cwd)

    @overload
    async def call(self, tool: OfTool[AsyncGenerator[Any] | Generator[Any]], /, **arguments: Any) -> str: ...

    @overload
    async def call(self, tool: OfTool[Awaitable[R]], /, **arguments: Any) -> R: ...

    @overload
    async def call(self, tool: OfTool[R], /, **arguments: Any) -> R: ...

    @overload
    async def call(self, tool: str, /, **arguments: Any) -> Any: ...

    async def call(self, tool: Any, /, **arguments: Any) -> Any:
        """Run a tool of `Agent.tool`, given itself or by name, and return the result of its function.

        Raises ToolFailed, whose cause is the function's exception; ToolRejected if the user did not approve the call;
        ToolCancelled if this call alone was cancelled. Their `result` is the ToolResult. A prompt handler need not
        catch the last two. Several tools run in parallel if several tasks call them.
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
        had it. Unknown tools and arguments that do not fit give a failed result. The call begins once the client has
        caught up with reading. Raises UsageError, also while a call of that id runs, and TurnEnded after the turn.
        """
        if self.record.ended_at is not None:
            await self._refuse()
        # The updates of a call's begin and end are sent without waiting, so the wait for the client is here.
        if self._updates.writer.size > FLOOD:
            await self.room()
        return await self.session.tools.run(self, tool, arguments or {}, id)

    @property
    def tool_results(self) -> Sequence[ToolResult]:
        """The results of the ended tool calls, in the order of their ends. Calls that a cancel of the turn ended are
        included, so that a handler's `finally` can read them. They are stored with the turn
        (`TurnRecord.tool_results`)."""
        return tuple(self._results or ())

    def cancel_tool(self, id: str) -> bool:
        """Cancel one tool call; the turn goes on. Callable from any thread. False if no call with this id runs."""
        return self.session.tools.cancel(self, id)


class LiveTurn(Turn):
    """The runtime's side of a turn; every turn is a LiveTurn. It has the state, the end, the response to the prompt,
    and additions to the record."""

    __slots__ = ()

    tell: ClassVar[Callable[..., None]] = TurnUpdates._put
    """`put` an update in its wire form. Raises TurnEnded."""

    @property
    def speaks(self) -> Speech:
        """The path of the turn's updates to the client."""
        return self._speech

    def move(self, state: TurnState) -> bool:
        """Change the state; nothing else does. False if the table has no such move from the present state."""
        if state not in self.state.successors:
            return False
        self.state = state
        self.record.status = state.word
        if state is TurnState.CANCELED:
            self.record.stop_reason = "cancelled"
        elif state is TurnState.COMPLETED:
            self.record.stop_reason = self._stop_reason
        if not state.successors:
            if self.tool_calls:
                self.tool_calls.finish()
            if self.node.children:
                cast("LiveSession", self.session).end_children(self)
            # The turn sends nothing after this: updates after the response to the prompt confuse clients.
            self.record.ended_at = time.time()
            if self.node.cause is not None:
                self._cause_at_end = self.node.cause
            self.record.pack()
        return True

    def end(self, error: BaseException | None = None) -> None:
        """Decide how the turn ended, when its handler has ended or its prompt is answered. `error`: the exception of
        the handler. The first call counts."""
        cause = self.node.cause
        if cause is None and error is None:
            if self.move(TurnState.COMPLETED):
                if self._begun or self._entries:
                    say_unended(self._begun, self._entries)
                elif self._said is None and not self._updates.spoken and self._stop_reason == "end_turn":
                    self._updates.spoken = True
                    say_silent()
        elif cause is not None and cause.asked_for:
            self.move(TurnState.CANCELED)
        elif self.move(TurnState.FAILED):
            told = RequestCancelled() if cause is not None else refusal(error, UNEXPLAINED)
            self.record.last_error = TurnError(told.code, told.message)

    def give_up(self) -> None:
        """Answer the prompt now, without a further wait for a cancelled handler that does not end. No effect once the
        prompt is answered."""
        self._host.overdue()

    def result(self) -> dict[str, Any]:
        """The result of the prompt, for a turn that ended without failure (ACP, Prompt Turn). `_meta` has the tokens
        too, because clients read them there before the member `usage` existed."""
        answer: dict[str, Any] = {"stopReason": self.record.stop_reason}
        if (usage := self.record.usage) is not None:
            tokens = usage.to_wire()
            if self.session.tells_usage:
                answer["usage"] = tokens
            answer["_meta"] = {"usage": tokens}
        return answer

    def break_line(self) -> None:
        """End the line of the last text, because some clients show the next text in the same line."""
        if self._said and not self._said.endswith("\n") and self.record.ended_at is None:
            with suppress(SessionClosed):
                self._speech.text("agent_message_chunk", "\n")

    def insert(self, content: list[dict[str, Any]], id: str) -> bool:
        """Add a message of the user to the running turn (steering). False if it has ended or is being cancelled."""
        if self.record.ended_at is not None or self.node.cause is not None:
            return False
        for block in content:
            self.record.add({"sessionUpdate": "user_message_chunk", "messageId": id, "content": block})
        return True

    def tool_ended(self, result: ToolResult, tool_call_id: str | None = None) -> None:
        """Record the result of a tool call; the agent's tools call this. No effect once the turn has ended."""
        if self.record.ended_at is None:
            if self._results is None:
                self._results = []
            self._results.append(result)
            self.record.add_result(result, tool_call_id)

    def question_asked(self, _tool_call_id: str | None) -> None:
        """Count a question to the user, perhaps about a tool call. REQUIRES_ACTION then, except in a cancel."""
        self._questions += 1
        if self.node.cause is None:
            self.move(TurnState.REQUIRES_ACTION)

    def question_over(self, _tool_call_id: str | None) -> None:
        """Count off an answered or withdrawn question. IN_PROGRESS after the last, except during a cancel."""
        self._questions -= 1
        if not self._questions and self.node.cause is None:
            self.move(TurnState.IN_PROGRESS)


def _fits(text: object, longest: int) -> bool:
    return isinstance(text, str) and 1 <= len(text) <= longest
