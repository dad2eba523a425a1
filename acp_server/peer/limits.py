"""`Limits`: every bound of a connection that can be set, with its unit and its default. `docs/limits.md` has the same.

A bound is added here as one field, and in the table of that page; a test compares the two. It is enforced where what it
counts is made, with `Connection.limits`. Nothing is enforced here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from acp_server.errors import UsageError
from acp_server.tasks.grace import DEFAULT_GRACE
from acp_server.wire.batch import BATCH_BYTES
from acp_server.wire.framing import DEFAULT_LINE_LIMIT

Unit: TypeAlias = Literal["bytes", "characters", "seconds", "number"]


def _limit(default: Any, unit: Unit, *, optional: bool = False) -> Any:
    return field(default=default, metadata={"unit": unit, "optional": optional})


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a connection. `docs/limits.md` says what the peer gets at each of them. Raises UsageError for
    anything but numbers from 0 on: whole ones, save for seconds.

    line (bytes): the longest message that is read.
    batches (bytes): the answers in batches that wait for a slow member.
    notifications (bytes): the notifications that wait for the handler of an earlier one.
    unread (bytes): what the peer may leave unread.
    requests (bytes): the requests that the peer has under way.
    running (number): requests that run at once; None: as many as come.
    drain (seconds): how long requests may go on when the input has ended.
    grace (seconds): how long a cancelled request may clean up; None: as long as it takes.
    flush (seconds): how long the last frames may take to be written.
    sessions (number): sessions that are open at once.
    path (characters): the longest directory of a session.
    setup (bytes): the directories and MCP servers of one session.
    setups (bytes): the same for all open sessions.
    turn (bytes): what is kept of what is said in one turn.
    output (characters): text that is shown of the output of one tool call.
    content (characters): content that is shown of one tool call.
    locations (number): places in files that are shown of one tool call.
    """

    line: int = _limit(DEFAULT_LINE_LIMIT, "bytes")
    """The longest message that is read."""
    batches: int = _limit(BATCH_BYTES, "bytes")
    """What the answers in batches take that wait for a slow member; see `acp_server.wire.batch`."""
    notifications: int = _limit(8 * 1024 * 1024, "bytes")
    """What the notifications take that wait for the handler of an earlier one; see `acp_server.peer.notifications`."""
    unread: int = _limit(64 * 1024 * 1024, "bytes")
    """What the peer may leave unread. Above it nothing that it sends is acted on, cancels excepted: it would only make
    more of it."""
    requests: int = _limit(80 * 1024 * 1024, "bytes")
    """What the requests take that the peer has under way, each counted with 8 KiB beside its text: some 10,000 of them.
    One alone may take more."""
    running: int | None = _limit(None, "number", optional=True)
    """Requests that run at once; more wait their turn. None: as many as come."""
    drain: float = _limit(1.0, "seconds")
    """How long running requests and notifications may go on when the input has ended and all requests have begun; or
    while a request that waits for its place among those that run does not get it."""
    grace: float | None = _limit(DEFAULT_GRACE, "seconds", optional=True)
    """How long a cancelled request may clean up before it is answered all the same; and, at the end, all of them, and
    then the callbacks of `Connection.on_close`. None: as long as it takes; at the end, the default."""
    flush: float = _limit(2.0, "seconds")
    """How long the last frames may take to be written."""
    sessions: int = _limit(10_000, "number")
    """Sessions that are open at once."""
    path: int = _limit(32_768, "characters")
    """The longest working directory, or additional directory, of a session."""
    setup: int = _limit(1024 * 1024, "bytes")
    """What the client names for one session: the JSON of its directories and MCP servers."""
    setups: int = _limit(64 * 1024 * 1024, "bytes")
    """The same for all sessions that are open."""
    turn: int = _limit(32 * 1024 * 1024, "bytes")
    """What is kept of what is said in one turn. Of more, the beginning and the end are kept."""
    output: int = _limit(100_000, "characters")
    """Text that is shown of the output of one tool call: the last of it."""
    content: int = _limit(8 * 1024 * 1024, "characters")
    """Content (diffs, images ...) that is shown of one tool call; and output that waits to be shown. The last of it."""
    locations: int = _limit(1000, "number")
    """Places in files that are shown of one tool call: the last ones."""

    def __post_init__(self) -> None:
        """Raises UsageError, see the class."""
        for each in fields(self):
            value = getattr(self, each.name)
            if (type(value) is int and value >= 0) or (value is None and each.metadata["optional"]):
                continue
            if each.metadata["unit"] != "seconds":
                raise UsageError(f"Limits({each.name}=...) is a whole number from 0 on, and not {value!r}")
            if not (isinstance(value, float) and value >= 0):
                raise UsageError(f"Limits({each.name}=...) is a number of seconds from 0 on, and not {value!r}")

    @property
    def patience(self) -> float:
        """`grace` as a number: infinity for None."""
        return math.inf if self.grace is None else self.grace

    @property
    def end_grace(self) -> float:
        """`grace` for what must end in any case: a connection, a session, a save."""
        return DEFAULT_GRACE if self.grace is None else self.grace

    @property
    def closing(self) -> float:
        """Seconds that the end of a connection may take, see `drain`, `grace` and `flush`."""
        return self.drain + self.end_grace + self.flush
