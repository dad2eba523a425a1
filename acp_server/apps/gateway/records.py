"""The records of conversations and chats, their ids, and the states of a chat, which only one function changes.

This module does not check the owners of ids.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

_EPOCH_MS: Final = 1_577_836_800_000
"""The year 2020. Counting from it, ids have 18 digits for a long time."""
_RANDOM_BITS: Final = 12
_SLOT_BITS: Final = 10
SLOTS: Final = 1 << _SLOT_BITS
"""The number of nodes that can make ids at the same time without collisions."""
_SHORT: Final = 16
"""The longest step from an id to the next one in the same millisecond."""
_HIGHEST_BY_CLOCK: Final = 1 << 62
"""The highest id made from a clock, until the year 2054. Ids must stay below 2^63, because clients read them as
integers."""
_FIRST_BITS: Final = 48
_LONGEST: Final = 20


class Ids:
    """Makes ids in decimal digits, as the API's clients expect. Each id is greater than all earlier ones, including
    stored ids of earlier runs, even if the clock was set back. Thread-safe."""

    def __init__(self, highest: int = 0, slot: int = 0) -> None:
        """`highest`: the highest id in use."""
        self.slot = slot
        """A number below SLOTS that is part of each id. No other node has the same number at the same time."""
        # Random, since with a clock before 2020 and an empty store, two runs would begin with the same ids.
        self._last = max(highest, secrets.randbits(_FIRST_BITS))
        self._lock = threading.Lock()

    def new(self) -> str:
        """Return a new id. It is made from the time if the time has advanced; otherwise it follows the last id."""
        step = secrets.randbits(_RANDOM_BITS)
        with self._lock:
            by_clock = self._at(time.time_ns() // 1_000_000 - _EPOCH_MS, step)
            self._last = by_clock if self._last < by_clock < _HIGHEST_BY_CLOCK else self._following(step)
            return str(self._last)

    def _at(self, milliseconds: int, step: int) -> int:
        return (milliseconds << _SLOT_BITS | self.slot) << _RANDOM_BITS | step

    def _following(self, step: int) -> int:
        following = self._last + 1 + step % _SHORT
        if (following >> _RANDOM_BITS) % SLOTS == self.slot:
            return following
        return self._at((self._last >> _RANDOM_BITS + _SLOT_BITS) + 1, step)


def is_id(text: str) -> bool:
    """Whether `text` has the form of an id."""
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST


@dataclass(frozen=True, slots=True)
class KnownSession:
    """An agent's session that a conversation remembers."""

    bot: str
    """The bot whose agent has the session."""
    id: str
    """The agent's id of the session. In a later run the agent may give that id to another session."""
    key: str
    """A key that is unique in all runs. The messages that the session knows are marked with it."""


@dataclass
class Conversation:
    """One conversation. Times are in Unix seconds."""

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
    """A number that increases when messages are changed later."""
    session: str | None = None
    session_bot: str | None = None
    session_key: str | None = None

    @property
    def known(self) -> KnownSession | None:
        """The agent's session that knows the messages marked with its key; None while a chat uses the session."""
        if self.session is None or self.session_bot is None or self.session_key is None:
            return None
        return KnownSession(self.session_bot, self.session, self.session_key)

    def know(self, known: KnownSession | None) -> KnownSession | None:
        """Remember this session. Returns the previous session, which no longer belongs to a conversation, or None."""
        before = self.known
        bot, id, key = (None, None, None) if known is None else (known.bot, known.id, known.key)
        self.session, self.session_bot, self.session_key = id, bot, key
        return None if before == known else before

    def to_wire(self) -> dict[str, Any]:
        """Return the conversation in the form of the API."""
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


class Status(StrEnum):
    """The states of a chat."""

    CREATED = "created"
    IN_PROGRESS = "in_progress"
    REQUIRES_ACTION = "requires_action"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    Status.CREATED: frozenset({Status.IN_PROGRESS, Status.CANCELED}),
    Status.IN_PROGRESS: frozenset({Status.COMPLETED, Status.FAILED, Status.REQUIRES_ACTION, Status.CANCELED}),
    Status.REQUIRES_ACTION: frozenset({Status.IN_PROGRESS}),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELED: frozenset(),
}
"""The possible transitions from each state."""

RUNNING: Final = frozenset({Status.CREATED, Status.IN_PROGRESS})
"""The states in which a chat occupies its conversation, and can be cancelled."""


@dataclass(frozen=True)
class TokenUsage:
    """The tokens that the agent reports; 0 if it reports none."""

    token_count: int = 0
    output_count: int = 0
    input_count: int = 0


@dataclass(frozen=True)
class Failure:
    """Why a chat failed."""

    code: int
    msg: str


@dataclass(frozen=True)
class Chat:
    """One chat at one moment. Times are in Unix seconds."""

    id: str
    conversation_id: str
    section_id: str
    bot_id: str
    owner: str
    """The name of the token with which the chat was created."""
    saved: bool = True
    """The value of `auto_save_history`. If it is False, nothing of the chat is stored, and the chat is not context for
    later chats."""
    query_id: str | None = None
    """The id of the message that the chat replies to, if the message was already in the conversation."""
    meta_data: dict[str, str] = field(default_factory=dict[str, str])
    created_at: int = field(default_factory=lambda: int(time.time()))
    status: Status = Status.CREATED
    completed_at: int | None = None
    failed_at: int | None = None
    last_error: Failure | None = None
    usage: TokenUsage | None = None
    tool_calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The tool calls that `requires_action` waits for."""

    def moved(
        self,
        status: Status,
        *,
        usage: TokenUsage | None = None,
        error: Failure | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
    ) -> Chat | None:
        """Return the chat with a new status; None if that transition is not possible. This is the only way to change
        the status."""
        if status not in MOVES[self.status]:
            return None
        now = int(time.time())
        return replace(
            self,
            status=status,
            tool_calls=tool_calls or [],
            usage=usage or self.usage,
            completed_at=now if status in (Status.COMPLETED, Status.CANCELED) else None,
            failed_at=now if status is Status.FAILED else None,
            last_error=error,
        )

    def failed(self, error: Failure, usage: TokenUsage | None = None) -> Chat:
        """Return the chat with the status `failed`. This chat must not have ended; it may wait for tool outputs."""
        failed = (self.moved(Status.IN_PROGRESS) or self).moved(Status.FAILED, error=error, usage=usage)
        assert failed is not None, "the chat has ended"
        return failed

    def settled(self, usage: TokenUsage) -> Chat:
        """Return the chat with its usage. For a cancelled chat, the usage is known only after the work has ended."""
        return replace(self, usage=usage)

    @property
    def ended(self) -> bool:
        """Whether the chat's status is final."""
        return not MOVES[self.status]

    def to_wire(self) -> dict[str, Any]:
        """Return the chat in the form of the API. Unset fields are omitted, because clients refuse nulls in some
        fields."""
        wire: dict[str, Any] = {
            "id": self.id,
            "conversation_id": self.conversation_id,
            "bot_id": self.bot_id,
            "section_id": self.section_id,
            "status": self.status.value,
            "created_at": self.created_at,
            "meta_data": dict(self.meta_data),
            "last_error": {"code": 0, "msg": ""},
        }
        if self.completed_at is not None:
            wire["completed_at"] = self.completed_at
        if self.failed_at is not None:
            wire["failed_at"] = self.failed_at
        if self.last_error is not None:
            wire["last_error"] = asdict(self.last_error)
        if self.usage is not None:
            wire["usage"] = asdict(self.usage)
        if self.status is Status.REQUIRES_ACTION:
            wire["required_action"] = {
                "type": "submit_tool_outputs",
                "submit_tool_outputs": {"tool_calls": self.tool_calls},
            }
        return wire
