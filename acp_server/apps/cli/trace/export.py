"""Exports a conversation as a file that needs no server, no network and no other file.

A page of HTML contains all of the conversation. The recording is embedded as JSON in which no `<` is left, so that
nothing in it can end its element. The page's script shows the recording as text only, and the page's content security
policy runs no other script.

An image, in SVG without a script, contains a short conversation, for a guide or a report.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from acp_server.apps.cli.screen import one_line
from acp_server.apps.cli.trace.anomalies import Anomaly
from acp_server.apps.cli.trace.conversation import Conversation, duration
from acp_server.apps.cli.trace.parts import Cut, Span
from acp_server.errors import UsageError
from acp_server.wire import codec

LONGEST: Final = 64 * 1024
"""The most characters of a message in the page, unless `full` is set."""

_SCRIPTS: Final = ("data.js", "list.js", "timeline.js", "messages.js", "main.js")


def page(conversation: Conversation, found: Sequence[Anomaly], title: str, *, full: bool = False) -> str:
    """Return the page. `title` names the recording. With `full`, long messages are included whole."""
    style = _part("page.css")
    script = "'use strict';\n" + "\n".join(map(_part, _SCRIPTS))
    filled = {
        "policy": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}",
        "title": escape(title),
        "style": style,
        "script": script,
        "data": _as_json(_data(conversation, found, None if full else LONGEST)),
    }
    # In one pass: a placeholder in the text of a part must not be replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], _part("page.html"))


def _part(name: str) -> str:
    return files("acp_server.apps.cli.trace").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _as_json(value: Any) -> str:
    # Within a script element, HTML only looks for `<`.
    return codec.encode(value).decode().rstrip("\n").replace("<", "\\u003c")


def _data(conversation: Conversation, found: Sequence[Anomaly], longest: int | None) -> dict[str, Any]:
    """Return the data as columns of equal length. Objects would take a browser several times as long."""
    spans, messages = conversation.spans, conversation.messages
    last = [span.number for span in spans]
    for span in reversed(spans):
        if span.parent is not None:
            last[span.parent.number] = max(last[span.parent.number], last[span.number])
    return {
        "started": conversation.started,
        "seconds": conversation.seconds,
        "spans": {
            "kind": [span.kind for span in spans],
            "title": [span.title for span in spans],
            "dir": [span.dir or "" for span in spans],
            "parent": [-1 if span.parent is None else span.parent.number for span in spans],
            "last": last,
            "begin": [round(span.begin, 6) for span in spans],
            "end": [None if span.end is None else round(span.end, 6) for span in spans],
            "state": [span.state for span in spans],
        },
        "messages": {
            "t": [round(message.t, 6) for message in messages],
            "dir": [message.dir for message in messages],
            "mark": [message.mark for message in messages],
            "title": [message.title for message in messages],
            "owner": [message.owner for message in messages],
            "text": [_cut(message.text, longest) for message in messages],
        },
        "cuts": [
            {
                "t": round(cut.t, 6),
                "message": cut.message,
                "how": cut.how,
                "target": cut.target.number,
                "reached": [span.number for span in cut.reached],
                "seconds": cut.seconds,
                "follows": cut.because is not None,
            }
            for cut in conversation.cuts
        ],
        "anomalies": [
            {"what": one.what, "why": one.why, "span": one.span.number, "message": one.message} for one in found
        ],
    }


def _cut(text: str, longest: int | None) -> str:
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]} … {len(text) - longest:,} more characters are in the recording"


MOST: Final = 200
"""The most rows of an image. A conversation with more rows is for the page."""

_WIDTH: Final = 880
_LABEL: Final = 300
_SPACE: Final = 160
"""Pixels for words at the right of the last moment."""
_ROW: Final = 24
_TOP: Final = 28
_BAR: Final = 10
_LETTERS: Final = 44
_WAYS: Final = {"in": "\N{RIGHTWARDS ARROW} ", "out": "\N{LEFTWARDS ARROW} ", None: ""}

# Shades that are distinct on white and on black.
_STYLE: Final = """\
text{font:12px sans-serif;fill:#808080}.name{fill:#7a8699}.connection,.session{fill:#8b95a5;opacity:.5}
.turn{fill:#4a83e0}.tool{fill:#9065d0}.request{fill:#249aa0}.failed{fill:#d9483d}
.cut{stroke:#d9731a;stroke-width:2}.after{fill:url(#after);stroke:#d9731a}.words{fill:#d9731a}"""
_AFTER: Final = """\
<pattern id="after" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect width="3" height="6" fill="#d9731a"/></pattern>"""


def picture(conversation: Conversation) -> str:
    """Return the image. It has a row for each session, turn, tool call and request. A cancel is a line through the
    spans that it reached.

    Raises UsageError if there are more than `MOST` rows.
    """
    spans = conversation.spans
    if len(spans) > MOST:
        raise UsageError(
            f"an image has at most {MOST} rows, and this trace has {len(spans):,}; use --html to write a page"
        )
    drawing = _Drawing(conversation.seconds)
    parts = [part for span in spans for part in drawing.row(span)]
    parts += [part for cut in conversation.cuts if cut.because is None for part in drawing.cut(cut)]
    height = _TOP + len(spans) * _ROW + 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}">',
            f"<style>{_STYLE}</style><defs>{_AFTER}</defs>",
            _text(_LABEL, 14, "0"),
            _text(drawing.x(conversation.seconds), 14, duration(conversation.seconds)),
            *parts,
            "</svg>\n",
        ]
    )


class _Drawing:
    """Computes positions in the image. Time goes from the left to the right, and spans follow each other from the top
    down."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def x(self, t: float) -> float:
        """Return the horizontal position of a moment."""
        return round(_LABEL + (_WIDTH - _LABEL - _SPACE) * (t / self._seconds if self._seconds else 0.0), 1)

    def row(self, span: Span) -> Iterator[str]:
        """Yield the name and the bar of a span. The bar is hatched after the first cancel."""
        depth, parent = 0, span.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        y = _TOP + span.number * _ROW
        name, room = _WAYS[span.dir] + one_line(span.title), _LETTERS - 2 * depth
        yield _text(8 + 12 * depth, y + _BAR, name if len(name) <= room else f"{name[: room - 1]}…", "name")
        end = self._seconds if span.end is None else span.end
        cut = min((cut.t for cut in span.cuts), default=end)
        style = "failed" if span.state == "failed" else span.kind
        yield self._bar(style, y, span.begin, min(cut, end))
        if span.cuts:
            yield self._bar("after", y, cut, end)

    def cut(self, cut: Cut) -> Iterator[str]:
        """Yield the line of a cancel, with the time until the answer."""
        rows = [span.number for span in cut.reached]
        x, top, bottom = self.x(cut.t), _TOP + min(rows) * _ROW - 4, _TOP + max(rows) * _ROW + _BAR + 4
        yield f'<line class="cut" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'
        seconds = cut.seconds
        words = "never answered" if seconds is None else f"answered after {duration(seconds)}"
        end = self._seconds if cut.target.end is None else cut.target.end
        yield _text(self.x(end) + 6, _TOP + cut.target.number * _ROW + _BAR, words, "words")
        yield _text(x - 4, bottom + 8, cut.how, "words", anchor="end")

    def _bar(self, style: str, y: float, begin: float, end: float) -> str:
        x = self.x(begin)
        width = round(max(2.0, self.x(end) - x), 1)
        return f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{_BAR}" rx="2"/>'


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "") -> str:
    attributes = (f' class="{style}"' if style else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x}" y="{y}"{attributes}>{escape(text)}</text>'
