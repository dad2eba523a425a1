"""`Limits` has the limits of a connection that can be set, with unit and default.

A new limit needs a field here and a row in the table of `docs/limits.md`. A test compares fields and rows. Each limit
is enforced by the module that creates the counted objects.
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
    """The bounds of a connection. `docs/limits.md` has the response of each limit. Raises UsageError unless each value
    is at least 0, and an int except for seconds.

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
    turns (bytes): the same of all running turns together.
    output (characters): text that is shown of the output of one tool call.
    content (characters): content that is shown of one tool call.
    locations (number): places in files that are shown of one tool call.
    """

    line: int = _limit(DEFAULT_LINE_LIMIT, "bytes")
    """The longest message that is read."""
    batches: int = _limit(BATCH_BYTES, "bytes")
    """The bytes of the answers in batches that wait for a slow member; see `acp_server.wire.batch`."""
    notifications: int = _limit(8 * 1024 * 1024, "bytes")
    """The bytes of queued notifications, which wait for the handler of an earlier notification; see
    `acp_server.peer.notifications`."""
    unread: int = _limit(64 * 1024 * 1024, "bytes")
    """The bytes that the peer may leave unread. Above this limit its messages are not processed, except for cancels,
    because each would produce more output."""
    requests: int = _limit(80 * 1024 * 1024, "bytes")
    """The bytes of in-flight requests of the peer. Each is counted with 8 KiB besides its line, so there may be some
    10,000 requests. A single request may be larger."""
    running: int | None = _limit(None, "number", optional=True)
    """The most requests that run at once. Further requests are queued. None means no limit."""
    drain: float = _limit(1.0, "seconds")
    """Seconds that requests and notifications may run after the end of input, once all requests have begun. A queued
    request may also wait this long for another request to end."""
    grace: float | None = _limit(DEFAULT_GRACE, "seconds", optional=True)
    """Seconds of the grace period, in which a cancelled request may clean up before it is answered without its handler.
    At the end of the connection it also applies to all requests together, and then to the callbacks of
    `Connection.on_close`. None means no limit, and the default at the end."""
    flush: float = _limit(2.0, "seconds")
    """Seconds that writing the last frames may take."""
    sessions: int = _limit(10_000, "number")
    """The most sessions that are open at once."""
    path: int = _limit(32_768, "characters")
    """The longest working directory, or additional directory, of a session."""
    setup: int = _limit(1024 * 1024, "bytes")
    """The most bytes of JSON of the directories, MCP servers and system prompt that the client names for one
    session."""
    setups: int = _limit(64 * 1024 * 1024, "bytes")
    """The most bytes of such JSON for all open sessions together."""
    turn: int = _limit(32 * 1024 * 1024, "bytes")
    """The most bytes of the record of one turn. If a turn is longer, its beginning and its end are kept."""
    turns: int = _limit(128 * 1024 * 1024, "bytes")
    """The most bytes of the records of all running turns together, apart from the first 16 KiB of each. A turn may keep
    as many bytes as it leaves free."""
    output: int = _limit(100_000, "characters")
    """The most characters of the output of one tool call that are shown. The end of the output is shown."""
    content: int = _limit(8 * 1024 * 1024, "characters")
    """The most characters of content (diffs, images ...) of one tool call that are shown, and of output that waits to
    be shown. The last content is kept."""
    locations: int = _limit(1000, "number")
    """The most places in files that are shown of one tool call. The last places are kept."""

    def __post_init__(self) -> None:
        """Raises UsageError, see the class."""
        for each in fields(self):
            value = getattr(self, each.name)
            if (type(value) is int and value >= 0) or (value is None and each.metadata["optional"]):
                continue
            if each.metadata["unit"] != "seconds":
                raise UsageError(f"Limits({each.name}=...) must be an int of at least 0, not {value!r}")
            if not (isinstance(value, float) and value >= 0):
                raise UsageError(f"Limits({each.name}=...) must be a number of seconds of at least 0, not {value!r}")

    @property
    def patience(self) -> float:
        """Return `grace` as a number, which is infinity for None."""
        return math.inf if self.grace is None else self.grace

    @property
    def end_grace(self) -> float:
        """Return `grace` for work that must end in any case, such as a connection, a session or a save."""
        return DEFAULT_GRACE if self.grace is None else self.grace

    @property
    def closing(self) -> float:
        """Return the seconds that the end of a connection may take (see `drain`, `grace` and `flush`)."""
        return self.drain + self.end_grace + self.flush
