"""What a line that cannot be read to its end was going to be, judged by its beginning.

The members before the first nested one say whose it is: a caller may be waiting for just this message, and would wait
for ever. What can be read is not judged here, but in `messages`.
"""

from __future__ import annotations

import re
from typing import Any

from acp_server.errors import INVALID_REQUEST
from acp_server.wire import codec
from acp_server.wire.messages import Invalid, Response, is_request_id

_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_KEY = rb'\s*"(\w+)"\s*:'
_NEXT = re.compile(_KEY)
_MEMBER = re.compile(_KEY + rb'\s*("[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,18}|null)\s*,')


def classify_head(line: bytes | bytearray, problem: str) -> Response | Invalid:
    """A malformed response, or an invalid message with its id if that comes early enough to be seen."""
    members, following = _members(line)
    id = members.get("id")
    if "method" not in members and following in (b"result", b"error"):
        return Response(id, malformed=problem)
    return Invalid(INVALID_REQUEST, f"Invalid request: {problem}", id if is_request_id(id) else None)


def _members(line: bytes | bytearray) -> tuple[dict[str, Any], bytes | None]:
    """The leading members of an object that are plain ASCII strings, integers or null; the key of the one behind."""
    members: dict[str, Any] = {}
    opening = _OPENING.match(line)
    if opening is None:
        return members, None
    position = opening.end()
    while member := _MEMBER.match(line, position):
        members[member[1].decode()] = codec.decode(member[2])
        position = member.end()
    following = _NEXT.match(line, position)
    return members, following and following[1]
