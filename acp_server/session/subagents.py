"""Child sessions (ACP, Subagents): `async with turn.subagent(...)`.

A child session has one turn, whose scope is nested in the scope of its parent's turn. It is one of the open sessions of
the connection, so that `session/cancel` finds it. A client that does not support child sessions sees the work as one
tool call of the parent's session.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

import anyio.lowlevel

from acp_server.errors import ConnectionClosed, SessionClosed, UsageError
from acp_server.peer.answer import Answer
from acp_server.safe_text import one_line
from acp_server.session.live_session import LiveSession
from acp_server.session.setup import check_directories
from acp_server.session.state import CHILD_KEY, TurnState
from acp_server.session.updates import LiveTurn, Updates, too_late
from acp_server.store.children import message, state_of
from acp_server.store.records import SessionRecord
from acp_server.tasks.blocks import Block
from acp_server.tasks.grace import SupervisedWork
from acp_server.tasks.tree import Pair
from acp_server.wire import codec
from acp_server.wire.messages import Request

if TYPE_CHECKING:
    from acp_server.peer.observer import Span
    from acp_server.peer.peer import Peer
    from acp_server.session.client import Client
    from acp_server.session.definition import AgentDefinition, CallView, McpHost, ToolHost
    from acp_server.session.session import Session
    from acp_server.session.turn import Turn
    from acp_server.session.updates import ChunkKind, Speech
    from acp_server.tasks.tree import Node

logger: logging.Logger = logging.getLogger("acp_server.session")

_LONGEST_TITLE: Final = 1_000


class Subagent(Block):
    """The block `async with turn.subagent(...) as child:` (see `Turn.subagent`). `below`: the parent node of the child
    session."""

    def __init__(
        self, parent: LiveTurn, below: Node, title: str, task: str | None, description: str | None, cwd: str | None
    ) -> None:
        for name, text in (("title", title), ("task", task), ("description", description)):
            if not (isinstance(text, str) or (text is None and name != "title")):
                raise UsageError(f"the {name} of a subagent must be a string, not {type(text).__name__}")
        self._parent = parent
        self._below = below
        self._about: dict[str, Any] = {"title": one_line(title, _LONGEST_TITLE)}
        if description is not None:
            self._about["description"] = description
        if cwd is not None:
            self._about["cwd"], _ = check_directories(cwd, [], parent.session.client.connection.limits)
        self._task = task
        self._child: Child | None = None
        self._scopes = ExitStack()

    def _written(self) -> str:
        """See `Block`."""
        return "async with turn.subagent(...) as child"

    async def __aenter__(self) -> Turn:
        if self._entered:
            raise UsageError("a subagent can be started only once: call turn.subagent(...) again")
        self._entered = True
        parent = self._parent
        if parent.is_cancelled:
            # No child begins in a cancelled turn: the checkpoint raises the cancel.
            await anyio.lowlevel.checkpoint()
        await parent.room()
        if parent.record.ended_at is not None or self._below.closed:
            raise too_late()
        if parent.session.client.connection.tree.closed:
            raise ConnectionClosed
        # No checkpoint from here to the end.
        child = self._child = Child(parent, self._below.child(f"subagent {self._about['title']}"), self._task)
        try:
            child.begin(self._about)
        except BaseException:
            child.node.close()
            raise
        make = parent.session.client.connection.scopes.make
        pair = Pair(self._scopes.enter_context(make()), self._scopes.enter_context(make()))
        if not child.node.enter(pair):
            pair.outer.cancel()
        return child.turn.face

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        # No checkpoint here: the block may end with the generator that contains it.
        assert self._child is not None
        node = self._child.node
        self._child.turn.end(error)
        node.pair = None
        node.close()
        self._child.ended()
        return bool(self._scopes.__exit__(kind, error, traceback))


class Child(SupervisedWork):
    """A child session and the host of its one turn, see `TurnHost`."""

    def __init__(self, parent: LiveTurn, node: Node, task: str | None) -> None:
        self.connection: Peer = parent.session.client.connection
        super().__init__(node, self.connection.watchdog)
        self.task: object = self.connection.work.current()
        self.answer: Final = Answer("session/prompt")
        self.parent: Final = parent
        self.key: Final = f"{CHILD_KEY}{os.urandom(12).hex()}"
        self._has_begun = False
        self._said_stubborn = False
        blocks = [] if task is None else [{"type": "text", "text": task}]
        self.request: Request = Request(None, "session/prompt", {"prompt": blocks})

    def begin(self, about: dict[str, Any]) -> None:
        """Announce the child session to the client and begin its turn."""
        parent = self.parent
        of = parent.session
        is_told = of.tells_children
        blocks = cast("dict[str, Any]", self.request.params)["prompt"]
        record = SessionRecord(f"{of.id}.{self.key}", about.get("cwd", of.cwd), of.record.additional_directories)
        kind, turn_kind = (type(of), type(parent)) if is_told else (FoldedSession, LiveTurn)
        session = kind(record, self.connection, of.client.profile, _sharing(of))
        session.is_child_of(parent)
        self._way = _Told(self, about) if is_told else _Folded(self, about)
        if not is_told:
            cast("FoldedSession", session).fold(self._way)
        session.updates.open()
        cast("dict[str, Any]", self.request.params)["sessionId"] = session.id
        self.session: LiveSession = session
        self.turn: LiveTurn = turn_kind(session, self, None, blocks)
        self.turn.on_move += (self._goes_on,)
        self.turn.on_end = self._over
        session.turns.append(self.turn)
        self._keep = parent.record.add_child(self.turn.record, {"key": self.key, **about})
        of.siblings[session.id] = session
        self._way.begin(blocks)
        self.turn.begin()

    @property
    def span(self) -> Span | None:
        """The turn of its parent for observers."""
        return self.parent.span

    def _goes_on(self, state: TurnState) -> None:
        """Send a new state of the turn. `_over` sends the last state."""
        if not state.successors:
            return
        if self._has_begun:
            self._way.goes_on(state.word if state is TurnState.REQUIRES_ACTION else "running")
        self._has_begun = True

    def _over(self) -> None:
        """Send the end of the child session, whose turn has ended."""
        self._keep()
        session = self.session
        with suppress(SessionClosed):
            self._way.end()
        session.siblings.pop(session.id, None)
        session.turns.clear()
        self.connection.background(session.close)

    def give_up(self) -> None:
        """See `SupervisedWork`. This only logs, because nothing but the parent waits for the child session, and only an
        ended child session is announced as ended."""
        if not self._said_stubborn and not self.node.closed:
            self._said_stubborn = True
            logger.warning("%s does not end although it was cancelled", self.node.label)


def _sharing(session: LiveSession) -> AgentDefinition:
    """Return the definition of the session's agent, whose tools and MCP servers are the instances that the session
    has."""

    def tools(_: Session) -> ToolHost:
        return session.tools

    def mcp(_: Session) -> McpHost:
        return session.mcp

    return replace(session.definition, tools=tools, mcp_host=mcp)


class _Told:
    """Sends the updates about a child session to a client that shows child sessions."""

    def __init__(self, child: Child, about: dict[str, Any]) -> None:
        self._child = child
        self._about = about
        self._speech: Speech = child.parent.speech

    def begin(self, task: list[dict[str, Any]]) -> None:
        """Announce the child session and its task."""
        child = self._child
        self._tell(**self._about, capabilities={"cancel": {}}, state={"state": "running"})
        if task:
            child.session.updates.send(message(child.turn.id, child.parent.session.id, child.session.id, task))

    def goes_on(self, state: str) -> None:
        """Send the state of the child session."""
        self._tell(state={"state": state})

    def end(self) -> None:
        """Send the end of the child session, which the client can no longer cancel."""
        child = self._child
        turn = child.turn
        state = state_of(turn.record)
        assert state is not None
        # Additions of the author to the response of a turn go here, as on version 2.
        how = state if turn.state is TurnState.FAILED else {**state, **child.answer.added_to(turn.result())}
        child.session.updates.state(**how)
        self._tell(capabilities=None, state=how)

    def _tell(self, **changes: Any) -> None:
        self._speech.send({"sessionUpdate": "subagent_update", "sessionId": self._child.session.id, **changes})


class _Folded(Updates):
    """Sends the updates of a child session to other clients. Its text is the output of one tool call of the parent's
    session. Its own tool calls are tool calls of that session."""

    def __init__(self, child: Child, about: dict[str, Any]) -> None:
        session = child.parent.session
        super().__init__(child.connection, session.client.profile, session.client.session_id)
        self._child = child
        self._title: str = about["title"]
        self._out: Speech = child.parent.speech
        self._view: CallView = session.tools.view(_Unkept(child.parent), child.key)

    def begin(self, task: list[dict[str, Any]]) -> None:
        """Announce the child session and its task."""
        told = {"task": task[0]["text"]} if task else None
        self._view.begin(self._title, "other", "subagent", told)
        self._view.started()

    def goes_on(self, state: str) -> None:
        """Do nothing, because a tool call has no states of waiting."""

    def end(self) -> None:
        """End the tool call."""
        turn = self._child.turn
        error = turn.record.last_error
        if turn.state is TurnState.CANCELED:
            self._view.end("failed", meta={"outcome": "cancelled"})
        elif error is not None:
            self._view.end("failed", last=f"[failed: {error.message}]")
        else:
            self._view.end("completed")
        if (usage := turn.record.usage) is not None:
            # For the client there is one session, so the child's usage counts for its parent.
            spent = self._child.parent.record
            spent.usage = usage if spent.usage is None else spent.usage.plus(usage)

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `Updates`."""
        if kind == "agent_message_chunk":
            self._view.say(text)
        return codec.encode_fragment(text)

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """See `Updates`."""
        kind = update.get("sessionUpdate")
        if kind in ("tool_call", "tool_call_update", "notice"):
            return self._out.send(update, meta)
        if kind == "agent_message_chunk":
            content: dict[str, Any] = update["content"]
            if content.get("type") == "text":
                self._view.say(content["text"])
            else:
                from acp_server.schema.tool_call import Content

                self._view.attach(Content.from_wire({"type": "content", "content": content}))
        return codec.encode(update)[:-1]

    def put(self, json: bytes, meta: dict[str, Any] | None = None) -> None:
        """Send an update of a terminal of version 2."""
        cast("Any", self._child.parent.session.updates).put(json, meta)


class _Unkept:
    """Stands in for a parent's turn, so that a tool call is sent and not stored. The child session itself is stored."""

    def __init__(self, turn: LiveTurn) -> None:
        self._turn = turn
        self.session = turn.session

    def tell(self, update: dict[str, Any]) -> None:
        """See `LiveTurn.tell`."""
        if self._turn.record.ended_at is None:
            self._turn.speech.send(update)


class FoldedSession(LiveSession):
    """The session of a child that the client does not see. Its requests to the client belong to the parent's
    session."""

    terminals: Any = None
    """The terminals of the parent's session, on version 2."""

    def fold(self, way: Any) -> None:
        """Send the updates of this session by `way`."""
        assert self.parent is not None
        above = self.parent.session
        self.updates = way
        self.terminals = getattr(above, "terminals", None)
        self.client: Client = type(above.client)(self, self.client.connection, self.client.profile)
        self.client.session_id = above.client.session_id
