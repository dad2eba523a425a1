"""A conversation: what is known of it beside its messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class KnownSession:
    """An agent's session, as a conversation remembers it."""

    bot: str
    """Whose agent has it."""
    id: str
    """What the agent calls it. In a later run it may call another one the same."""
    key: str
    """What nothing else is called, in no run. The messages that the session has heard are marked with it."""


@dataclass
class Conversation:
    """One conversation. Times in Unix seconds."""

    id: str
    owner: str
    section_id: str
    created_at: int
    updated_at: int
    bot_id: str | None = None
    name: str = ""
    connector_id: str = "1024"
    meta_data: dict[str, str] = field(default_factory=dict[str, str])
    deleted: bool = False
    revision: int = 0
    """Rises when what was said is changed afterwards."""
    session: str | None = None
    session_bot: str | None = None
    session_key: str | None = None

    @property
    def known(self) -> KnownSession | None:
        """The agent's session that has heard the messages marked with its key; None while a chat has it."""
        if self.session is None or self.session_bot is None or self.session_key is None:
            return None
        return KnownSession(self.session_bot, self.session, self.session_key)

    def know(self, known: KnownSession | None) -> KnownSession | None:
        """Remember this session: the one that was known until now, which has no conversation now; None without one."""
        before = self.known
        bot, id, key = (None, None, None) if known is None else (known.bot, known.id, known.key)
        self.session, self.session_bot, self.session_key = id, bot, key
        return None if before == known else before

    def to_wire(self) -> dict[str, Any]:
        """As the API writes it."""
        return {
            "id": self.id,
            "name": self.name,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "meta_data": dict(self.meta_data),
            "last_section_id": self.section_id,
            "creator_id": self.owner,
            "connector_id": self.connector_id,
        }
