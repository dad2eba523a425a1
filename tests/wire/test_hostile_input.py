"""On a live connection: whatever arrives gets its documented answer, tells nothing, and the next request works."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

import acp_server
from acp_server.errors import ConnectionClosed, MalformedResponse
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from tests.wire.live import Peer, request, served

pytestmark = pytest.mark.anyio

MILLION = 1_000_000
LIMIT = 8 * 1024 * 1024


async def echo(call: Call) -> Any:
    return call.request.params


async def hangs(_call: Call) -> None:
    await anyio.sleep_forever()


def routes() -> Routes:
    return Routes({"echo": Route(echo), "hangs": Route(hangs)})


def message(id: bytes, params: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"echo","params":%b}' % (id, params)


def tells_nothing(peer: Peer) -> None:
    """No text of an exception, no path, no name of this program's parts."""
    package = Path(acp_server.__file__).parent
    for word in (str(package), str(Path.home()), "Traceback", "Error", "orjson", "acp_server", ".py", "line 1", "char"):
        assert word.encode() not in peer.raw


PARSE_ERROR = (-32700, "Parse error")
NO_OBJECT = (-32600, "Invalid request: expected an object")
BAD_ID = (-32600, "Invalid request: id must be a 64-bit integer, a string or null")
BAD_VERSION = (-32600, 'Invalid request: jsonrpc must be "2.0"')
BAD_METHOD = (-32600, "Invalid request: method must be a string")

REFUSED = {
    "not JSON": (b"hello", PARSE_ERROR),
    "two texts on a line": (message(b"1") + message(b"2"), PARSE_ERROR),
    "an HTTP request": (b"GET / HTTP/1.1\r", PARSE_ERROR),
    "a header of the language server protocol": (b"Content-Length: 12\r", PARSE_ERROR),
    "half a message": (message(b"1")[:-10], PARSE_ERROR),
    "invalid UTF-8": (message(b"1", b'{"a":"\xff"}'), PARSE_ERROR),
    "invalid UTF-8 beside a lone surrogate": (message(b"1", b'{"a":"\xff\\ud800"}'), PARSE_ERROR),
    "an encoded surrogate": (message(b"1", b'{"a":"\xed\xa0\x80"}'), PARSE_ERROR),
    "UTF-16": (message(b"1").decode().encode("utf-16-le"), PARSE_ERROR),
    "a NUL in a string": (message(b"1", b'{"a":"\x00"}'), PARSE_ERROR),
    "NaN": (message(b"1", b"[NaN]"), PARSE_ERROR),
    "Infinity beside a lone surrogate": (message(b"1", b'["\\ud800",Infinity]'), PARSE_ERROR),
    "a number that no float can hold": (message(b"1", b"[1e999]"), PARSE_ERROR),
    "an integer of 5,000 digits": (message(b"1", b"[" + b"9" * 5000 + b"]"), PARSE_ERROR),
    "an integer of 5,000 digits beside a lone surrogate": (
        message(b"1", b'["\\ud800",' + b"9" * 5000 + b"]"),
        PARSE_ERROR,
    ),
    "an id of 5,000 digits": (message(b"9" * 5000), PARSE_ERROR),
    "a million arrays": (b"[" * MILLION + b"]" * MILLION, PARSE_ERROR),
    "a million open arrays": (b"[" * MILLION, PARSE_ERROR),
    "a million objects": (b'{"a":' * MILLION + b"1" + b"}" * MILLION, PARSE_ERROR),
    "a million arrays in parameters": (message(b"1", b"[" * MILLION + b"]" * MILLION), PARSE_ERROR),
    "a million arrays beside a lone surrogate": (
        message(b"1", b'["\\ud800",' + b"[" * MILLION + b"]" * MILLION + b"]"),
        PARSE_ERROR,
    ),
    "two byte-order marks": (b"\xef\xbb\xbf" * 2 + message(b"1"), PARSE_ERROR),
    "a number": (b"17", NO_OBJECT),
    "a text": (b'"x"', NO_OBJECT),
    "null": (b"null", NO_OBJECT),
    "an empty batch": (b"[]", NO_OBJECT),
    "an id of 2**70": (message(b"%d" % 2**70), BAD_ID),
    "an id of 2**70 beside a lone surrogate": (message(b"%d" % 2**70, b'["\\ud800"]'), BAD_ID),
    "an id of 2**63": (message(b"%d" % 2**63), BAD_ID),
    "true as an id": (message(b"true"), BAD_ID),
    "a fraction as an id": (message(b"1.5"), BAD_ID),
    "1.0 as an id": (message(b"1.0"), BAD_ID),
    "an object as an id": (message(b'{"a":1}'), BAD_ID),
    "an array as an id": (message(b"[1]"), BAD_ID),
    "deep nesting as an id": (message(b"[" * 900 + b"]" * 900), BAD_ID),
    "no version and no id": (b'{"method":"echo"}', BAD_VERSION),
    "a number as a method and no id": (b'{"jsonrpc":"2.0","method":1}', BAD_METHOD),
    "an object without anything": (b"{}", (-32600, "Invalid request: no method")),
    "an endless line": (b"x" * (LIMIT + 1), (-32600, f"Invalid request: longer than {LIMIT} bytes")),
    "endless blanks": (b" " * (LIMIT + 1), (-32600, f"Invalid request: longer than {LIMIT} bytes")),
}


@pytest.mark.behaviour("A3", "A8", "A9", "A10", "H2", "L4", "L5", "L7", "L8")
@pytest.mark.parametrize("name", REFUSED)
async def test_it_is_refused_with_a_null_id_and_the_next_request_works(name: str) -> None:
    line, (code, text) = REFUSED[name]
    async with served(routes(), Limits(line=LIMIT, drain=0)) as peer:
        peer.send(request("first", "hangs"))
        peer.send(line, b"\n")
        refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}
        assert await peer.ping() == [refusal]
    tells_nothing(peer)


ACCEPTED = {
    "a byte-order mark": (b"\xef\xbb\xbf" + message(b"1") + b"\n", 1, {}),
    "CRLF": (message(b"1") + b"\r\n", 1, {}),
    "blank lines": (b"\n \n\r\n\t\n" + message(b"1") + b"\n\n\r\n", 1, {}),
    "blanks around": (b" \t" + message(b"1") + b" \r\n", 1, {}),
    "duplicate keys, the last of which count": (message(b'5,"id":1', b'{"a":1,"a":2}') + b"\n", 1, {"a": 2}),
    "a null id": (message(b"null") + b"\n", None, {}),
    "the largest id": (message(b"%d" % (2**63 - 1)) + b"\n", 2**63 - 1, {}),
    "the smallest id": (message(b"%d" % -(2**63)) + b"\n", -(2**63), {}),
    "an empty id": (message(b'""') + b"\n", "", {}),
    "a lone surrogate as an id": (message(b'"\\ud800"') + b"\n", "\ud800", {}),
    "lone surrogates in text": (message(b"1", b'{"\\udc00":"a\\ud800"}') + b"\n", 1, {"\ufffd": "a\ufffd"}),
    "an escaped emoji": (message(b"1", b'{"a":"\\ud83d\\ude00"}') + b"\n", 1, {"a": "\U0001f600"}),
    "line separators in text": (message(b"1", '{"a":"\u2028\u2029"}'.encode()) + b"\n", 1, {"a": "\u2028\u2029"}),
    "an integer of 70 bits": (message(b"1", b'{"a":%d}' % 2**70) + b"\n", 1, {"a": float(2**70)}),
    "an integer of 64 bits": (message(b"1", b'{"a":%d}' % (2**64 - 1)) + b"\n", 1, {"a": 2**64 - 1}),
    "null as parameters": (message(b"1", b"null") + b"\n", 1, None),
    "unknown members": (message(b'1,"trace":[{}]') + b"\n", 1, {}),
}


@pytest.mark.behaviour("A2", "A4", "L6", "L7")
@pytest.mark.parametrize("name", ACCEPTED)
async def test_it_is_unusual_but_works(name: str) -> None:
    line, id, params = ACCEPTED[name]
    async with served(routes()) as peer:
        peer.send(line)
        assert await peer.answer(id) == params
        assert await peer.ping() == []


@pytest.mark.parametrize("depth", [100, 255, 700])
async def test_deep_but_readable_nesting_comes_back(depth: int) -> None:
    async with served(routes()) as peer:
        peer.send(message(b"1", b'{"a":' + b"[" * depth + b"]" * depth + b"}"), b"\n")
        assert json.dumps(await peer.answer(1)) == '{"a": ' + "[" * depth + "]" * depth + "}"
        assert await peer.ping() == []


@pytest.mark.behaviour("L4", "A5")
async def test_an_endless_line_is_refused_once_and_before_it_ends() -> None:
    async with served(routes(), Limits(line=LIMIT, drain=0)) as peer:
        for _ in range(LIMIT // 65536 + 1):
            peer.send(b"x" * 65536)
        assert (await peer.next())["error"]["code"] == -32600
        for _ in range(3 * LIMIT // 65536):
            peer.send(b"x" * 65536)
        peer.send(b"\n")
        assert await peer.ping() == []


@pytest.mark.behaviour("L4")
async def test_a_request_over_the_limit_is_answered_under_its_own_id() -> None:
    async with served(routes(), Limits(line=1000, drain=0)) as peer:
        peer.send(request("big", "echo", {"text": "x" * 1000}))
        error = await peer.answer("big")
        assert error == {"code": -32600, "message": "Invalid request: longer than 1000 bytes"}
        assert await peer.ping() == []


# Answers


RESPONSES_TO_NOBODY: list[Any] = [
    *({"jsonrpc": "2.0", "id": id, "result": 1} for id in (99, "0", True, 0.0, None, [], {}, 2**70)),
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
    {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}},
    {"id": 99},
    {"id": 99, "error": "nope"},
    {"id": 99, "result": 1, "error": {}},
    {"result": None},
    [{"jsonrpc": "2.0", "id": 99, "result": 1}, {"jsonrpc": "2.0", "id": 98, "error": "nope"}],
    b'{"jsonrpc":"2.0","id":' + b"[" * 1000 + b"]" * 1000 + b',"result":1}\n',
    b'{"jsonrpc":"2.0","id":99,"result":NaN}\n',
    b'{"jsonrpc":"2.0","id":99,"result":"' + b"x" * LIMIT + b'"}\n',
]


@pytest.mark.behaviour("A11", "L8")
async def test_answers_that_nobody_asked_for_are_not_answered() -> None:
    async with served(routes(), Limits(line=LIMIT, drain=0)) as peer:
        for response in RESPONSES_TO_NOBODY:
            peer.send(response)
            assert await peer.ping() == []


@pytest.mark.behaviour("A12")
@pytest.mark.parametrize(
    "response",
    [
        b'{"jsonrpc":"2.0","id":0}',
        b'{"jsonrpc":"2.0","id":0,"error":"nope"}',
        b'{"jsonrpc":"2.0","id":0,"result":1,"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":0,"result":NaN}',
        b'{"jsonrpc":"2.0","id":0,"result":"\xff"}',
        b'{"jsonrpc":"2.0","id":0,"result":"' + b"x" * 1000,
    ],
    ids=lambda response: repr(response[:60]),
)
async def test_a_malformed_answer_fails_the_one_who_waits_at_once_and_nobody_else(response: bytes) -> None:
    async with served(limits=Limits(line=1000, drain=0)) as peer, anyio.create_task_group() as tasks:
        other: list[Any] = []

        async def asks_too() -> None:
            other.append(await peer.connection.request("y"))

        async def asks() -> None:
            with pytest.raises(MalformedResponse):
                await peer.connection.request("x")
            tasks.start_soon(asks_too)

        tasks.start_soon(asks)
        assert (await peer.next())["id"] == 0
        peer.send(response + b"\n")
        # Asked by the one who was waiting, so it has been told.
        assert await peer.next() == request(1, "y")
        peer.send({"jsonrpc": "2.0", "id": 1, "result": "fine"})
        assert await peer.ping() == []
        assert other == ["fine"]


# The end of input


@pytest.mark.behaviour("A8", "L8")
@pytest.mark.parametrize("tail", [message(b"1")[:-10], b"\xff", b"x" * 100, b"\xef\xbb\xbf{"])
async def test_half_a_message_at_the_end_is_refused_and_what_came_before_is_answered(tail: bytes) -> None:
    async with served(routes()) as peer:
        peer.send(request("before", "ping"), tail)
        peer.send_eof()
        lines = await peer.rest()
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    assert sorted(lines, key=str) == sorted([{"jsonrpc": "2.0", "id": "before", "result": "pong"}, refusal], key=str)
    tells_nothing(peer)


@pytest.mark.behaviour("A12", "G11")
async def test_half_an_answer_at_the_end_is_not_answered() -> None:
    async with served(routes()) as peer, anyio.create_task_group() as tasks:

        async def asks() -> None:
            with pytest.raises((MalformedResponse, ConnectionClosed)):
                await peer.connection.request("x")

        tasks.start_soon(asks)
        await peer.next()
        peer.send(b'{"jsonrpc":"2.0","id":0,"result":{"a')
        peer.send_eof()
        assert await peer.rest() == []


@pytest.mark.behaviour("L8", "A13")
async def test_all_of_it_in_one_stream_in_any_chunks_gives_the_same_answers() -> None:
    bad = [line + b"\n" for line, _ in REFUSED.values() if len(line) < 10_000]
    stream = b"".join(line + message(b"%d" % id) + b"\r\n\n" for id, line in enumerate(bad))
    outputs: list[list[str]] = []
    for size in (1, 7, 4096, len(stream)):
        async with served(routes(), Limits()) as peer:
            for start in range(0, len(stream), size):
                peer.send(stream[start : start + size])
                await anyio.lowlevel.checkpoint()
            peer.send_eof()
            outputs.append(sorted(map(json.dumps, await peer.rest())))
            tells_nothing(peer)
    assert len(outputs[0]) == 2 * len(bad)
    assert outputs == [outputs[0]] * 4
