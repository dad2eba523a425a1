"""What of a request's form is refused although h11 takes it: all that a proxy in front may read in another way.

Two readings of where a request ends let a client smuggle a second one past the proxy (RFC 9112, section 11.2).
"""

from __future__ import annotations

import re
from typing import Any, Final

import h11

_BARE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")
_FOLDED: Final = re.compile(rb"\r\n[ \t]")
_FRAMING: Final = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:([^\r]*)", re.IGNORECASE)
_CLOSE: Final = (b"connection", b"close")


class StrictParser(h11.Connection):
    """h11's side of a server, which refuses a head with lines that end in a bare LF or are folded, and one that gives
    the length of its body in two ways."""

    def next_event(self) -> Any:
        """See h11.Connection. Raises h11.RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            _check(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            # Nothing is read behind such a body: h11 is lenient about the lines of its trailer, too.
            headers = [*event.headers.raw_items(), _CLOSE]
            return h11.Request(
                method=event.method, target=event.target, http_version=event.http_version, headers=headers
            )
        return event


def _check(data: bytes) -> None:
    """Raise h11.RemoteProtocolError for a head, or what there is of it, that can be read in two ways."""
    end = data.find(b"\r\n\r\n")
    head = data if end < 0 else data[: end + 2]
    if _BARE_LINE_FEED.search(head):
        raise h11.RemoteProtocolError("a line ends in a bare LF")
    if end < 0:
        return
    if _FOLDED.search(head):
        raise h11.RemoteProtocolError("a folded line")
    framing = _FRAMING.findall(head)
    if len(framing) > 1 or any(b"," in value for _, value in framing):
        raise h11.RemoteProtocolError("several lengths of the body")
    if framing and framing[0][0].lower() == b"transfer-encoding" and b" HTTP/1.0\r\n" in head:
        raise h11.RemoteProtocolError("an encoding that HTTP/1.0 does not have")
