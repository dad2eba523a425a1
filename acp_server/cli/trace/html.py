"""A conversation as one page of HTML that needs nothing else: no server, no network, no other file.

What the recording says goes into the page as data: JSON in which no `<` is left, so that nothing in it can end the
element that holds it. The page's script shows it as text only, and the page's policy runs no script but that one.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from acp_server.cli.trace.anomalies import Anomaly
from acp_server.cli.trace.conversation import Conversation
from acp_server.wire import codec

LONGEST: Final = 64 * 1024
"""Characters of a message that are put into the page, unless all are wanted."""

_SCRIPTS: Final = ("data.js", "list.js", "timeline.js", "messages.js", "main.js")


def page(conversation: Conversation, found: Sequence[Anomaly], title: str, *, full: bool = False) -> str:
    """The page. `title` names the recording; `full` puts long messages in whole."""
    style = _part("page.css")
    script = "'use strict';\n" + "\n".join(map(_part, _SCRIPTS))
    filled = {
        "policy": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}",
        "title": html.escape(title),
        "style": style,
        "script": script,
        "data": _as_json(_data(conversation, found, None if full else LONGEST)),
    }
    # In one go: what one part says is not a place for another.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], _part("page.html"))


def _part(name: str) -> str:
    return files("acp_server.cli.trace").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _as_json(value: Any) -> str:
    # Within a script element, HTML looks for `<` alone.
    return codec.encode(value).decode().rstrip("\n").replace("<", "\\u003c")


def _data(conversation: Conversation, found: Sequence[Anomaly], longest: int | None) -> dict[str, Any]:
    """Lists of equal length rather than objects, which take a browser several times as long."""
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
