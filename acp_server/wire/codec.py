"""JSON text to values and back. The only module that imports orjson.

It does not know what a message is. What comes out of `encode` is always one line of valid UTF-8 JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import orjson

from acp_server.errors import EncodeError

# orjson refuses "\ud800", which is legal JSON and what a JavaScript client writes when it cuts a text inside an emoji.
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class DecodeError(ValueError):
    """The bytes are not JSON in UTF-8. The text is for the log; it may quote the input."""


def decode(line: bytes) -> Any:
    """The value of one JSON text.

    Raises `DecodeError` for anything else: bad UTF-8, NaN, nesting beyond what the parser takes, a torn text.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if _LONE_SURROGATE.search(line) is None:
            raise DecodeError(str(error)) from None
    try:
        return json.loads(line.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from None


def encode(value: Any) -> bytes:
    """`value` as one line of JSON, newline included.

    Objects with a `to_wire()` method are written as what it returns. Raises `EncodeError` for what JSON cannot express.
    """
    try:
        return orjson.dumps(value, _to_wire, orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as error:
        refusal = error
    # Lone surrogates and integers beyond 64 bits: valid as ASCII JSON, though orjson does not write them.
    try:
        text = json.dumps(value, default=_to_wire, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        raise EncodeError(str(refusal)) from None
    return text.encode("ascii") + b"\n"


def _to_wire(value: Any) -> Any:
    to_wire = getattr(value, "to_wire", None)
    if to_wire is None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return to_wire()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
