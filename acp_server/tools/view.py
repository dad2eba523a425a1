"""Output on its way from a tool's function, in whatever thread, to what the client is shown: a bounded amount of it.

A function that says more than the loop can take loses what it said first, as the client is shown the end of long output
in any case. No caller waits here.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, Literal

from acp_server.errors import SessionClosed, TurnEnded, UsageError
from acp_server.safe_text import one_line
from acp_server.schema.content import TextContent
from acp_server.schema.tool_call import Content, Diff, Terminal, ToolCall, ToolCallLocation, ToolCallProgress
from acp_server.session.turn import Turn
from acp_server.tools.approval import block

if TYPE_CHECKING:
    from acp_server.schema.tool_call import ToolCallContent
    from acp_server.tasks.grace import Watchdog

logger: logging.Logger = logging.getLogger("acp_server.tools")


class UnshownPieces:
    """Pieces in order. `most`: how much of them there may be, see `size_of`; the last piece is kept in any case."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._pieces: deque[tuple[str | ToolCallContent, int]] = deque()
        self._size = 0
        self._lost = False

    def add(self, piece: str | ToolCallContent) -> bool:
        """Add a piece. True if it is the first one since the last `take`, so that the loop has to be told."""
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
        """The first pieces, up to the piece with which they are larger than `most`; whether some before them were lost;
        and whether there are more, of which the loop has to be told then."""
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
"""Characters that a piece is taken for, besides its text."""


def size_of(piece: str | ToolCallContent) -> int:
    """How much a piece of output takes, in characters."""
    if isinstance(piece, str):
        return len(piece) + _PIECE
    block = getattr(piece, "content", piece)
    parts = (block, getattr(block, "resource", None))
    texts = [getattr(part, name, None) for part in parts for name in ("text", "data", "blob", "old_text", "new_text")]
    return _PIECE + sum(len(text) for text in texts if isinstance(text, str))


PACE: Final = 0.05
"""Seconds between two updates of one call."""

_SLOWER_FROM: Final = 10_000
"""Characters in an update that halve the pace, since each carries all of them."""

TITLE: Final = 1_000
"""Characters of a title, which is one line."""

_PLACE: Final = 200
"""Characters that a place is taken for."""

_LEFT_OUT: Final = "[earlier output is left out]\n"


class View:
    """What the client knows of one tool call."""

    def __init__(self, turn: Turn, id: str, ticker: Watchdog) -> None:
        self._turn = turn
        self._id = id
        self._ticker = ticker
        self._limits = turn.client.connection.limits
        self._fixed: deque[ToolCallContent] = deque()
        self._fixed_size = 0
        self._text: list[str] = []
        self._last = ""
        self._words: ToolCallContent | None = None
        """What the user is asked at this time."""
        self._size = 0
        self._shown_at = 0.0
        self._locations: deque[ToolCallLocation] = deque(maxlen=self._limits.locations)
        self._title = ""
        # What has changed and was not shown yet: content, locations, title.
        self._news: set[str] = set()
        self.verbatim = False
        """Whether the output is not Markdown, and is shown as a block of code."""
        self.status: Literal["pending", "in_progress", "completed", "failed"] | None = None

    @property
    def ended(self) -> bool:
        """Whether the client was told of its end."""
        return self.status in ("completed", "failed")

    def begin(self, title: str, kind: str, name: str, arguments: Any) -> None:
        """The call is there, `pending`."""
        # The status, too, although it is the default: not every client knows that.
        call = ToolCall(tool_call_id=self._id, title=title, kind=kind, status="pending", raw_input=arguments, name=name)
        self._put(call)
        self.status = "pending"

    def started(self) -> None:
        """It runs from now on."""
        if not self.ended:
            self.status = "in_progress"
            if self._words is not None:
                self._words = None
                self._news.add("content")
            # The first output waits for no pace.
            self._shown_at = 0.0
            self.change(**self._unshown())

    def end(self, status: Literal["completed", "failed"], *, last: str | None = None, **changes: Any) -> None:
        """It has ended; nothing is shown behind this. `last`: what is said at the end. Only the first time counts.

        Nothing if it did not begin. What cannot be written is left out.
        """
        if self.ended or self.status is None:
            return
        self._ticker.drop(self._show)
        self._last = last or ""
        self.status = status
        if self._last or self._text or self._fixed or self._words:
            self._words = None
            self._news.add("content")
        try:
            self._put(ToolCallProgress(tool_call_id=self._id, status=status, **self._unshown(), **changes))
        except Exception:
            # An update is written whole or not at all, and without this one the call would have no end.
            logger.exception("the tool call %s ends without its content, which cannot be written", self._id)
            self._put(ToolCallProgress(tool_call_id=self._id, status=status, meta=changes.get("meta")))

    def change(self, **changes: Any) -> None:
        """Something of it is different. Not shown once it has ended."""
        if not self.ended:
            # With the status that it has: for an update without one, some clients break the message that is being said.
            status: dict[str, Any] = {} if self.status is None else {"status": self.status}
            self._put(ToolCallProgress(tool_call_id=self._id, **(status | changes)))

    def say(self, text: str) -> None:
        """More output, of which the end is shown."""
        if text and not self.ended:
            self._add(text)
            self._soon("content")

    def attach(self, *content: ToolCallContent) -> None:
        """Content that stands before the output: diffs, terminals, images."""
        if not self.ended:
            self.keep(*content)
            self._soon("content")

    def keep(self, *content: ToolCallContent) -> None:
        """Content that the client is shown in another way at this moment, and that later updates repeat. If it is too
        much, what was there before has to go."""
        self._fixed += content
        self._fixed_size += sum(map(size_of, content))
        while self._fixed_size > self._limits.content and len(self._fixed) > max(1, len(content)):
            self._fixed_size -= size_of(self._fixed.popleft())

    def ask(self, title: str | None, words: ToolCallContent, *previews: ToolCallContent) -> None:
        """The user is going to be asked this, and is shown it before. The words do not outlive the answer."""
        self._words = words
        known = {place.path for place in self._locations}
        # For some clients the first place is the path of the diff.
        unknown = [piece.path for piece in previews if isinstance(piece, Diff) and piece.path not in known]
        self._locations.extendleft(ToolCallLocation(path=path) for path in reversed(unknown))
        if self._locations:
            self._news.add("locations")
        self._news.add("content")
        self.explain(title, *previews)

    def explain(self, title: str | None, *content: ToolCallContent) -> None:
        """The user is not asked whether it may run: what would have been asked is shown, before it does anything."""
        self.keep(*content)
        if content:
            self._news.add("content")
        if title is not None:
            self._title = title
            self._news.add("title")
        if self._news and not self.ended:
            self._show_now()

    @property
    def locations(self) -> Sequence[ToolCallLocation]:
        """The places in files that it works at."""
        return tuple(self._locations)

    def locate(self, places: Sequence[ToolCallLocation]) -> None:
        """It works at these places, and no longer at others."""
        self._locations = deque(places, self._limits.locations)
        self._soon("locations")

    def add_place(self, place: ToolCallLocation) -> None:
        """It works at this place, too."""
        self._locations.append(place)
        self._soon("locations")

    def entitle(self, title: str) -> None:
        """It is called differently from now on."""
        self._title = one_line(title, TITLE)
        self._soon("title")

    @property
    def text(self) -> str:
        """The output so far, as far as it is shown."""
        return "".join(self._text)

    def content(self) -> list[ToolCallContent]:
        """What is shown as the call's content."""
        fixed = list(self._fixed) if self._words is None else with_words(self._fixed, self._words)
        text = block(self.text) if self.verbatim and self._text else self.text
        if self._last:
            text += ("\n" if text and not text.endswith("\n") else "") + self._last
        return [*fixed, Content(content=TextContent(text=text))] if text else fixed

    def _add(self, text: str) -> None:
        self._text.append(text)
        self._size += len(text)
        most = self._limits.output
        if self._size > 2 * most:
            kept = self.text[-most:]
            self._text = [_LEFT_OUT, kept]
            self._size = len(kept)

    def _soon(self, news: str) -> None:
        self._news.add(news)
        if self._is_due():
            self._show()
        else:
            self._ticker.add(self._show)

    def _is_due(self) -> bool:
        size = self._size + self._fixed_size + _PLACE * len(self._locations)
        pace = PACE * (1 + size / _SLOWER_FROM)
        return time.monotonic() - self._shown_at >= pace and not self._turn.session.updates.crowded

    def _show(self) -> None:
        if self.ended:
            return
        if not self._is_due():
            self._ticker.add(self._show)
            return
        self._show_now()

    def _show_now(self) -> None:
        self._ticker.drop(self._show)
        self._shown_at = time.monotonic()
        try:
            self.change(**self._unshown())
        except Exception:
            # There is no caller left whom it could be raised to.
            logger.exception("the output of the tool call %s cannot be written", self._id)

    def _unshown(self) -> dict[str, Any]:
        """What has changed, and counts as shown from now on."""
        news, self._news = self._news, set()
        changes: dict[str, Any] = {}
        if "content" in news:
            changes["content"] = self.content()
        if "locations" in news:
            changes["locations"] = list(self._locations)
        if "title" in news:
            changes["title"] = self._title
        return changes

    def _put(self, update: Any) -> None:
        try:
            self._turn.put(update)
        except (TurnEnded, SessionClosed):
            pass  # it was told of the end before that, so there is nothing that it would miss


def with_words(pieces: Iterable[ToolCallContent], words: ToolCallContent) -> list[ToolCallContent]:
    """The words behind the diffs that the pieces begin with, and in front of all others."""
    rest = iter(pieces)
    diffs = [*takewhile(lambda piece: isinstance(piece, Diff), pieces)]
    return [*diffs, words, *islice(rest, len(diffs), None)]


def as_content(piece: Any) -> ToolCallContent:
    """Content of a tool call from what tools hand over: text, a content block, a `Diff`, a `Terminal`. Raises
    UsageError for anything else."""
    if isinstance(piece, str):
        return Content(content=TextContent(text=piece))
    if isinstance(piece, (Content, Diff, Terminal)):
        return piece
    try:
        return Content(content=piece)
    except ValueError:
        kind = type(piece).__name__
        raise UsageError(f"a tool cannot show {kind}; expected text, content, a Diff or a Terminal") from None
