"""What a subject could write instead of a message: values retyped, members gone or doubled, lines cut and glued."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

_DEEP = "[" * 400 + "]" * 400
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.0, 1.5, 2**31, 2**63, -(2**64), 10**400, 1e308, "", "1", "-1", "true", "null"),
    *("\ud800", "\x00", "/\x00", "/" + "x" * 5000, "x" * 5000, "/etc/../\ud800", "a\nb", "\u202e\x1b[2J", "💥" * 50),
    *([], {}, [[]], [None], [1, "1"], {"": ""}, {"sessionId": 5}, {"__proto__": 1}),
    *([{"type": "text"}], {"outcome": {}}, {"code": "x"}, {"code": -32601, "message": None}, json.loads(_DEEP)),
)
_NAMES = ("", "id", "method", "params", "result", "error", "jsonrpc", "_meta", "sessionId", "\ud800", "x" * 2000)
_LINES = (
    *(b"", b"\xff\xfe", b"\x00", b"NaN", b"[]", b"{}", b"null", b"[1,2", b'"', b"\xef\xbb\xbf{}", b"1e999", b"-"),
    *(b"[" * 5000, b'{"a":' * 3000, b"9" * 6000, b'{"jsonrpc":"2.0","id":NaN}', b'{"id":1,"id":2,"result":{}}'),
)


def lines(message: Any, dice: random.Random, rate: float) -> Iterator[bytes]:
    """The lines in place of one message. `rate`: how often it is not what it should be, from 0 to 1."""
    if dice.random() > rate:
        yield _encoded(message)
        return
    match dice.randrange(12):
        case 0:
            return
        case 1:
            yield from (_encoded(message),) * dice.choice((2, 3, 50))
        case 2:
            line = _encoded(message)
            yield line[: dice.randrange(len(line))]
        case 3:
            yield dice.choice(_LINES)
            yield _encoded(message)
        case 4:
            line = bytearray(_encoded(message))
            for _ in range(dice.randint(1, 5)):
                line[dice.randrange(len(line))] = dice.randrange(256)
            yield bytes(line).replace(b"\n", b" ")
        case 5:
            yield _encoded([message, message])
        case _:
            yield _encoded(changed(message, dice))


def changed(message: Any, dice: random.Random) -> Any:
    """A copy of a message with one to three places of it changed."""
    message = copy.deepcopy(message)
    for _ in range(dice.randint(1, 3)):
        places = list(_places(message))
        if not places:
            return dice.choice(_VALUES)
        holder, key = dice.choice(places)
        match dice.randrange(5):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[dice.choice(_NAMES)] = holder.pop(key)
            case 2 if isinstance(holder, dict):
                holder[dice.choice(_NAMES)] = copy.deepcopy(dice.choice(_VALUES))
            case _:
                holder[key] = copy.deepcopy(dice.choice(_VALUES))
    return message


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    stack = [value]
    while stack:
        each = stack.pop()
        keys = list(each) if isinstance(each, dict) else list(range(len(each))) if isinstance(each, list) else []
        for key in keys:
            yield each, key
            stack.append(each[key])


def _encoded(message: Any) -> bytes:
    return json.dumps(message).encode()
