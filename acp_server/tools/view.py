"""The buffer of a tool's output, which any thread may fill, and the updates that show the output to the client
(`View`). Both are bounded.

If a function writes faster than the event loop reads, its earliest output is dropped. That is acceptable because the
client only sees the end of long output anyway. The caller never waits here.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from acp_server.errors import SessionClosed, TurnEnded, UsageError
from acp_server.safe_text import one_line
from acp_server.schema.content import TextContent
from acp_server.schema.tool_call import Content, Diff, Terminal, ToolCallLocation
from acp_server.tasks.grace import Watchdog
from acp_server.tools.approval import block

if TYPE_CHECKING:
    from acp_server.peer.limits import Limits
    from acp_server.schema.tool_call import ToolCallContent

logger: logging.Logger = logging.getLogger("acp_server.tools")


class UnshownPieces:
    """A queue of output items, for any thread. `most`: the bound of the sum of their `size_of`. The last item is kept
    even if it is larger."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._pieces: deque[tuple[str | ToolCallContent, int]] = deque()
        self._size = 0
        self._lost = False

    def add(self, piece: str | ToolCallContent) -> bool:
        """Add an item. Returns True if the queue was empty, so that the caller has to notify the event loop."""
        size = size_of(piece)
        with self._lock:
            first = not self._pieces
            self._pieces.append((piece, size))
            self._size += size
            while self._size > self._most and len(self._pieces) > 1:
                self._size -= self._pieces.popleft()[1]
                self._lost = True
        return first

    def take(self, most: float = math.inf) -> tuple[list[str | ToolCallContent], bool, bool]:
        """Take the first items, up to and including the item that exceeds `most`. Also returns whether items before
        them were dropped, and whether items remain, so that the caller has to notify the event loop again."""
        pieces: list[str | ToolCallContent] = []
        with self._lock:
            lost, self._lost = self._lost, False
            while self._pieces and most >= 0:
                piece, size = self._pieces.popleft()
                pieces.append(piece)
                self._size -= size
                most -= size
            return pieces, lost, bool(self._pieces)


_PIECE = 200
"""The number of characters that an item counts in addition to its text."""


Piece: TypeAlias = tuple[dict[str, Any], int]
"""Content in its wire form, with its `size_of`."""


def size_of(piece: str | ToolCallContent) -> int:
    """Return the size of an output item, in characters."""
    if isinstance(piece, str):
        return len(piece) + _PIECE
    block = getattr(piece, "content", piece)
    parts = (block, getattr(block, "resource", None))
    texts = [getattr(part, name, None) for part in parts for name in ("text", "data", "blob", "old_text", "new_text")]
    return _PIECE + sum(len(text) for text in texts if isinstance(text, str))


PACE: Final = 0.05
"""Seconds between two updates of one call."""

_SLOWER_FROM: Final = 10_000
"""The pause between updates grows by one `PACE` for each such number of characters, because every update repeats all
content."""

TITLE: Final = 1_000
"""The most characters of a title, which is one line."""

_PLACE: Final = 200
"""The number of characters that a location counts."""

_LEFT_OUT: Final = "[earlier output is left out]\n"


class View:
    """Sends the updates of one tool call, in their wire form.

    It does not use the types of the schema, because each update repeats all content. Here an item is encoded only once,
    when it is added.
    """

    def __init__(self, turn: Any, id: str) -> None:
        """`turn`: see `ToolHost.view`."""
        self._turn = turn
        self._id = id
        self._limits: Limits = turn.session.client.connection.limits
        self._ticker: Watchdog | None = None
        self._is_ticking = False
        """Whether the ticker will call `_show`."""
        self._fixed: deque[Piece] = deque()
        self._fixed_size = 0
        self._text: list[str] = []
        self._last = ""
        self._words: Piece | None = None
        """The open question to the user."""
        self._size = 0
        self._shown_at = 0.0
        self._locations: deque[ToolCallLocation] = deque(maxlen=self._limits.locations)
        self._title = ""
        # The members that changed since the last update: content, locations, title.
        self._news: set[str] = set()
        self.verbatim = False
        """Whether to show the output as a code block, because it is not Markdown."""
        self.status: Literal["pending", "in_progress", "completed", "failed"] | None = None
        self.ended: bool = False
        """Whether the final status was sent."""

    def begin(self, title: str, kind: str, name: str, arguments: Any) -> None:
        """Send the `tool_call`, with the status `pending`."""
        # With the status, although `pending` is the default: not every client knows the default.
        update = {"sessionUpdate": "tool_call", "toolCallId": self._id, "title": title, "name": name, "kind": kind}
        update["status"] = "pending"
        if arguments is not None:
            update["rawInput"] = arguments
        with suppress(TurnEnded, SessionClosed):
            self._turn.tell(update)
        self.status = "pending"

    def started(self) -> None:
        """Show the call as `in_progress` at once, and remove the question. Does nothing after the end."""
        if not self.ended:
            self.status = "in_progress"
            if self._words is not None:
                self._words = None
                self._news.add("content")
            # The first output is sent without a pause.
            self._shown_at = 0.0
            self._change()

    def end(
        self,
        status: Literal["completed", "failed"],
        *,
        last: str | None = None,
        meta: dict[str, Any] | None = None,
        raw_output: Any = None,
    ) -> None:
        """Send the final status, after which nothing more is sent. `last`: text to append to the output. `meta`: the
        `_meta` of the update. `raw_output`: a plain JSON value. Does nothing if it was called before, or if the call
        did not begin."""
        if self.ended or self.status is None:
            return
        if self._is_ticking:
            self._stop_ticking()
        self._last = last or ""
        self.status = status
        self.ended = True
        if self._last or self._text or self._fixed or self._words:
            self._words = None
            self._news.add("content")
        more = {} if raw_output is None else {"rawOutput": raw_output}
        if meta is not None:
            more["_meta"] = meta
        try:
            self._change(more)
        except Exception:
            # An update is written whole or not at all. Without its content, the call still gets its final status.
            logger.exception(
                "the tool call %s ends without its content, because JSON cannot express the content", self._id
            )
            self._change({} if meta is None else {"_meta": meta})

    def entitle_now(self, title: str) -> None:
        """Send a new title at once. Does nothing after the end."""
        if not self.ended:
            self._title = title
            self._news.add("title")
            self._change()

    def say(self, text: str) -> None:
        """Append output. If the output is long, only its end is shown."""
        if text and not self.ended:
            self._add(text)
            self._soon("content")

    def attach(self, *content: ToolCallContent) -> None:
        """Add content before the output: diffs, terminals, images."""
        if not self.ended:
            self.keep(content)
            self._soon("content")

    def keep(self, content: Sequence[ToolCallContent]) -> None:
        """Add content that the next and all later updates of the content will contain, without sending it now. If the
        bound is exceeded, earlier content is dropped. Content that cannot be encoded is logged and left out."""
        pieces: list[Piece] = []
        for each in content:
            try:
                pieces.append(piece_of(each))
            except ValueError:
                # There is no caller left whom it could be raised to.
                logger.exception(
                    "some content of the tool call %s was left out, because JSON cannot express it", self._id
                )
        self._keep(pieces)

    def _keep(self, pieces: Sequence[Piece]) -> None:
        self._fixed += pieces
        for _, size in pieces:
            self._fixed_size += size
        while self._fixed_size > self._limits.content and len(self._fixed) > max(1, len(pieces)):
            self._fixed_size -= self._fixed.popleft()[1]

    def ask(self, title: str | None, words: Piece, previews: Sequence[Piece]) -> None:
        """Show the question before it is sent. `words` are removed when the call starts or ends; `previews` stay."""
        self._words = words
        if previews:
            known = {place.path for place in self._locations}
            # Some clients take the first location as the path of the diff.
            paths = [wire["path"] for wire, _ in previews if wire["type"] == "diff"]
            self._locations.extendleft(ToolCallLocation(path=path) for path in reversed(paths) if path not in known)
        if self._locations:
            self._news.add("locations")
        self._news.add("content")
        self.explain(title, previews)

    def explain(self, title: str | None, pieces: Sequence[Piece]) -> None:
        """Show the items and the title now, before the function runs."""
        if pieces:
            self._keep(pieces)
            self._news.add("content")
        if title is not None:
            self._title = title
            self._news.add("title")
        if self._news and not self.ended:
            self._show_now()

    @property
    def locations(self) -> Sequence[ToolCallLocation]:
        """The current locations of the call."""
        return tuple(self._locations)

    def locate(self, places: Sequence[ToolCallLocation]) -> None:
        """Replace the locations."""
        self._locations = deque(places, self._limits.locations)
        self._soon("locations")

    def add_place(self, place: ToolCallLocation) -> None:
        """Add a location."""
        self._locations.append(place)
        self._soon("locations")

    def entitle(self, title: str) -> None:
        """Change the title, with the next update. It is cut to one line."""
        self._title = one_line(title, TITLE)
        self._soon("title")

    def _content(self) -> list[dict[str, Any]]:
        """Return the content of the next update: diffs, the question, other content, then the output."""
        shown: list[dict[str, Any]] = []
        words = self._words
        for wire, _ in self._fixed:
            if words is not None and wire["type"] != "diff":
                shown.append(words[0])
                words = None
            shown.append(wire)
        if words is not None:
            shown.append(words[0])
        text = "".join(self._text)
        if self.verbatim and text:
            text = block(text)
        if self._last:
            text += ("\n" if text and not text.endswith("\n") else "") + self._last
        if text:
            shown.append(text_content(text))
        return shown

    def _add(self, text: str) -> None:
        self._text.append(text)
        self._size += len(text)
        most = self._limits.output
        if self._size > 2 * most:
            kept = "".join(self._text)[-most:]
            self._text = [_LEFT_OUT, kept]
            self._size = len(kept)

    def _soon(self, news: str) -> None:
        self._news.add(news)
        if self._is_due():
            self._show()
        else:
            self._tick()

    def _is_due(self) -> bool:
        size = self._size + self._fixed_size + _PLACE * len(self._locations)
        pace = PACE * (1 + size / _SLOWER_FROM)
        return time.monotonic() - self._shown_at >= pace and not self._turn.session.updates.crowded

    def _tick(self) -> None:
        self._is_ticking = True
        if self._ticker is None:
            # It goes on when the connection closes, and `_show` has no effect then.
            self._ticker = Watchdog(PACE, self._turn.session.client.connection.watchdog.spawner)
        self._ticker.add(self._show)

    def _stop_ticking(self) -> None:
        self._is_ticking = False
        if self._ticker is not None:
            self._ticker.drop(self._show)

    def _show(self) -> None:
        if self.ended:
            return
        if self._is_due():
            self._show_now()
        else:
            self._tick()

    def _show_now(self) -> None:
        if self._is_ticking:
            self._stop_ticking()
        self._shown_at = time.monotonic()
        try:
            self._change()
        except Exception:
            # There is no caller left whom it could be raised to.
            logger.exception("JSON cannot express the output of the tool call %s", self._id)

    def _change(self, more: Mapping[str, Any] | None = None) -> None:
        """Send an update with the changed members and `more`."""
        update: dict[str, Any] = {"sessionUpdate": "tool_call_update", "toolCallId": self._id}
        # With the current status: at an update without a status, some clients split the agent's message in two.
        if self.status is not None:
            update["status"] = self.status
        news, self._news = self._news, set()
        if "title" in news:
            update["title"] = self._title
        if "content" in news:
            update["content"] = self._content()
        if "locations" in news:
            update["locations"] = [place.to_wire() for place in self._locations]
        if more:
            update.update(more)
        # After its turn or session ended, the call already has its final status.
        with suppress(TurnEnded, SessionClosed):
            self._turn.tell(update)


def piece_of(content: ToolCallContent) -> Piece:
    """Return content as a `Piece`. Raises ValueError if the content cannot be encoded."""
    return content.to_wire(), size_of(content)


def with_words(pieces: Sequence[Piece], words: Piece) -> list[Piece]:
    """Return the items with `words` inserted after the leading diffs."""
    diffs = 0
    while diffs < len(pieces) and pieces[diffs][0]["type"] == "diff":
        diffs += 1
    return [*pieces[:diffs], words, *pieces[diffs:]]


def text_content(text: str) -> dict[str, Any]:
    """Return text as content of a tool call, in its wire form."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def as_content(piece: Any) -> ToolCallContent:
    """Return content of a tool call for text, a content block, a `Diff` or a `Terminal`. Raises UsageError for any
    other value."""
    if isinstance(piece, str):
        return Content(content=TextContent(text=piece))
    if isinstance(piece, (Content, Diff, Terminal)):
        return piece
    try:
        return Content(content=piece)
    except ValueError:
        kind = type(piece).__name__
        raise UsageError(f"a tool cannot show {kind}; expected text, content, a Diff or a Terminal") from None
