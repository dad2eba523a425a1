"""Child sessions as the client sees them (ACP, Subagents). The agent opens them below a session of the client.

The client opens no child session. It knows the children that the agent has announced, and may cancel them if the agent
allows that.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from acp_server.schema import SessionUpdate, SubagentUpdate

if TYPE_CHECKING:
    from acp_server.client.session import RemoteSession

logger: logging.Logger = logging.getLogger("acp_server.client")

MOST: Final = 1_000
"""The most child sessions that are remembered at once on one connection."""
LONGEST: Final = 1_000
"""The most characters that are kept of an agent's texts about a child. A child with a longer id is ignored."""

OnChildUpdate: TypeAlias = "Callable[[SessionUpdate], Awaitable[None] | None]"


class RemoteSubagent:
    """One child session that the agent has announced. It is in `RemoteSession.subagents`, or in the `subagents` of its
    parent.

    `on_update` gets each update of the child. To miss none, set it when the parent gets the `SubagentUpdate` that
    announces the child.
    """

    def __init__(self, id: str, parent: RemoteSession | RemoteSubagent, known: Subagents) -> None:
        self.id = id
        self.parent = parent
        """The session or the child session above this child."""
        self.title: str | None = None
        """The child's title, which its parent sets."""
        self.description: str | None = None
        """The child's task."""
        self.state: str | None = None
        """The child's activity (`SubagentActivity`); None if it is no longer confirmed."""
        self.stop_reason: str | None = None
        """Why the child's last work ended (`SubagentStopReason`), if the agent has reported that."""
        self.error: str | None = None
        """The error of the child's last work, as a text from the agent."""
        self.can_cancel = False
        """Whether the agent currently allows the client to cancel the child."""
        self.subagents: dict[str, RemoteSubagent] = {}
        """The children of this child, by id."""
        self.on_update: OnChildUpdate | None = None
        """Called with each update of the child. Its exceptions are logged."""
        self._known = known

    @property
    def session(self) -> RemoteSession:
        """The session of the client that contains the child."""
        above = self.parent
        while isinstance(above, RemoteSubagent):
            above = above.parent
        return above

    def cancel(self) -> None:
        """Request the agent to cancel the child but not its parent. The child's state changes when it has stopped. Has
        no effect if the agent does not allow it."""
        if self.can_cancel:
            self._known.cancel(self.id)

    def receive(self, update: SessionUpdate, _params: Any) -> Awaitable[None] | None:
        """Handle an update of the child. Called by the connection."""
        if isinstance(update, SubagentUpdate):
            self._known.tell(self, update)
        return None if self.on_update is None else self.on_update(update)

    def miss(self, what: str) -> None:
        """Log that an update of the child cannot be read. Called by the connection."""
        logger.warning("%s of the child session %r was dropped", what, self.title)

    def told(self, update: SubagentUpdate) -> None:
        """Store the description of the child from an update of its parent. Called by the connection."""
        said = update.model_fields_set
        if "title" in said:
            self.title: str | None = _short(update.title)
        if "description" in said:
            self.description: str | None = _short(update.description)
        if "state" in said:
            state = update.state
            self.state: str | None = None if state is None else _short(state.state)
            self.stop_reason: str | None = None if state is None else _short(state.stop_reason)
            failure = None if state is None else state.error
            self.error: str | None = None if failure is None else _short(failure.message)
        if "capabilities" in said:
            capabilities = update.capabilities
            self.can_cancel: bool = capabilities is not None and capabilities.cancel is not None


def _short(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST]


class Subagents:
    """Keeps track of the child sessions of one connection. `sessions`: the sessions that the client has opened."""

    def __init__(self, sessions: Container[str], cancel: Callable[[str], None]) -> None:
        self._sessions = sessions
        self._known: dict[str, RemoteSubagent] = {}
        self.cancel: Final = cancel
        self._is_full = False

    def get(self, id: str) -> RemoteSubagent | None:
        """Return the child with this id, or None."""
        return self._known.get(id)

    def tell(self, parent: RemoteSession | RemoteSubagent, update: SubagentUpdate) -> None:
        """Add or describe a child from an update of `parent`. A child stays below the parent that announced it
        first."""
        child = self._known.get(update.session_id)
        if child is None:
            if update.session_id in self._sessions or len(update.session_id) > LONGEST:
                return
            if len(self._known) >= MOST and not self._forget_one():
                return
            child = RemoteSubagent(update.session_id, parent, self)
            self._known[child.id] = parent.subagents[child.id] = child
        if child.parent is parent:
            child.told(update)

    def root_of(self, id: str) -> str:
        """Return the id of the session that contains a child. Any other id is returned unchanged."""
        child = self._known.get(id)
        return id if child is None else child.session.id

    def below(self, id: str) -> Iterator[str]:
        """Yield the ids of all children below a session or a child, at any depth."""
        for child in list(self._known.values()):
            above: Any = child
            while isinstance(above, RemoteSubagent):
                above = above.parent
                if above.id == id:
                    yield child.id
                    break

    def end(self, session_id: str) -> None:
        """Remove the children of a session that is closed."""
        for id in list(self.below(session_id)):
            self._drop(id)

    def _drop(self, id: str) -> None:
        child = self._known.pop(id)
        child.parent.subagents.pop(id, None)

    def _forget_one(self) -> bool:
        """Drop the oldest child that is idle and has no children. Returns False if there is no such child."""
        for child in self._known.values():
            if child.state == "idle" and not child.subagents:
                self._drop(child.id)
                return True
        if not self._is_full:
            self._is_full = True
            logger.warning(
                "the agent has more than %d child sessions at once; further child sessions are not shown", MOST
            )
        return False
