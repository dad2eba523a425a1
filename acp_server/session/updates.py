"""Sends the `session/update` notifications of a session, in order (ACP, Prompt Turn).

`LiveTurn` has the state of one turn, and sends its updates until it has ended. `Updates` writes an update; except for
`open` and `close` it does not decide which updates may be sent. Text chunks are frequent, so they are written after a
prefix that is encoded once. That is twenty times cheaper than building and dumping a model for each.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Protocol, TypeAlias, cast

import anyio.lowlevel

from acp_server.errors import RequestCancelled, SessionClosed, TurnEnded, UsageError
from acp_server.peer.observer import Span
from acp_server.peer.outcome import refusal
from acp_server.peer.peer import Peer
from acp_server.peer.writer import HIGH_WATER
from acp_server.session.plan import Steps
from acp_server.session.sayable import chunk_of, text_of, wire_of
from acp_server.session.state import UNEXPLAINED, TurnState
from acp_server.session.turn import Turn
from acp_server.session.unended import ENDED, MOST, say_silent, say_unbegun, say_unended
from acp_server.store.records import TurnError, TurnRecord, UnkeptTurn
from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import Node
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.peer.answer import Answer
    from acp_server.schema.content import PromptRequest
    from acp_server.schema.updates import SessionUpdate
    from acp_server.session.definition import TurnHost
    from acp_server.session.live_session import LiveSession
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.turn import OwnStopReason
    from acp_server.store.records import ToolResult

ChunkKind: TypeAlias = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]

_NEEDS: Final = {"notice": "notices", "compaction_update": "compaction", "compaction_summary_chunk": "compaction"} | (
    dict.fromkeys(("subagent_update", "session_message", "session_message_chunk"), "subagents")
)
"""Kinds of update that only some clients understand. Each has the capability that a client announces for it, in
`clientCapabilities.session` or in `clientCapabilities`."""


FLOOD: Final = 2 * HIGH_WATER
"""The number of bytes in the buffer to the client above which handlers wait before they send more."""


class Speech(Protocol):
    """Sends one turn's updates to the client. `Updates` implements it."""

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `Updates.text`."""
        ...

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """See `Updates.send`."""
        ...


class Updates:
    """Sends one session's updates to its client.

    Updates before `open` are held, because a client must know a session before it gets updates of it. After `close`,
    sending raises SessionClosed.
    """

    __slots__ = (
        *("_connection", "_held", "_opening", "_prefixes", "_profile", "_put", "_session_id"),
        *("calls", "spoken", "writer"),
    )

    def __init__(self, connection: Peer, profile: ClientProfile, session_id: str) -> None:
        self._connection = connection
        self._profile = profile
        self.writer: Final = connection.writer.lane(session_id)
        """The writer of the connection, which buffers the bytes of all its messages, or the session's lane."""
        self._session_id = session_id
        self._opening: Final = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
            % codec.encode_fragment(session_id)
        )
        self._prefixes: dict[ChunkKind, bytes] = {}
        self._held: list[bytes] = []
        self._put: Callable[[bytes], object] = self._held.append
        self.calls: set[str] | None = set()
        """The ids of the tool calls that were shown, at most `MOST`. None if the session may have other tool calls,
        from stored turns."""
        self.spoken = False
        """Whether an update of the session was sent during a turn, or a silent turn was logged already."""

    def open(self) -> None:
        """Send the held updates. Later updates are no longer held."""
        for frame in self._held:
            self.writer.put(frame)
        self._held.clear()
        self._put = self.writer.put

    def close(self) -> None:
        """Drop held updates. Sending raises SessionClosed after this."""
        self._held.clear()
        self._put = self._refuse

    def child(self, session_id: str) -> Updates:
        """Return the open `Updates` of a child session, for its replay."""
        child = Updates(self._connection, self._profile, session_id)
        child.open()
        return child

    def replay(self) -> Updates:
        """Return an `Updates` that holds nothing, because a replay comes before the response to `session/load`."""
        return self.child(self._session_id)

    def of(self, turn: TurnRecord) -> Speech:
        """Return the `Speech` for the updates of one turn."""
        return self

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """Send a text chunk without waiting. Returns the text in JSON."""
        prefix = self._prefixes.get(kind)
        if prefix is None:
            prefix = self._prefixes[kind] = self._prefix(kind)
        fragment = codec.encode_fragment(text)
        self._put(b"%b%b}}}}\n" % (prefix, fragment))
        return fragment

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """Send any update, in its wire form, without waiting. Returns its JSON. An update that this client does not
        understand is not sent. `meta`: the `_meta` of the notification, beside the update."""
        json = codec.encode(update)[:-1]
        need = _NEEDS.get(update.get("sessionUpdate", ""))
        if need is None or self._has(need):
            self._put(b"%b%b%b}}\n" % (self._opening, json, b"" if meta is None else beside(meta)))
        return json

    def _has(self, need: str) -> bool:
        announced = self._profile.capabilities
        return any(getattr(part, need, None) is not None for part in (announced.session, announced))

    def state(self, state: str, **more: Any) -> None:
        """Send the state of the session, in version 2. In version 1 this has no effect, because only child sessions
        have states there, and their parents send those."""

    @property
    def crowded(self) -> bool:
        """Whether the buffer is above the high-water mark, so that a handler that sends much should wait for `room`."""
        return self.writer.size > HIGH_WATER

    @property
    def flooded(self) -> bool:
        """Whether the buffer is above `FLOOD`, so that a handler must wait for `room` before it sends more. The wait
        comes before the update, so that a cancelled handler can send a last update, but not many."""
        return self.writer.size > FLOOD

    async def room(self) -> None:
        """Wait until the client has read enough of the buffer. Raises ConnectionClosed."""
        await self.writer.room()

    def _refuse(self, _frame: bytes) -> None:
        raise SessionClosed(f"session {self._session_id} is closed")

    def _prefix(self, kind: ChunkKind) -> bytes:
        return b'%b{"sessionUpdate":"%b","content":{"type":"text","text":' % (self._opening, kind.encode())


def beside(meta: dict[str, Any]) -> bytes:
    """Return the JSON of a notification's `_meta`, to be written after the update."""
    return b',"_meta":%b' % codec.encode(meta)[:-1]


PACE: Final = 0.02
"""Seconds for which a handler may send updates before other tasks get a chance to run."""


class LiveTurn:
    """The runtime's side of a turn, with its state and its end. It sends the updates of the turn until it has ended,
    and adds them to the record. Authors get its `Turn`.

    Only `move` changes the state. `acp_server.session.state` has the table of states.
    """

    __slots__ = (
        *("_begun", "_cause_at_end", "_entries", "_host", "_pause_at", "_questions", "_said", "_steps", "_updates"),
        *(
            "blocks",
            "face",
            "node",
            "on_end",
            "on_move",
            "params",
            "record",
            "request",
            "results",
            "session",
            "span",
            "speech",
        ),
        *("state", "stop_reason", "tool_calls"),
    )

    def __init__(
        self, session: LiveSession, host: TurnHost, request: PromptRequest | None, blocks: list[dict[str, Any]]
    ) -> None:
        self.session = session
        self._host = host
        params: Any = host.request.params
        self.params: dict[str, Any] = params
        """The parameters of the prompt as received."""
        self.blocks = blocks
        """The prompt in its wire form, without the messages that its client repeats."""
        self.request: PromptRequest | None = request if len(blocks) == len(params["prompt"]) else None
        """The parameters with `blocks` as the prompt; None until `Turn.prompt` reads them."""
        self.node: Node = host.node
        kind = TurnRecord if session.keeps_history else UnkeptTurn
        self.record: TurnRecord = kind(blocks, most=host.connection.limits.turn, room=host.connection.turns)
        """The stored part of the turn."""
        self.state: TurnState = TurnState.CREATED
        self.stop_reason: OwnStopReason = "end_turn"
        """The stop reason of a turn that is not cancelled and does not fail."""
        self.on_move: tuple[Callable[[TurnState], None], ...] = ()
        """Called with each new state."""
        self.on_end: Callable[[], None] | None = None
        """Called when the turn has ended, with its error in the record."""
        self._cause_at_end: Cause | None = None
        """The cause when the turn ended. A later cancel of its request does not change it."""
        self.tool_calls: Any = None
        """The running tool calls, kept by the agent's `ToolHost`; None before the first call."""
        self.results: list[ToolResult] | None = None
        """The results of the ended tool calls; None before the first."""
        self.span: Span | None = None
        """The turn for observers; None without observers, and before the turn begins."""
        self._questions = 0
        self._updates: Updates = session.updates
        self.speech: Speech = session.updates
        """The `Speech` that sends the turn's updates to the client."""
        self._pause_at = time.monotonic() + PACE
        self._begun: dict[str, None] = {}
        """The ids of the tool calls that were shown and have not ended."""
        self._steps: Steps | None = None
        self._entries: Sequence[dict[str, Any]] = ()
        """The entries of the last plan."""
        self._said: str | None = None
        """The last text chunk; "" after another update, None before the first update."""
        self.face: Turn = Turn(self)
        """The turn that authors get. `LiveSession.leave` deletes it, since the two refer to each other."""

    @property
    def id(self) -> str:
        """See `Turn.id`."""
        return self.record.id

    @property
    def is_cancelled(self) -> bool:
        """See `Turn.is_cancelled`."""
        return self.cause is not None

    @property
    def cause(self) -> Cause | None:
        """See `Turn.cause`."""
        return self.node.cause if self.record.ended_at is None else self._cause_at_end

    # -- its updates

    async def show(self, piece: Any) -> None:
        """See `Turn.show`."""
        if isinstance(piece, str):
            await self.chunk("agent_message_chunk", piece)
            return
        from acp_server.schema.base import Record
        from acp_server.schema.content import TextContent

        if not isinstance(piece, Record):
            shown = "an async iterator" if isinstance(piece, AsyncIterable) else type(piece).__name__
            raise UsageError(f"a turn cannot show {shown}; expected text, content or a session update")
        if "session_update" in type(piece).model_fields:
            await self.update(cast("Any", piece))
        elif isinstance(piece, TextContent) and not (piece.annotations or piece.meta or piece.model_extra):
            await self.chunk("agent_message_chunk", piece.text)
        else:
            await self.update(chunk_of(piece))

    async def update(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """See `Turn.update`."""
        if self.record.ended_at is not None or self._updates.flooded:
            await self._hold_back()
        self.put(update, meta=meta)
        now = time.monotonic()
        if now > self._pause_at or self._updates.crowded:
            await self._pause(now)

    def put(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """See `Turn.put`."""
        if self.record.ended_at is not None:
            raise too_late()
        self.tell(update.to_wire() if hasattr(update, "session_update") else wire_of(update), meta)

    def tell(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> None:
        """Send an update in its wire form, like `put`. Raises TurnEnded."""
        if self.record.ended_at is not None:
            raise too_late()
        self._said = ""
        # Inline, because a function here would cost each update a call.
        if (id := update.get("toolCallId")) is not None:
            if (calls := self._updates.calls) is not None and id not in calls and len(calls) < MOST:
                calls.add(id)
                if update["sessionUpdate"] == "tool_call_update":
                    say_unbegun(id)
            if update.get("status") in ENDED:
                self._begun.pop(id, None)
            elif ("status" in update or "title" in update) and len(self._begun) < MOST:
                self._begun[id] = None
        elif update["sessionUpdate"] == "plan":
            self._entries = update["entries"]
        json = self.speech.send(update, meta)
        (self.record.transcript or self.record.begin()).add(update, json)

    async def chunk(self, kind: ChunkKind, text: str) -> None:
        """Send a chunk of text, see `Turn.say`."""
        record, writer = self.record, self._updates.writer
        if record.ended_at is not None or writer.size > FLOOD:
            await self._hold_back()
        if not text or text.__class__ is not str:
            text_of(text)
        if not text:
            # An empty text is not sent, but a handler that loops over empty texts must not starve other tasks.
            await anyio.lowlevel.checkpoint()
            return
        fragment = self.speech.text(kind, text)
        (record.transcript or record.begin()).text(kind, fragment)
        self._said = text
        now = time.monotonic()
        if now > self._pause_at or writer.size > HIGH_WATER:
            await self._pause(now)

    @property
    def steps(self) -> Steps:
        """Return the steps of the turn's plan."""
        if self._steps is None:
            self._steps = Steps(self)
        return self._steps

    async def _pause(self, now: float) -> None:
        # Without a checkpoint here, a handler that never waits would block the writer and the reader of cancels.
        self._pause_at = now + PACE
        if self._updates.crowded:
            await self._updates.room()
        else:
            await anyio.lowlevel.checkpoint()

    async def room(self) -> None:
        """Wait while the buffer is above `FLOOD`, before anything begins that sends updates. Raises TurnEnded and
        ConnectionClosed."""
        # Of several waiting tasks the first may fill the buffer again.
        while self._updates.writer.size > FLOOD:
            await self._hold_back()

    async def _hold_back(self) -> None:
        """Wait until the client has caught up. Raises TurnEnded if the turn has ended, before or during the wait."""
        if self.record.ended_at is None:
            await self._updates.room()
        if self.record.ended_at is not None:
            await self.refuse()

    async def refuse(self) -> NoReturn:
        """Raise TurnEnded."""
        # A checkpoint, because the handler may catch this exception in a loop and starve other tasks.
        await anyio.lowlevel.cancel_shielded_checkpoint()
        raise too_late()

    # -- its state

    @property
    def answer(self) -> Answer:
        """See `Turn.answer`."""
        return self._host.answer

    def keep(self, key: str, value: Any, version: int) -> None:
        """See `Turn.keep`."""
        if self.record.ended_at is not None:
            raise too_late()
        self.record.keep(key, version, value)

    def begin(self) -> None:
        """The handler runs next."""
        self.move(TurnState.IN_PROGRESS)
        if (observers := self._host.connection.observers) is not None:
            name = "prompt" if self.session.parent is None else "subagent"
            span = Span("turn", name, self.id, session_id=self.session.id, parent=self._host.span)
            self.span = observers.begin(span)

    def move(self, state: TurnState) -> bool:
        """Change the state. Only this method changes it. False if the table has no such move from the present one."""
        if state not in self.state.successors:
            return False
        self.state = state
        self.record.status = state.word
        if state is TurnState.CANCELED:
            self.record.stop_reason = "cancelled"
        elif state is TurnState.COMPLETED:
            self.record.stop_reason = self.stop_reason
        if not state.successors:
            if self.tool_calls:
                self.tool_calls.finish()
            if self.node.children:
                self.session.end_children(self)
            # The turn sends nothing after this: updates after the response to the prompt confuse clients.
            self.record.ended_at = time.time()
            if self.node.cause is not None:
                self._cause_at_end = self.node.cause
            self.record.pack()
        for told in self.on_move:
            told(state)
        return True

    def end(self, error: BaseException | None = None) -> None:
        """Decide how the turn ended, when its handler has ended or its prompt is answered. `error`: the exception of
        the handler. Only the first call has an effect."""
        if self.record.ended_at is not None:
            return
        cause = self.node.cause
        if cause is None and error is None:
            if self.move(TurnState.COMPLETED):
                if self._begun or self._entries:
                    say_unended(self._begun, self._entries)
                elif self._said is None and not self._updates.spoken and self.stop_reason == "end_turn":
                    self._updates.spoken = True
                    say_silent()
        elif cause is not None and cause.asked_for:
            self.move(TurnState.CANCELED)
        elif self.move(TurnState.FAILED):
            told = RequestCancelled() if cause is not None else refusal(error, UNEXPLAINED)
            self.record.last_error = TurnError(told.code, told.message)
        if self.on_end is not None:
            self.on_end()
        if self.span is not None and (observers := self._host.connection.observers) is not None:
            observers.end(self.span, cause, error)

    def give_up(self) -> None:
        """Send the end of the turn to the client now, without a further wait for a cancelled handler that does not
        end. In version 1 the end is the response to the prompt. It is sent only once."""
        self._host.overdue()

    def result(self) -> dict[str, Any]:
        """Return the result of the prompt, for a turn that ended without failure (ACP, Prompt Turn). `_meta` has the
        tokens too, because clients read them there before the member `usage` existed."""
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
                self.speech.text("agent_message_chunk", "\n")

    def insert(self, content: list[dict[str, Any]], id: str) -> bool:
        """Add a message of the user to the running turn (steering). False if that has ended or is being cancelled."""
        if self.record.ended_at is not None or self.node.cause is not None:
            return False
        for block in content:
            self.record.add({"sessionUpdate": "user_message_chunk", "messageId": id, "content": block})
        return True

    def tool_ended(self, result: ToolResult, tool_call_id: str | None = None) -> None:
        """Record the result of a tool call. The agent's tools call this. It has no effect once the turn has ended."""
        if self.record.ended_at is None:
            if self.results is None:
                self.results = []
            self.results.append(result)
            self.record.add_result(result, tool_call_id)

    def question_asked(self, _tool_call_id: str | None) -> None:
        """Count a question to the user, which may be about a tool call. The state then is REQUIRES_ACTION, except in a
        cancel."""
        self._questions += 1
        if self.node.cause is None:
            self.move(TurnState.REQUIRES_ACTION)

    def question_over(self, _tool_call_id: str | None) -> None:
        """Record that a question was answered or withdrawn. After the last one the state is IN_PROGRESS, except in a
        cancel."""
        self._questions -= 1
        if not self._questions and self.node.cause is None:
            self.move(TurnState.IN_PROGRESS)


def too_late() -> TurnEnded:
    """Return the exception for updates after the end of a turn."""
    return TurnEnded("the turn has its response already, so an update would reach the client too late")
