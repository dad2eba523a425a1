"""Cursors in messages over WebSocket."""

import json
from typing import Any

import pytest

from acp_server.remote.cursors import (
    read_answer,
    read_resume,
    resume,
    resume_failed,
    resumed,
    with_cursor,
    without_cursor,
)

LINES = [
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}',
    '{"jsonrpc":"2.0","method":"_x","params":{}}',
    '{"jsonrpc":"2.0","method":"_x"}',
    '{"jsonrpc":"2.0","method":"_x","params":[1]}',
    '{"jsonrpc":"2.0","params":{"a":1},"method":"_x"}',
    '{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}',
    '{"jsonrpc":"2.0","id":1,"result":null}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"\\"_meta\\":{\\"acp/cursor\\":\\"z\\"}}}"}}',
    '{"jsonrpc":"2.0","id":1,"result":{"a":"\\"_meta\\":{\\"acp/cursor\\":\\"z\\"}}}"}}',
    '[{"jsonrpc":"2.0","id":1,"result":null},{"jsonrpc":"2.0","id":2,"result":{"a":1}}]',
]


@pytest.mark.parametrize("line", LINES)
def test_a_message_gets_a_cursor_and_is_the_same_without_it(line: str) -> None:
    marked = with_cursor(line.encode(), json.loads(line), "a-1")
    value = json.loads(marked)
    message = value[-1] if isinstance(value, list) else value
    places = [message.get("params"), message.get("result"), message]
    metas = [place["_meta"] for place in places if isinstance(place, dict) and "_meta" in place]
    assert metas == [{"acp/cursor": "a-1"}]
    assert without_cursor(marked) == (line.encode(), "a-1")


def test_a_message_with_a_meta_of_its_own_keeps_it() -> None:
    line = '{"jsonrpc":"2.0","method":"_x","params":{"_meta":{"mine":1}}}'
    marked = with_cursor(line.encode(), json.loads(line), "a-1")
    assert json.loads(marked)["params"]["_meta"] == {"mine": 1, "acp/cursor": "a-1"}
    assert without_cursor(marked) == (marked, "a-1")


@pytest.mark.parametrize("line", ["[]", "1", "null", "{}", '{"params":{"_meta":1}}'])
def test_what_has_no_place_for_a_cursor_stays_as_it_is(line: str) -> None:
    assert with_cursor(line.encode(), json.loads(line), "a-1") == line.encode()


@pytest.mark.parametrize(
    ("line", "cursor"),
    [
        (b'{"params": {"_meta": {"acp/cursor": "x"}, "a": 1}}', "x"),
        (b'{"result": {"_meta": {"acp/cursor": "x"}}}', "x"),
        (b'{"params": {"_meta": {"acp/cursor": 1}}}', None),
        (b'{"params": {"_meta": {"acp/cursor": "%s"}}}' % (b"x" * 2000), None),
        (b'{"method": "acp/cursor"}', None),
        (b'"acp/cursor', None),
        (b'{"a":{"b":{"c":{"_meta":{"acp/cursor":"x"}}}}}', None),
    ],
)
def test_a_cursor_of_another_server_is_found_where_it_may_be(line: bytes, cursor: Any) -> None:
    assert without_cursor(line) == (line, cursor)


def test_the_words_of_a_client_that_comes_back_are_read_as_they_are_written() -> None:
    assert read_resume(resume("c", "a-1")) == ("c", "a-1")
    assert read_answer(resumed("c", 3)) == 3
    assert read_answer(resume_failed("why")) == "why"


@pytest.mark.parametrize(
    "line",
    [
        b"stream/resume",
        b'"stream/resume"',
        b'{"method":"_x","params":{"a":"stream/resume"}}',
        b'{"method":"_x","a":"stream/resume"}',
    ],
)
def test_other_messages_are_not_taken_for_them(line: bytes) -> None:
    assert read_resume(line) is None
    assert read_answer(line) is None


@pytest.mark.parametrize("params", [None, [], {}, {"connectionId": 1, "cursors": 1}, {"cursors": []}, {"cursors": [1]}])
def test_a_malformed_wish_to_go_on_names_no_connection(params: Any) -> None:
    wanted = read_resume(json.dumps({"method": "stream/resume", "params": params}).encode())
    assert wanted is not None
    assert wanted.connection == ""


@pytest.mark.parametrize("received", [-1, "1", None, 1.0, True])
def test_a_count_that_cannot_be_one_is_no_answer(received: Any) -> None:
    params = {"_meta": {"acp_server/received": received}}
    assert read_answer(json.dumps({"method": "stream/resumed", "params": params}).encode()) is None
