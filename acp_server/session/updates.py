"""The `session/update` notifications of a session, in order (ACP, Prompt Turn).

`TurnUpdates` sends the updates of one turn until it has ended (text, plans, notices, compactions and others), and adds
them to the turn's record. `Updates` writes an update; except for `open` and `close` it does not decide which may be
sent. Text chunks are frequent, so they are written after a prefix that is encoded once. That is twenty times cheaper
than building and dumping a model for each.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Protocol, TypeAlias, cast

import anyio.lowlevel

from acp_server.errors import SessionClosed, TurnEnded, UsageError
from acp_server.peer.peer import Peer
from acp_server.peer.writer import HIGH_WATER
from acp_server.session.plan import Priority, Step, Steps
from acp_server.session.sayable import chunk_of, text_of, wire_of
from acp_server.session.unended import ENDED, MOST, say_unbegun
from acp_server.store.records import TurnRecord
from acp_server.tasks.blocks import Block
from acp_server.tasks.tree import Node
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.schema.updates import PlanEntry, SessionUpdate
    from acp_server.session.negotiation import ClientProfile

ChunkKind: TypeAlias = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]

_NEEDS: Final = {"notice": "notices", "compaction_update": "compaction", "compaction_summary_chunk": "compaction"} | (
    dict.fromkeys(("subagent_update", "session_message", "session_message_chunk"), "subagents")
)
"""Kinds of update that only some clients understand, with the capability that a client announces for each, in
`clientCapabilities.session` or in `clientCapabilities`."""


FLOOD: Final = 2 * HIGH_WATER
"""Bytes in the buffer to the client above which handlers wait before they send more."""


class Speech(Protocol):
    """The path of one turn's updates to the client. `Updates` implements it."""

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `Updates.text`."""
        ...

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """See `Updates.send`."""
        ...


class Updates:
    """The path of one session's updates to its client.

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
        self.writer: Final = connection.writer
        """The writer of the connection, which buffers the bytes of all its messages."""
        self._session_id = session_id
        self._opening: Final = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
            % codec.encode_fragment(session_id)
        )
        self._prefixes: dict[ChunkKind, bytes] = {}
        self._held: list[bytes] = []
        self._put: Callable[[bytes], object] = self._held.append
        self.calls: set[str] | None = set()
        """The ids of the tool calls that were shown, at most `MOST`. None if the session may have others, from stored
        turns."""
        self.spoken = False
        """Whether an update of the session was sent during a turn, or a silent turn was logged already."""

    def open(self) -> None:
        """Send the held updates, and later ones without holding them."""
        for frame in self._held:
            self.writer.put(frame)
        self._held.clear()
        self._put = self.writer.put

    def close(self) -> None:
        """Drop held updates. Sending raises SessionClosed after this."""
        self._held.clear()
        self._put = self._refuse

    def child(self, session_id: str) -> Updates:
        """The open path of a child session, for its replay."""
        child = Updates(self._connection, self._profile, session_id)
        child.open()
        return child

    def replay(self) -> Updates:
        """A path past the held updates: a replay reaches the client before the response to `session/load`."""
        return self.child(self._session_id)

    def of(self, turn: TurnRecord) -> Speech:
        """The path of the updates of one turn."""
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
        """Send the state of the session, in version 2. No effect in version 1, which has states of child sessions
        alone; their parents send those."""

    @property
    def crowded(self) -> bool:
        """Whether the buffer is above the high-water mark, so that a handler that sends much should wait for `room`."""
        return self.writer.size > HIGH_WATER

    @property
    def flooded(self) -> bool:
        """Whether the buffer is above `FLOOD`, so that a handler must wait for `room` before it sends more. The wait is
        before the update, so that a cancelled handler can send a last one, but no flood of them."""
        return self.writer.size > FLOOD

    async def room(self) -> None:
        """Wait until the client has read enough of the buffer. Raises ConnectionClosed."""
        await self._connection.send_room()

    def _refuse(self, _frame: bytes) -> None:
        raise SessionClosed(f"session {self._session_id} is closed")

    def _prefix(self, kind: ChunkKind) -> bytes:
        return b'%b{"sessionUpdate":"%b","content":{"type":"text","text":' % (self._opening, kind.encode())


def beside(meta: dict[str, Any]) -> bytes:
    """The JSON of a notification's `_meta`, to be written after the update."""
    return b',"_meta":%b' % codec.encode(meta)[:-1]


PACE: Final = 0.02
"""Seconds for which a handler may send updates before other tasks get a chance to run."""


class TurnUpdates:
    """The part of a turn that sends its updates."""

    __slots__ = ("_begun", "_entries", "_pause_at", "_said", "_shown_steps", "_speech", "_updates", "node", "record")

    # `Turn` sets these, so that a turn without updates calls nothing of this class.
    node: Node
    record: TurnRecord
    _updates: Updates
    _speech: Speech
    _pause_at: float
    _begun: dict[str, None]
    """The ids of the tool calls that were shown and have not ended."""
    _shown_steps: Steps | None
    _entries: Sequence[dict[str, Any]]
    """The entries of the last plan."""
    _said: str | None
    """The last text chunk; "" after another update, None before the first update."""

    async def say(self, text: str) -> None:
        """Send a chunk of the agent's message (ACP, Prompt Turn). Waits while the client reads too slowly.

        Raises TurnEnded once the prompt is answered, and ConnectionClosed.
        """
        await self._chunk("agent_message_chunk", text)

    async def think(self, text: str) -> None:
        """Send a chunk of the agent's reasoning; otherwise like `say`."""
        await self._chunk("agent_thought_chunk", text)

    async def plan(self, entries: Sequence[PlanEntry | str]) -> None:
        """Show the whole plan; it replaces the plan before (ACP, Agent Plan). A string is a step that has not begun.
        `step` works on one step."""
        await self._steps.show(entries)

    def step(self, content: str, *, priority: Priority | None = None) -> Step:
        """`async with turn.step("Read the git log"):` shows the step as in progress within the block (ACP, Agent Plan).
        It is the step of the plan with this text, or a new step. It is completed when the block ends. If the block
        raises, the text of the step gets a note that it was refused (`ToolRejected`), cancelled, or has failed."""
        return Step(self._steps, content, priority)

    @property
    def _steps(self) -> Steps:
        if self._shown_steps is None:
            self._shown_steps = Steps(self)
        return self._shown_steps

    async def notice(self, title: str, *, severity: str = "info", description: str | None = None) -> None:
        """Show the user a plain text that is not part of the conversation. `severity`: `info`, `warning` or `error`.
        Clients need not show notices, and many clients of version 1 cannot. Otherwise like `say`."""
        from acp_server.schema.updates import Notice

        await self.update(Notice(severity=severity, title=title, description=description))

    def compaction(self) -> Compaction:
        """`async with turn.compaction() as compaction:` around the work that shortens the context of the agent."""
        return Compaction(self)

    async def show(self, piece: Any) -> None:
        """Show text, a content block or a session update, as if a prompt handler yielded it. Otherwise like `say`.

        Raises UsageError for anything else.
        """
        if isinstance(piece, str):
            await self._chunk("agent_message_chunk", piece)
            return
        from acp_server.schema.base import Record
        from acp_server.schema.content import TextContent

        if not isinstance(piece, Record):
            shown = "an async iterator" if isinstance(piece, AsyncIterable) else type(piece).__name__
            raise UsageError(f"a turn cannot show {shown}; expected text, content or a session update")
        if "session_update" in type(piece).model_fields:
            await self.update(cast("Any", piece))
        elif isinstance(piece, TextContent) and not (piece.annotations or piece.meta or piece.model_extra):
            await self.say(piece.text)
        else:
            await self.update(chunk_of(piece))

    async def update(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """Send any session update of `acp_server.schema`; otherwise like `say`.

        An update that only some clients understand (a notice, a compaction) is not sent to other clients. `meta`: the
        `_meta` of the notification, which some clients read; `update.meta` is the `_meta` of the update.
        """
        if self.record.ended_at is not None or self._updates.flooded:
            await self._hold_back()
        self.put(update, meta=meta)
        now = time.monotonic()
        if now > self._pause_at or self._updates.crowded:
            await self._pause(now)

    def put(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """`update` without waiting, for callbacks. Many of these fill the memory while the client reads too slowly.

        Raises TurnEnded.
        """
        if self.record.ended_at is not None:
            raise too_late()
        self._put(update.to_wire() if hasattr(update, "session_update") else wire_of(update), meta)

    def _put(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> None:
        """`put` an update in its wire form."""
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
        json = self._speech.send(update, meta)
        (self.record.transcript or self.record.begin()).add(update, json)

    async def _chunk(self, kind: ChunkKind, text: str) -> None:
        record, writer = self.record, self._updates.writer
        if record.ended_at is not None or writer.size > FLOOD:
            await self._hold_back()
        if not text or text.__class__ is not str:
            text_of(text)
        if not text:
            # An empty text is not sent, but a handler that loops over empty texts must not starve other tasks.
            await anyio.lowlevel.checkpoint()
            return
        fragment = self._speech.text(kind, text)
        (record.transcript or record.begin()).text(kind, fragment)
        self._said = text
        now = time.monotonic()
        if now > self._pause_at or writer.size > HIGH_WATER:
            await self._pause(now)

    async def _pause(self, now: float) -> None:
        # Without a checkpoint here, a handler that never waits would block the writer and the reader of cancels.
        self._pause_at = now + PACE
        if self._updates.crowded:
            await self._updates.room()
        else:
            await anyio.lowlevel.checkpoint()

    async def room(self) -> None:
        """Wait while the buffer is above `FLOOD`, before the beginning of anything that sends updates. Raises TurnEnded
        and ConnectionClosed."""
        # Of several waiting tasks the first may fill the buffer again.
        while self._updates.writer.size > FLOOD:
            await self._hold_back()

    async def _hold_back(self) -> None:
        """Wait until the client has caught up. Raises TurnEnded if the turn has ended, before or during the wait."""
        if self.record.ended_at is None:
            await self._updates.room()
        if self.record.ended_at is not None:
            await self._refuse()

    async def _refuse(self) -> NoReturn:
        # A checkpoint, because the handler may catch this exception in a loop and starve other tasks.
        await anyio.lowlevel.cancel_shielded_checkpoint()
        raise too_late()


class Compaction(Block):
    """One compaction of the context in a turn. Its status is `in_progress` in the `async with` block. At the end of the
    block it is `completed`, or, if the block raises, `cancelled` during a cancel of the turn and `failed` otherwise."""

    def __init__(self, turn: TurnUpdates) -> None:
        self._turn = turn
        self.id: Final = f"compaction_{os.urandom(12).hex()}"
        """The id of the compaction, new for each."""

    async def summarize(self, text: str) -> None:
        """Send a chunk of the summary that replaces the shortened context. Raises TurnEnded and ConnectionClosed."""
        from acp_server.schema.content import TextContent
        from acp_server.schema.updates import CompactionSummaryChunk

        await self._turn.update(CompactionSummaryChunk(compaction_id=self.id, content=TextContent(text=text)))

    def written(self) -> str:
        """See `Block`."""
        return "async with turn.compaction() as compaction"

    async def __aenter__(self) -> Compaction:
        self.entered = True
        self._tell("in_progress")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A turn that ended before the block sends no more updates.
        with suppress(TurnEnded, SessionClosed):
            self._tell("completed" if error is None else "cancelled" if self._turn.node.cause is not None else "failed")

    def _tell(self, status: Literal["in_progress", "completed", "cancelled", "failed"]) -> None:
        from acp_server.schema.updates import CompactionUpdate

        self._turn.put(CompactionUpdate(compaction_id=self.id, status=status))


def too_late() -> TurnEnded:
    """The exception for updates after the end of a turn."""
    return TurnEnded("the turn is already answered; what is said now would reach the client too late")
