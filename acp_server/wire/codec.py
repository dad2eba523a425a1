"""JSON text to values and back. The only module that imports orjson.

It does not know what a message is. What comes out of `encode` is always one line of valid UTF-8 JSON.
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
"""Two halves that pair, or one half."""

_ID = re.compile(rb'\{"jsonrpc":"2\.0","id":"(?:[^"\\]|\\.)*+"')

_LONG_NUMBER = re.compile(rb"[0-9]{19}")

_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS
_A_LINE = _OPTIONS | orjson.OPT_APPEND_NEWLINE

_LARGE = 64 * 1024
"""Bytes from which on a line is not copied: that takes as long as writing it did."""


class DecodeError(ValueError):
    """The bytes are not JSON in UTF-8. The text is for the log; it may quote the input."""


def decode(text: bytes | bytearray) -> Any:
    """The value of one JSON text. An integer beyond 64 bits becomes a float, as it does in JavaScript.

    Raises `DecodeError` for anything else: bad UTF-8, NaN, a number that no float can hold, nesting beyond what the
    parser takes, a torn text.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # A flood of such lines is to cost little: most of them need no second look.
        if not text.startswith(_BOM) and _SURROGATE.search(text) is None:
            raise DecodeError(str(error)) from None
    # What orjson does not read: a byte-order mark, and lone surrogates, which a JavaScript client writes when it cuts a
    # text inside an emoji. All else has to be right in its eyes, for the standard library is laxer.
    text = text.removeprefix(_BOM)
    try:
        orjson.loads(_SURROGATE.sub(rb"\\u003f", text))
        # A call for each integer would take four times as long as all the rest.
        parse_int = _integer if _LONG_NUMBER.search(text) else None
        return json.loads(text.decode(), parse_int=parse_int)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from None


def mended(text: bytes) -> bytes:
    """JSON whose texts have halves of surrogate pairs in them, which few parsers take, with U+FFFD in their place."""
    return _HALVES.sub(_mended, text) if _SURROGATE.search(text) else text


def sendable(line: bytes) -> bytes:
    """A message for any parser: see `mended`. The id of an answer stays as it came, for its caller to know it."""
    head = _ID.match(line)
    start = head.end() if head else 0
    return line[:start] + mended(line[start:])


def _mended(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[2] else escape[1] + rb"\ufffd"


def nests_more(than: int, text: bytes | bytearray, value: Any) -> bool:
    """Whether `value`, which is what `text` decodes to, has more objects and arrays in it `than` this."""
    # Texts have brackets, too; but without these there is nothing to look for.
    if text.count(b"{") + text.count(b"[") <= than:
        return False
    count = 0
    left = [value]
    while left and count <= than:
        each = left.pop()
        inside: Iterable[Any] = cast("dict[str, Any]", each).values() if isinstance(each, dict) else each
        # No more of them than it takes: there may be millions.
        nested: list[Any] = list(islice(filter(_nests, inside), than - count + 1))
        count += len(nested)
        left += nested
    return count > than


def _nests(value: object) -> bool:
    return isinstance(value, (dict, list))


def encode(value: Any) -> bytes:
    """`value` as one line of JSON, newline included.

    Objects with a `to_wire()` method are written as what it returns, dataclasses by their fields, dates and UUIDs as
    strings, enums as their values, keys that are numbers as strings. NaN and infinity become null, as they do in
    JavaScript. Raises `EncodeError` for what JSON cannot express.
    """
    try:
        line = orjson.dumps(value, _to_wire, _A_LINE)
        if not line.isascii():
            line = _one_line(line)
        # The sum is a new object that is as large as it looks, where the library's own may hold pages for a few bytes.
        return line if len(line) > _LARGE else line[:-1] + b"\n"
    except orjson.JSONEncodeError as error:
        refusal = error
    # What the standard library can write and orjson cannot: lone surrogates, integers beyond 64 bits, deeper nesting.
    try:
        text = json.dumps(value, default=_plain)
        # Once more, for it writes NaN.
        text = json.dumps(json.loads(text, parse_constant=_null), separators=(",", ":"))
    except Exception as error:
        # Of a `to_wire()` whatsoever: nothing else may come out of here, or an answer would be lost.
        raise EncodeError(str(refusal)) from error
    return text.encode("ascii") + b"\n"


def encode_fragment(text: str) -> bytes:
    """`text` as a JSON string, to be put into a line that is built by hand."""
    try:
        line = orjson.dumps(text)
        # As in `_one_line`, which each piece of text would otherwise call.
        return line if b"\xe2" not in line else _one_line(line)
    except orjson.JSONEncodeError:
        return json.dumps(text).encode("ascii")


def _one_line(text: bytes) -> bytes:
    # The line and paragraph separators are legal in JSON, but node's readline, since version 24, ends a line there.
    if b"\xe2" not in text:
        # Most texts: one byte is found ten times faster than three.
        return text
    return text.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")


def _to_wire(value: Any) -> Any:
    to_wire = getattr(value, "to_wire", None)
    if to_wire is not None:
        return to_wire()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


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
