"""h11's parser, changed to refuse requests that a proxy may parse in another way (request smuggling)."""

from __future__ import annotations

import re
from typing import Any, Final

import h11

LONGEST_HEAD: Final = 16 * 1024
"""The most bytes of a request before its body."""

_BARE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")
_FOLDED: Final = re.compile(rb"\r\n[ \t]")
_FRAMING: Final = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:([^\r]*)", re.IGNORECASE)
_ORIGIN: Final = re.compile(rb"^https?://[^/?]*/?", re.IGNORECASE)
CLOSE: Final = (b"connection", b"close")
"""The header with which either side closes a connection after a message."""


class StrictParser(h11.Connection):
    """The server's side of one connection.

    It refuses a head with lines that are folded or end in a bare LF, and a head with two body lengths. A request may
    have the whole URL as its target, as clients send it to a proxy (RFC 9112, section 3.2.2): applications get the
    path.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, LONGEST_HEAD)

    def next_event(self) -> Any:
        """See h11.Connection. Raises h11.RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            _check(self.trailing_data[0])
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        headers, target = event.headers.raw_items(), _ORIGIN.sub(b"/", event.target)
        is_encoded = any(name == b"transfer-encoding" for name, _ in event.headers)
        if is_encoded:
            # The connection closes after such a body, since h11 is also lenient about the lines of its trailer.
            headers.append(CLOSE)
        if not is_encoded and target == event.target:
            return event
        return h11.Request(method=event.method, target=target, http_version=event.http_version, headers=headers)


def _check(data: bytes) -> None:
    """Raise h11.RemoteProtocolError for a head that can be parsed in two ways. The head may be partial."""
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
