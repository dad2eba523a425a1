"""The records of conversations and chats, their ids, and a chat's states with the one function that changes them.

The owners of ids are not checked here.
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
"""2020, so that an id has 18 digits for a long time."""
_RANDOM_BITS: Final = 12
_SLOT_BITS: Final = 10
SLOTS: Final = 1 << _SLOT_BITS
"""The number of nodes that can make ids at the same time without collisions."""
_SHORT: Final = 16
"""The longest step from an id to the next one in the same millisecond."""
_HIGHEST_BY_CLOCK: Final = 1 << 62
"""The highest id from a clock, until the year 2054: ids stay below 2^63, since clients read them as integers."""
_FIRST_BITS: Final = 48
_LONGEST: Final = 20


class Ids:
    """Makes ids in decimal digits, as the API's clients expect. Each is greater than all earlier ones, also than stored
    ids of earlier runs, whatever the clock shows. Thread-safe."""

    def __init__(self, highest: int = 0, slot: int = 0) -> None:
        """`highest`: the highest id in use."""
        self.slot = slot
        """The part of each id that no other node has at the same time, smaller than SLOTS."""
        # Random, since with a clock before 2020 and an empty store, two runs would begin with the same ids.
        self._last = max(highest, secrets.randbits(_FIRST_BITS))
        self._lock = threading.Lock()

    def new(self) -> str:
        """A new id. It is made from the time if that has advanced; otherwise it follows the last one."""
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
    """The bot whose agent has it."""
    id: str
    """The agent's id for it. In a later run the agent may give the id to another session."""
    key: str
    """A key that is unique in all runs. The messages that the session knows are marked with it."""


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
    """Increases when messages are changed later."""
    session: str | None = None
    session_bot: str | None = None
    session_key: str | None = None

    @property
    def known(self) -> KnownSession | None:
        """The agent's session that knows the messages marked with its key; None while a chat has it."""
        if self.session is None or self.session_bot is None or self.session_key is None:
            return None
        return KnownSession(self.session_bot, self.session, self.session_key)

    def know(self, known: KnownSession | None) -> KnownSession | None:
        """Remember this session. Returns the previous one, which has no conversation any more; None if there was
        none."""
        before = self.known
        bot, id, key = (None, None, None) if known is None else (known.bot, known.id, known.key)
        self.session, self.session_bot, self.session_key = id, bot, key
        return None if before == known else before

    def to_wire(self) -> dict[str, Any]:
        """The conversation in the form of the API."""
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
"""The possible moves from each state."""

RUNNING: Final = frozenset({Status.CREATED, Status.IN_PROGRESS})
"""The states in which a chat occupies its conversation, and can be cancelled."""


@dataclass(frozen=True)
class TokenUsage:
    """Tokens, as the agent reports them; 0 if it does not."""

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
    """One chat at one moment. Times in Unix seconds."""

    id: str
    conversation_id: str
    section_id: str
    bot_id: str
    owner: str
    """The name of the token that it was created with."""
    saved: bool = True
    """`auto_save_history`. If False, nothing of it is stored, and it is not context of later chats."""
    query_id: str | None = None
    """The id of the message that it replies to, if that was in the conversation before."""
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
        """The only way to change the status: the chat with the new one. None if the move is not possible."""
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
        """The chat after it has failed, also while it waits for tool outputs."""
        failed = (self.moved(Status.IN_PROGRESS) or self).moved(Status.FAILED, error=error, usage=usage)
        assert failed is not None, "the chat has ended"
        return failed

    def settled(self, usage: TokenUsage) -> Chat:
        """The chat with its usage, which for a cancelled chat is known after the work has ended."""
        return replace(self, usage=usage)

    @property
    def ended(self) -> bool:
        """Whether its status is final."""
        return not MOVES[self.status]

    def to_wire(self) -> dict[str, Any]:
        """The chat in the form of the API. Unset fields are omitted, since clients refuse nulls in some places."""
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
