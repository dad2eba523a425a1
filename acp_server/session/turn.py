"""One prompt turn (ACP, Prompt Turn): what is known of it, its tool calls, and its life. What it says is in
`acp_server.session.updates`.

What is not for authors is in `LiveTurn`, so that no help and no completion offers it to them. Every move from state to
state goes through one function; which there are says `acp_server.session.state`. Which turn runs when, and which answer
its prompt gets, is decided in `acp_server.session.prompting`.
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
"""Why a turn ends of its own accord."""


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class OfTool(Protocol[R_co]):
    """A tool whose function returns this, as type checkers see an `acp_server.Tool`."""

    @property
    def function(self) -> Callable[..., R_co]:
        """The function."""
        ...


class Turn(TurnUpdates):
    """What a prompt handler works with: the user's message, the ways to answer, `client`, and `session`, which outlives
    the turn."""

    # Without a `__dict__`, an attribute that there is not is an error, and not one of the author's that has no effect.
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
        """What is kept of it."""
        self._updates = self._speech = session.updates
        self._pause_at = time.monotonic() + PACE
        self._begun = {}
        self._entries = ()
        self._said = self._shown_steps = None
        self._cause_at_end: Cause | None = None
        """Its request can still be cancelled when it has ended."""
        self._stop_reason: OwnStopReason = "end_turn"
        self.state = TurnState.CREATED
        self.tool_calls: Any = None
        """Those that have not ended, for the agent's `ToolHost`; None before the first one."""
        self._results: list[ToolResult] | None = None
        self._questions = 0

    @property
    def id(self) -> str:
        """New for every turn."""
        return self.record.id

    @property
    def created_at(self) -> float:
        """When its prompt arrived, in seconds since the epoch."""
        return self.record.created_at

    @property
    def ended_at(self) -> float | None:
        """When it ended, in seconds since the epoch."""
        return self.record.ended_at

    @property
    def last_error(self) -> TurnError | None:
        """Why it failed, as the client was told; None if it did not."""
        return self.record.last_error

    @property
    def prompt(self) -> Sequence[ContentBlock]:
        """The user's message as content blocks (ACP, Content). What a client says again of turns right before that the
        user has cancelled is not in it; `params` has all of it."""
        if self._request is None:
            from acp_server.schema.content import PromptRequest

            self._request = PromptRequest.from_wire({**self._params, "prompt": self._blocks})
        return self._request.prompt

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of its prompt as they came, with members that the protocol does not have."""
        return self._params

    @property
    def answer(self) -> Answer:
        """What is added to the answer to its prompt, also if it is cancelled: `turn.answer.meta[...]`. On version 2 it
        is added to the state `idle`, which tells the end of a turn there."""
        return self._host.answer

    @property
    def meta(self) -> dict[str, Any]:
        """The request's `_meta`; empty if it has none or a malformed one."""
        meta = self._params.get("_meta")
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}

    @property
    def text(self) -> str:
        """The text blocks of the user's message, one below the other."""
        blocks = self._blocks
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            return blocks[0]["text"]
        return "\n".join([block["text"] for block in blocks if block["type"] == "text"])

    @property
    def client(self) -> Client:
        """The client: its files, terminals, permission."""
        return self.session.client

    @property
    def is_cancelled(self) -> bool:
        """Whether the turn is being cancelled, for any cause."""
        return self.cause is not None

    @property
    def cause(self) -> Cause | None:
        """Why it is being cancelled, or was when it ended."""
        return self.node.cause if self.record.ended_at is None else self._cause_at_end

    # -- what is known about it

    def context(self, *, cancelled: bool = False, tools: bool = False) -> list[Message]:
        """What a model should see: what was said in the turns that count (`SessionRecord.context`), and this message.
        `cancelled`: those that the user cancelled count, too, with what their cancelled tools had found.

        Each is a pair of a `role`, `user` or `assistant`, and its `content`, content blocks in their wire form.
        `tools`: with the tool calls and their results, as blocks `tool_use` and `tool_result` in the shapes of MCP
        (`acp_server.store.history`); `acp_server.integrations.messages` turns them into those of models' APIs.
        """
        turns = [turn for turn in self.session.record.context(cancelled=cancelled) if turn is not self.record]
        said = [messages_with_tools(turn.contents) if tools else turn.messages() for turn in turns]
        return [message for messages in said for message in messages] + [Message("user", self.record.prompt)]

    def keep(self, key: str, value: Any, *, version: int = 1) -> None:
        """Keep what a framework needs to go on from this turn: bytes, or anything that JSON can express. It is stored
        with the turn. If the turn fails or is cancelled, it is dropped.

        `key`: the framework's name. `version`: of what is kept; `TurnRecord.kept(key, version)` of the turns in
        `session.record.context()` gives what they kept in that version. Keeping under a key replaces what was kept
        there in this turn. Raises EncodeError, UsageError for more than `Limits.turn` bytes, and TurnEnded.
        """
        if self.record.ended_at is not None:
            raise too_late()
        self.record.keep(key, version, value)

    @property
    def usage(self) -> Usage | None:
        """The tokens that it has cost so far, as far as you have said; the client is told with the answer."""
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
        """Count what one call of a model has cost. Input and output are all tokens, with those that were thought or
        cached. `total_tokens`: if it is more than the sum.

        `context_size`: how many tokens the model's context has room for. With it the client is told at once how full
        the context is, which is the input and output of this call (ACP, Session Usage). `cost`: of this call, in
        `currency`; the client is told the sum of the session. Raises UsageError for anything but numbers from 0 on, and
        for a second currency.
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
        """Why it ends, unless it is cancelled or fails (ACP, Stop Reasons). Set it if that is not `end_turn`; raises
        UsageError for anything else than those."""
        return self._stop_reason

    @stop_reason.setter
    def stop_reason(self, reason: OwnStopReason) -> None:
        if reason not in get_args(OwnStopReason):
            reasons = ", ".join(get_args(OwnStopReason))
            raise UsageError(f"{reason!r} is not one of {reasons}; session.cancel(Cause.USER) ends it as cancelled")
        self._stop_reason = reason

    @property
    def meta_data(self) -> Mapping[str, str]:
        """Notes of yours about it, which are kept with it: at most 16, keys of 1 to 64 characters, values of 1 to 512.

        To change them set all of them. Raises UsageError for others.
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

    # -- what it has done for it

    def subagent(
        self, title: str, *, task: str | None = None, description: str | None = None, cwd: str | None = None
    ) -> Subagent:
        """`async with turn.subagent("Reviewer", task="Look at the diff") as child:` gives a part of the work to a child
        session (ACP, Subagents). `child` is its `Turn`: what is said, run and asked there belongs to the child, which
        may have children of its own. It works with the tools and settings of its parent, and keeps no other history.

        `title`: what the user is shown. `task`: what it is to do, `child.text`. `description`: what it is for. `cwd`:
        where it works, if not where its parent does. When the client cancels it, the block ends quietly, as that of a
        cancel scope does, and `child.is_cancelled` is true; the turn goes on. What the block raises goes on, too, and
        the client is told that the child has failed. A client without child sessions, as is each unless
        `Agent(unstable={"subagents"})`, is shown a tool call with what the child says. In a tool: `call.subagent`.

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
        """Run a tool, one of `Agent.tool` or its name, and wait for it: what its function returned.

        Raises ToolFailed, with what the function raised as its cause; ToolRejected, if the user did not approve it; and
        ToolCancelled, if it was cancelled alone: their `result` has the ToolResult. A prompt handler need not catch the
        last two. Several tools run in parallel if several tasks call them.
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
        """Run a tool, by its name as a rule, with the arguments that a model gave it: what to tell the model.

        The client sees it as a tool call, from `pending` to a final status, and is asked for approval if the tool needs
        it. `id`: the model's name for the call; it becomes the `toolCallId`, unless an earlier call of the session
        had it. Arguments that do not fit and unknown tools are failures like any other. It begins once the client has
        caught up with reading. Raises UsageError, also while a call of that id runs, and TurnEnded after the turn.
        """
        if self.record.ended_at is not None:
            await self._refuse()
        # What is shown of a call when it begins and when it ends is said without waiting.
        if self._updates.writer.size > FLOOD:
            await self.room()
        return await self.session.tools.run(self, tool, arguments or {}, id)

    @property
    def tool_results(self) -> Sequence[ToolResult]:
        """What came of the tool calls that have ended, in that order, also of those that ended because the turn was
        cancelled: for the `finally` of a handler that never got them. They are kept with the turn
        (`TurnRecord.tool_results`)."""
        return tuple(self._results or ())

    def cancel_tool(self, id: str) -> bool:
        """Cancel one tool call of this turn, which goes on, from any thread. False if none of that id is running."""
        return self.session.tools.cancel(self, id)


class LiveTurn(Turn):
    """A turn as the runtime has it, as each turn is: its state, its end and its answer, and what becomes part of it."""

    __slots__ = ()

    tell: ClassVar[Callable[..., None]] = TurnUpdates._put
    """`put` an update in its wire form. Raises TurnEnded."""

    @property
    def speaks(self) -> Speech:
        """Its way to the client."""
        return self._speech

    def move(self, state: TurnState) -> bool:
        """The one way to change the state. False if the turn cannot go there (any more)."""
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
            # From here on nothing is said: what comes behind the prompt's answer confuses clients.
            self.record.ended_at = time.time()
            if self.node.cause is not None:
                self._cause_at_end = self.node.cause
            self.record.pack()
        return True

    def end(self, error: BaseException | None = None) -> None:
        """It is over, or its answer is out: decide how it ended. `error` is what the handler raised. The first time
        counts."""
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
        """Answer its prompt now, without waiting any longer for a handler that was cancelled and does not end. No
        effect once that has happened."""
        self._host.overdue()

    def result(self) -> dict[str, Any]:
        """The result of its prompt, if it has ended and did not fail (ACP, Prompt Turn). Its tokens are in `_meta`,
        where clients looked before they had a place of their own."""
        answer: dict[str, Any] = {"stopReason": self.record.stop_reason}
        if (usage := self.record.usage) is not None:
            tokens = usage.to_wire()
            if self.session.tells_usage:
                answer["usage"] = tokens
            answer["_meta"] = {"usage": tokens}
        return answer

    def break_line(self) -> None:
        """End the line of what was said last: some clients show what comes next in the same one."""
        if self._said and not self._said.endswith("\n") and self.record.ended_at is None:
            with suppress(SessionClosed):
                self._speech.text("agent_message_chunk", "\n")

    def insert(self, content: list[dict[str, Any]], id: str) -> bool:
        """One more message of the user's is part of it from now on. False if it has ended, or is being cancelled."""
        if self.record.ended_at is not None or self.node.cause is not None:
            return False
        for block in content:
            self.record.add({"sessionUpdate": "user_message_chunk", "messageId": id, "content": block})
        return True

    def tool_ended(self, result: ToolResult, tool_call_id: str | None = None) -> None:
        """What carries out tool calls says that this came of one of them. No effect once the turn has ended."""
        if self.record.ended_at is None:
            if self._results is None:
                self._results = []
            self._results.append(result)
            self.record.add_result(result, tool_call_id)

    def question_asked(self, _tool_call_id: str | None) -> None:
        """The user is asked something on its behalf, perhaps about a tool call."""
        self._questions += 1
        if self.node.cause is None:
            self.move(TurnState.REQUIRES_ACTION)

    def question_over(self, _tool_call_id: str | None) -> None:
        """A question was answered, or withdrawn."""
        self._questions -= 1
        if not self._questions and self.node.cause is None:
            self.move(TurnState.IN_PROGRESS)


def _fits(text: object, longest: int) -> bool:
    return isinstance(text, str) and 1 <= len(text) <= longest
