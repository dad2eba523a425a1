"""What is said in a session, in the order in which it is said: the `session/update` notifications (ACP, Prompt Turn).

`TurnUpdates` is what one turn says, until it has ended: text, plans, notices, compactions and all other updates. It is
kept in the turn's record as well. `Updates` writes an update, and decides nothing about what may be said when. Text
chunks, of which there are many, are written around a prefix that is encoded once; that is twenty times cheaper than
building and dumping a model for each.
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
"""Kinds of update that only some clients understand, and what those announce under `clientCapabilities.session`, or
beside it."""


FLOOD: Final = 2 * HIGH_WATER
"""Bytes on their way to the client above which handlers wait before they add to them."""


class Speech(Protocol):
    """What is said in one turn, on its way to the client: see `Updates`, which has it."""

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `Updates.text`."""
        ...

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """See `Updates.send`."""
        ...


class Updates:
    """The way from one session to its client.

    Until `open` is called, what is said is kept back: a client must know a session before it hears of it. From `close`
    on it hears no more; saying something raises SessionClosed.
    """

    __slots__ = (
        *("_connection", "_held", "_opening", "_prefixes", "_profile", "_put", "_session_id"),
        *("calls", "spoken", "writer"),
    )

    def __init__(self, connection: Peer, profile: ClientProfile, session_id: str) -> None:
        self._connection = connection
        self._profile = profile
        self.writer: Final = connection.writer
        """What queues the bytes of all that is said on the connection."""
        self._session_id = session_id
        self._opening: Final = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
            % codec.encode_fragment(session_id)
        )
        self._prefixes: dict[ChunkKind, bytes] = {}
        self._held: list[bytes] = []
        self._put: Callable[[bytes], object] = self._held.append
        self.calls: set[str] | None = set()
        """The tool calls that were begun, up to `MOST`; None where there may be more of them than were said here."""
        self.spoken = False
        """Whether a turn has told something of the session itself, or the log that one has shown nothing."""

    def open(self) -> None:
        """Let out what was kept back, and everything from now on."""
        for frame in self._held:
            self.writer.put(frame)
        self._held.clear()
        self._put = self.writer.put

    def close(self) -> None:
        """Let out nothing any more."""
        self._held.clear()
        self._put = self._refuse

    def child(self, session_id: str) -> Updates:
        """The same for a child session that is said again."""
        child = Updates(self._connection, self._profile, session_id)
        child.open()
        return child

    def replay(self) -> Updates:
        """A way around what is kept back: what is said again for a load reaches the client before the answer."""
        return self.child(self._session_id)

    def of(self, turn: TurnRecord) -> Speech:
        """The way for what is said in one turn."""
        return self

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """Say a piece of text: its JSON. Never waits."""
        prefix = self._prefixes.get(kind)
        if prefix is None:
            prefix = self._prefixes[kind] = self._prefix(kind)
        fragment = codec.encode_fragment(text)
        self._put(b"%b%b}}}}\n" % (prefix, fragment))
        return fragment

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """Say any update, in its wire form: its JSON. Never waits. An update that this client does not understand is
        left out. `meta`: the `_meta` of the notification, beside the update."""
        json = codec.encode(update)[:-1]
        need = _NEEDS.get(update.get("sessionUpdate", ""))
        if need is None or self._has(need):
            self._put(b"%b%b%b}}\n" % (self._opening, json, b"" if meta is None else beside(meta)))
        return json

    def _has(self, need: str) -> bool:
        announced = self._profile.capabilities
        return any(getattr(part, need, None) is not None for part in (announced.session, announced))

    def state(self, state: str, **more: Any) -> None:
        """What the session does at present, which version 2 tells. On version 1 that is told of children alone, by
        their parents."""

    @property
    def crowded(self) -> bool:
        """Whether the client is behind with reading, so that a handler that says much should wait for `room`."""
        return self.writer.size > HIGH_WATER

    @property
    def flooded(self) -> bool:
        """Whether so much is on its way that a handler must wait for `room` before it says more. A handler that was
        cancelled does not wait behind what it says: it may have last words. But it may not go on."""
        return self.writer.size > FLOOD

    async def room(self) -> None:
        """Wait until the client has caught up. Raises ConnectionClosed."""
        await self._connection.send_room()

    def _refuse(self, _frame: bytes) -> None:
        raise SessionClosed(f"session {self._session_id} is closed")

    def _prefix(self, kind: ChunkKind) -> bytes:
        return b'%b{"sessionUpdate":"%b","content":{"type":"text","text":' % (self._opening, kind.encode())


def beside(meta: dict[str, Any]) -> bytes:
    """The `_meta` of a notification, as it stands behind its update."""
    return b',"_meta":%b' % codec.encode(meta)[:-1]


PACE: Final = 0.02
"""Seconds for which a handler may talk before the rest of the program gets a chance to run."""


class TurnUpdates:
    """The part of a turn that tells the client what happens in it."""

    __slots__ = ("_begun", "_entries", "_pause_at", "_said", "_shown_steps", "_speech", "_updates", "node", "record")

    # The turn sets these: a turn that says nothing has no way through this class.
    node: Node
    record: TurnRecord
    _updates: Updates
    _speech: Speech
    _pause_at: float
    _begun: dict[str, None]
    """The tool calls that were shown and have not ended."""
    _shown_steps: Steps | None
    _entries: Sequence[dict[str, Any]]
    """The plan that was shown last."""
    _said: str | None
    """What was said or thought last, as text; "" behind other updates, and None before the first one."""

    async def say(self, text: str) -> None:
        """Show a piece of the agent's message. Waits if the client is behind with reading.

        Raises TurnEnded once the turn is answered, and ConnectionClosed.
        """
        await self._chunk("agent_message_chunk", text)

    async def think(self, text: str) -> None:
        """Show a piece of the agent's reasoning; otherwise like `say`."""
        await self._chunk("agent_thought_chunk", text)

    async def plan(self, entries: Sequence[PlanEntry | str]) -> None:
        """Show the plan, all of it; it replaces the one before (ACP, Agent Plan). A text is a step that has not begun.
        `step` works on one of them."""
        await self._steps.show(entries)

    def step(self, content: str, *, priority: Priority | None = None) -> Step:
        """`async with turn.step("Read the git log"):` shows the step as worked on within the block (ACP, Agent Plan).
        It is the step of the plan with this text, or a new one. It is completed with the block, unless that raises:
        then its text says that it was refused (`ToolRejected`), cancelled, or has failed."""
        return Step(self._steps, content, priority)

    @property
    def _steps(self) -> Steps:
        if self._shown_steps is None:
            self._shown_steps = Steps(self)
        return self._shown_steps

    async def notice(self, title: str, *, severity: str = "info", description: str | None = None) -> None:
        """Tell the user something that is not part of the conversation, in plain text: `severity` is `info`, `warning`
        or `error`. Clients need not show it, and many on version 1 cannot. Otherwise like `say`."""
        from acp_server.schema.updates import Notice

        await self.update(Notice(severity=severity, title=title, description=description))

    def compaction(self) -> Compaction:
        """`async with turn.compaction() as compaction:` around the work that shortens the agent's context."""
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
        """Say any session update of `acp_server.schema`; otherwise like `say`.

        An update that only some clients understand (a notice, a compaction) is not sent to the others. `meta`: the
        `_meta` of the notification beside the update, where some clients look; that of the update is `update.meta`.
        """
        if self.record.ended_at is not None or self._updates.flooded:
            await self._hold_back()
        self.put(update, meta=meta)
        now = time.monotonic()
        if now > self._pause_at or self._updates.crowded:
            await self._pause(now)

    def put(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """`update` without waiting, for callbacks. Much said this way fills the memory if the client is behind.

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
        # Without a call, of which each update would cost one.
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
            # Nothing to show, but a handler that says nothing over and over must not starve the others.
            await anyio.lowlevel.checkpoint()
            return
        fragment = self._speech.text(kind, text)
        (record.transcript or record.begin()).text(kind, fragment)
        self._said = text
        now = time.monotonic()
        if now > self._pause_at or writer.size > HIGH_WATER:
            await self._pause(now)

    async def _pause(self, now: float) -> None:
        # A handler that never waits for anything itself would let nothing be written, and no cancel be read.
        self._pause_at = now + PACE
        if self._updates.crowded:
            await self._updates.room()
        else:
            await anyio.lowlevel.checkpoint()

    async def room(self) -> None:
        """Wait while so much is on its way that nothing more may begin that is shown to the client. Raises TurnEnded
        and ConnectionClosed."""
        # Of several that wait the first may fill the room again.
        while self._updates.writer.size > FLOOD:
            await self._hold_back()

    async def _hold_back(self) -> None:
        """Nothing is said now: wait until the client has caught up, or raise TurnEnded."""
        if self.record.ended_at is None:
            await self._updates.room()
        if self.record.ended_at is not None:
            await self._refuse()

    async def _refuse(self) -> NoReturn:
        # For the same reason: it may be that the handler catches this and goes on talking.
        await anyio.lowlevel.cancel_shielded_checkpoint()
        raise too_late()


class Compaction(Block):
    """One of a turn's. It is `in_progress` in its `async with` block, and is told to have ended when that is left:
    `completed`; `cancelled` with the turn; `failed` if the block raises."""

    def __init__(self, turn: TurnUpdates) -> None:
        self._turn = turn
        self.id: Final = f"compaction_{os.urandom(12).hex()}"
        """New for each."""

    async def summarize(self, text: str) -> None:
        """Show a piece of the summary, which stays of what is shortened. Raises TurnEnded and ConnectionClosed."""
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
        # A turn that has ended without it tells nothing any more.
        with suppress(TurnEnded, SessionClosed):
            self._tell("completed" if error is None else "cancelled" if self._turn.node.cause is not None else "failed")

    def _tell(self, status: Literal["in_progress", "completed", "cancelled", "failed"]) -> None:
        from acp_server.schema.updates import CompactionUpdate

        self._turn.put(CompactionUpdate(compaction_id=self.id, status=status))


def too_late() -> TurnEnded:
    """What is raised from the end of a turn on."""
    return TurnEnded("the turn is already answered; what is said now would reach the client too late")
