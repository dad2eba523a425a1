"""Decodes and encodes JSON. Only this module imports orjson.

It knows no messages. `encode` always returns one line of valid UTF-8 JSON.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, cast

import orjson

from acp_server.errors import EncodeError

_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_HALVES = re.compile(
    # Behind a backslash that is escaped, the same letters are text.
    rb"(?<!\\)((?:\\\\)*+)"
    rb"(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""An escaped surrogate pair, or a lone escaped surrogate."""

_ID = re.compile(rb'\{"jsonrpc":"2\.0","id":"(?:[^"\\]|\\.)*+"')

_LONG_NUMBER = re.compile(rb"[0-9]{19}")

_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS
_A_LINE = _OPTIONS | orjson.OPT_APPEND_NEWLINE

_LARGE = 64 * 1024
"""The size, in bytes, above which a line is not copied, because the copy takes as long as the encoding."""


class DecodeError(ValueError):
    """Raised for bytes that are not UTF-8 JSON. The message is for the log only, because it may quote the input."""


def decode(text: bytes | bytearray) -> Any:
    """Decode one JSON text. An integer beyond 64 bits becomes a float, as in JavaScript.

    Raises DecodeError for invalid UTF-8, NaN, a number beyond the range of floats, nesting beyond the parser's limit,
    and truncated text.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # A flood of bad lines must be cheap: most of them need no second parser.
        if not text.startswith(_BOM) and _SURROGATE.search(text) is None:
            raise DecodeError(str(error)) from None
    # orjson refuses a byte-order mark and lone surrogates, which a JavaScript client writes when it cuts a text inside
    # an emoji. Everything else must pass orjson first, since the standard library accepts more than JSON.
    text = text.removeprefix(_BOM)
    try:
        orjson.loads(_SURROGATE.sub(rb"\\u003f", text))
        # A Python call for each integer would make decoding five times as slow.
        parse_int = _integer if _LONG_NUMBER.search(text) else None
        return json.loads(text.decode(), parse_int=parse_int)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from None


def mended(text: bytes) -> bytes:
    """Return JSON with each lone surrogate replaced by U+FFFD, because few parsers accept lone surrogates."""
    return _HALVES.sub(_mended, text) if _SURROGATE.search(text) else text


def sendable(line: bytes) -> bytes:
    """Return the line of a message, `mended` except for the id of a response. The id stays unchanged, so that the
    caller recognizes it."""
    head = _ID.match(line)
    start = head.end() if head else 0
    return line[:start] + mended(line[start:])


def _mended(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[2] else escape[1] + rb"\ufffd"


def nests_more(than: int, text: bytes | bytearray, value: Any) -> bool:
    """Whether `value`, the decoded `text`, contains more objects and arrays than `than`."""
    # Strings can contain brackets as well, so the count in the text is only an upper bound.
    if text.count(b"{") + text.count(b"[") <= than:
        return False
    count = 0
    left = [value]
    while left and count <= than:
        each = left.pop()
        inside: Iterable[Any] = cast("dict[str, Any]", each).values() if isinstance(each, dict) else each
        # Stop at the limit: there may be millions.
        nested: list[Any] = list(islice(filter(_nests, inside), than - count + 1))
        count += len(nested)
        left += nested
    return count > than


def _nests(value: object) -> bool:
    return isinstance(value, (dict, list))


def encode(value: Any) -> bytes:
    """Encode `value` as one line of JSON, with its newline.

    Objects with a `to_wire()` method are written as its result, dataclasses by their fields, dates and UUIDs as
    strings, enums as their values, numeric keys as strings. NaN and infinity become null, as in JavaScript. Raises
    EncodeError for a value that JSON cannot express.
    """
    try:
        line = orjson.dumps(value, _to_wire, _A_LINE)
        if not line.isascii():
            line = _one_line(line)
        # orjson's result may hold pages for a few bytes. The concatenation is a new object of exact size.
        return line if len(line) > _LARGE else line[:-1] + b"\n"
    except orjson.JSONEncodeError as error:
        refusal = error
    # The standard library also writes lone surrogates, integers beyond 64 bits, and deeper nesting.
    try:
        text = json.dumps(value, default=_plain)
        # Decoded and encoded again: the standard library writes NaN, which is not JSON.
        text = json.dumps(json.loads(text, parse_constant=_null), separators=(",", ":"))
    except Exception as error:
        # Any exception of an author's `to_wire()`: a caller that expects EncodeError alone would lose a response.
        raise EncodeError(str(refusal)) from error
    return text.encode("ascii") + b"\n"


def encode_fragment(text: str) -> bytes:
    """Encode `text` as a JSON string, for a line that is assembled from fragments."""
    try:
        line = orjson.dumps(text)
        # The check of `_one_line` without the call, since this runs for each chunk of text.
        return line if b"\xe2" not in line else _one_line(line)
    except orjson.JSONEncodeError:
        return json.dumps(text).encode("ascii")


def _one_line(text: bytes) -> bytes:
    # U+2028 and U+2029 are legal in JSON, but readline of Node 24 and later ends a line at them.
    if b"\xe2" not in text:
        # True for most texts; searching one byte is ten times faster than searching three.
        return text
    return text.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")


def _to_wire(value: Any) -> Any:
    to_wire = getattr(value, "to_wire", None)
    if to_wire is not None:
        return to_wire()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"JSON cannot express {type(value).__name__}")


def _plain(value: Any) -> Any:
    try:
        return _to_wire(value)
    except TypeError:
        return orjson.loads(orjson.dumps(value, None, _OPTIONS))  # a date, a UUID, an enum


def _integer(digits: str) -> int | float:
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else float(digits)


def _null(_name: str) -> None:
    return None


__all__ = ["DecodeError", "decode"]
