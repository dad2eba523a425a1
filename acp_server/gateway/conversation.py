"""A conversation: what is known of it beside its messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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
    """The agent's session that has heard what `Message`s are marked with; None while a chat has it."""
    session_bot: str | None = None

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
