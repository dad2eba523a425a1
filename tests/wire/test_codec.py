"""What goes in comes out, and nothing but one line of strict JSON ever leaves."""

import dataclasses
import datetime as dt
import enum
import json
import math
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acp_server.errors import EncodeError
from acp_server.wire import codec
from acp_server.wire.codec import DecodeError, decode, encode, encode_fragment
from tests.wire.live import strict

MILLION = 1_000_000


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


# Reading


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":[1,-2.5,true,null,"\xc3\xa4\\n"]}', {"a": [1, -2.5, True, None, "ä\n"]}),
        (b' {"a" : 1}\r', {"a": 1}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b'["", "\\u0000"]', ["", "\0"]),
        (b'"\\\\ud800"', "\\ud800"),
        (b'\xef\xbb\xbf"\\\\ud800\\ud83d\\ude00"', "\\ud800\U0001f600"),
    ],
)
def test_json_is_read(text: bytes, value: Any) -> None:
    assert decode(text) == value
    assert decode(bytearray(text)) == value


@pytest.mark.behaviour("A8", "L5", "L7")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"hello",
        b"{} {}",
        b"{'a':1}",
        b'{"a":1,}',
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"1e999",
        b"-1e999",
        b"9" * 309,
        b"9" * 5000,
        b"01",
        b'"\x00"',
        b'"\xff"',
        b'"\xc3"',
        b'"\xed\xa0\x80"',  # a surrogate that was encoded as if it were a character
        b'"\xc0\x80"',
        b"\xff\xfe{\x00}\x00",
        b"{\x00}\x00",
        b'{"a":1',
        nested(MILLION),
        nested(1025),
        b"[" * MILLION,
        b'{"a":' * MILLION + b"1" + b"}" * MILLION,
        b'{"a":' * MILLION,
    ],
    ids=lambda text: repr(text[:20]),
)
@pytest.mark.parametrize("where", ["alone", "beside a lone surrogate", "behind a byte-order mark"])
def test_anything_else_is_a_decode_error_whichever_parser_reads_it(text: bytes, where: str) -> None:
    if where == "beside a lone surrogate":
        text = b'["\\ud800",' + text + b"]"
    elif where == "behind a byte-order mark":
        text = b"\xef\xbb\xbf" + text
    with pytest.raises(DecodeError) as caught:
        decode(text)
    assert len(str(caught.value)) < 200  # It goes to the log.


@pytest.mark.parametrize("depth", [500, 1024])
def test_deep_nesting_is_read_up_to_a_thousand_levels(depth: int) -> None:
    value = decode(nested(depth))
    for _ in range(depth - 1):
        (value,) = value
    assert value == []


@pytest.mark.behaviour("A8")
@pytest.mark.parametrize("depth", range(900, 1024, 10))
def test_nesting_that_one_parser_takes_and_the_other_may_not_is_no_other_error(depth: int) -> None:
    try:
        value = decode(b'["\\ud800",' + nested(depth) + b"]")
    except DecodeError:
        return
    assert value[0] == "\ud800"


@pytest.mark.behaviour("L6")
def test_a_lone_surrogate_is_read_as_python_has_it() -> None:
    assert decode(b'{"\\ud800":["\\uDBFFx\\udc00", "\\ud83d\\ude00"]}') == {"\ud800": ["\udbffx\udc00", "\U0001f600"]}


@pytest.mark.behaviour("L7")
def test_a_byte_order_mark_is_skipped_once() -> None:
    assert decode(b'\xef\xbb\xbf{"a":1}') == {"a": 1}
    with pytest.raises(DecodeError):
        decode(b'\xef\xbb\xbf\xef\xbb\xbf{"a":1}')


@pytest.mark.behaviour("L7")
@pytest.mark.parametrize("other", [b"1", b'"\\ud800"'])
def test_the_last_of_duplicate_keys_counts(other: bytes) -> None:
    assert decode(b'{"a":1,"a":2,"b":' + other + b"}")["a"] == 2


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**70, 10**308])
def test_an_integer_beyond_64_bits_becomes_a_float_whichever_parser_reads_it(number: int) -> None:
    for text in (b"[%d]" % number, b'[%d,"\\ud800"]' % number):
        value = decode(text)[0]
        assert type(value) is float
        assert value == float(number)


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 2**53 + 1])
def test_an_integer_of_64_bits_stays_one_whichever_parser_reads_it(number: int) -> None:
    for text in (b"[%d]" % number, b'[%d,"\\ud800"]' % number):
        value = decode(text)[0]
        assert type(value) is int
        assert value == number


def test_only_where_a_number_is_long_is_each_of_them_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    monkeypatch.setattr(codec, "_integer", looked_at.append)
    assert decode(b'[1,123456789012345678,-7,"\\ud800"]')[:3] == [1, 123456789012345678, -7]
    assert not looked_at
    decode(b'[1,1234567890123456789,"\\ud800"]')
    assert looked_at == ["1", "1234567890123456789"]


class Noted(list[Any]):
    """A list that knows how much of it was looked at."""

    seen = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self.seen += 1
            yield item


def test_no_more_objects_are_counted_than_it_takes() -> None:
    items = [1, *[{}] * 100]
    value = Noted(items)
    assert codec.nests_more(10, encode(items), [value])
    assert value.seen < 20
    assert not codec.nests_more(101, encode(items), [value])


# Writing


def test_text_is_written_as_utf_8_without_blanks() -> None:
    assert encode({"ä": ["\U0001f600", 1]}) == '{"ä":["\U0001f600",1]}\n'.encode()
    assert encode_fragment("ä") == '"ä"'.encode()


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: Any
    _y: int = 2


@dataclasses.dataclass
class Origin:
    x: int = 0


@dataclasses.dataclass
class Spoken:
    text: str

    def to_wire(self) -> Any:
        return {"said": self.text}


class Broken:
    """Raises what no encoder expects."""

    def to_wire(self) -> Any:
        raise KeyError("secret")


class Endless:
    def to_wire(self) -> Any:
        return [self]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": [1, -2.5, True, None, "ä\n"], "b": {}}, {"a": [1, -2.5, True, None, "ä\n"], "b": {}}),
        ((1, [(2,)]), [1, [[2]]]),
        (Spoken("hi"), {"said": "hi"}),
        ([Point(Point(Spoken("hi")))], [{"x": {"x": {"said": "hi"}, "_y": 2}, "_y": 2}]),
        (Origin(), {"x": 0}),
        (Colour.RED, "red"),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC), "2024-02-29T01:02:03+00:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({0: "a", None: "b", True: "c"}, {"0": "a", "null": "b", "true": "c"}),
        (2**70, 2**70),
        (math.nan, None),
        ([math.inf, -math.inf], [None, None]),
    ],
    ids=repr,
)
@pytest.mark.behaviour("A13")
def test_what_is_written_does_not_depend_on_the_text_beside_it(value: Any, written: Any) -> None:
    assert strict(encode(value)) == written
    # A lone surrogate, as in the name of a file that is not UTF-8, makes another encoder take over.
    assert strict(encode([value, "\udcff"])) == [written, "\udcff"]


@pytest.mark.behaviour("A14")
@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, b"bytes", Spoken, Origin, Broken(), Endless(), {(1,): 2}, 10**5000],
    ids=["object", "set", "bytes", "class", "dataclass", "broken", "endless", "tuple key", "digits"],
)
def test_what_json_cannot_express_is_an_encode_error(value: Any) -> None:
    for whole in (value, {"a": [value]}, [value, "\ud800"]):
        with pytest.raises(EncodeError) as caught:
            encode(whole)
        assert caught.value.__cause__ is not None


@pytest.mark.behaviour("A14")
def test_a_value_that_contains_itself_is_an_encode_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(EncodeError):
        encode(circle)


def test_deep_nesting_is_written_as_far_as_it_is_read() -> None:
    assert encode(decode(nested(800))) == nested(800) + b"\n"


@pytest.mark.behaviour("A14")
def test_bottomless_nesting_is_an_encode_error() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(EncodeError):
        encode(value)


@pytest.mark.behaviour("A13")
@pytest.mark.parametrize("text", ["a\u2028b", "\u2029\u2028", "\u2028\ud800", "\n\r\x0b\x0c\x1c\x85", "\U0001f600ä\0"])
@pytest.mark.parametrize("around", ["", "x" * 70_000, "“" * 30_000])
def test_no_character_of_a_text_ends_the_line(text: str, around: str) -> None:
    text = around + text + around
    assert strict(encode({text: text})) == {text: text}
    assert strict(encode_fragment(text) + b"\n") == text


@pytest.mark.behaviour("L6")
def test_a_lone_surrogate_is_written_escaped() -> None:
    assert encode({"\ud800": "\udfff"}) == b'{"\\ud800":"\\udfff"}\n'
    assert encode_fragment("\ud800") == b'"\\ud800"'


# Both


TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(2**80), 2**80) | st.just(2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def _as_json(value: Any, *, big: type) -> Any:
    """What JSON can say of a value: no NaN, and two halves of a surrogate pair side by side are one character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_as_json(item, big=big) for item in value]
    if isinstance(value, dict):
        return {_as_json(key, big=big): _as_json(item, big=big) for key, item in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return big(value)
    return value


@pytest.mark.behaviour("A13", "L6")
@given(VALUES)
@example(["\ud83d\ude00", "\ude00\ud83d", math.nan, 2**64, -(2**63) - 1])
@settings(max_examples=400)
def test_any_json_value_goes_round(value: Any) -> None:
    line = encode(value)
    assert strict(line) == _as_json(value, big=int)
    assert decode(line) == _as_json(value, big=float)
    assert encode(decode(line)) == encode(_as_json(value, big=float))


@pytest.mark.behaviour("A13", "L6")
@given(TEXTS | st.text())
def test_any_text_is_written_as_a_fragment_of_a_line(text: str) -> None:
    assert strict(encode_fragment(text) + b"\n") == _as_json(text, big=int)


_TOKENS = rb'{ } [ ] : , " \ \ud800 \udc00 1 - . e9 999 "a" null true NaN Infinity'.split()
SCRAPS = st.sampled_from([*_TOKENS, b" ", b"\r", b"\0", b"\xff", b"\xc3\xa4", b"\xef\xbb\xbf"])


@pytest.mark.behaviour("A8", "L5")
@given(st.binary(max_size=40) | st.lists(SCRAPS, max_size=12).map(b"".join))
@settings(max_examples=600)
def test_any_bytes_are_a_value_or_a_decode_error_just_as_the_standard_library_says(text: bytes) -> None:
    try:
        expected = json.loads(text.removeprefix(b"\xef\xbb\xbf").decode(), parse_constant=_refuse, parse_float=_finite)
    except ValueError:
        with pytest.raises(DecodeError):
            decode(text)
    else:
        assert decode(text) == _as_json(expected, big=float)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _finite(digits: str) -> float:
    if math.isinf(float(digits)):
        raise ValueError(digits)
    return float(digits)
