"""Child sessions as the client sees them (ACP, Subagents): what the agent does below a session of the client's.

The client opens none of them. It knows those that the agent has announced, and may cancel them, if the agent lets it.
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
"""Child sessions of one connection that are known at a time."""
LONGEST: Final = 1_000
"""Characters of what is kept of the words of an agent about a child; a longer id is not known."""

OnChildUpdate: TypeAlias = "Callable[[SessionUpdate], Awaitable[None] | None]"


class RemoteSubagent:
    """One child session, which the agent has announced; in `RemoteSession.subagents`, or in those of its parent.

    `on_update` gets each update of it. To miss none, set it when its parent gets the `SubagentUpdate` that announces
    the child.
    """

    def __init__(self, id: str, parent: RemoteSession | RemoteSubagent, known: Subagents) -> None:
        self.id = id
        self.parent = parent
        """The session or the child that has it."""
        self.title: str | None = None
        """What its parent calls it."""
        self.description: str | None = None
        """What it is for."""
        self.state: str | None = None
        """What it does (`SubagentActivity`); None if that is not confirmed any more."""
        self.stop_reason: str | None = None
        """Why its last work ended (`SubagentStopReason`), if the agent has told that."""
        self.error: str | None = None
        """What went wrong then, in the agent's words."""
        self.can_cancel = False
        """Whether the agent lets the client cancel it now."""
        self.subagents: dict[str, RemoteSubagent] = {}
        """Its own children, by id."""
        self.on_update: OnChildUpdate | None = None
        """Gets each update of it; what it raises is logged."""
        self._known = known

    @property
    def session(self) -> RemoteSession:
        """The session of the client's that it belongs to."""
        above = self.parent
        while isinstance(above, RemoteSubagent):
            above = above.parent
        return above

    def cancel(self) -> None:
        """Ask the agent to stop it, and leave its parent. The state tells when it has stopped. No effect if the agent
        does not let it be cancelled."""
        if self.can_cancel:
            self._known.cancel(self.id)

    def receive(self, update: SessionUpdate, _params: Any) -> Awaitable[None] | None:
        """For the connection: an update of it has arrived."""
        if isinstance(update, SubagentUpdate):
            self._known.tell(self, update)
        return None if self.on_update is None else self.on_update(update)

    def miss(self, what: str) -> None:
        """For the connection: an update of it has arrived that is not read."""
        logger.warning("%s was about the child session %r", what, self.title)

    def told(self, update: SubagentUpdate) -> None:
        """For the connection: its parent has heard this of it."""
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
    """The child sessions of one connection. `sessions`: those that the client has opened."""

    def __init__(self, sessions: Container[str], cancel: Callable[[str], None]) -> None:
        self._sessions = sessions
        self._known: dict[str, RemoteSubagent] = {}
        self.cancel: Final = cancel
        self._is_full = False

    def get(self, id: str) -> RemoteSubagent | None:
        """The child with this id."""
        return self._known.get(id)

    def tell(self, parent: RemoteSession | RemoteSubagent, update: SubagentUpdate) -> None:
        """A session has told of a child. A child stays where it was announced first."""
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
        """The id of the session that a child belongs to; any other id is that of a session itself."""
        child = self._known.get(id)
        return id if child is None else child.session.id

    def below(self, id: str) -> Iterator[str]:
        """The ids of the children of a session, or of a child, at any depth."""
        for child in list(self._known.values()):
            above: Any = child
            while isinstance(above, RemoteSubagent):
                above = above.parent
                if above.id == id:
                    yield child.id
                    break

    def end(self, session_id: str) -> None:
        """A session is closed, and its children with it."""
        for id in list(self.below(session_id)):
            self._drop(id)

    def _drop(self, id: str) -> None:
        child = self._known.pop(id)
        child.parent.subagents.pop(id, None)

    def _forget_one(self) -> bool:
        """Forget the oldest child that is idle and has no children. False if there is none."""
        for child in self._known.values():
            if child.state == "idle" and not child.subagents:
                self._drop(child.id)
                return True
        if not self._is_full:
            self._is_full = True
            logger.warning("the agent has more than %d child sessions at once; more are not shown", MOST)
        return False
