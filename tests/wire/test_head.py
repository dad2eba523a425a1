"""What can be told of a line that cannot be read to its end."""

import pytest

from acp_server.wire.messages import Invalid, Response, classify_head
from acp_server.wire.state_machine import Endpoint, Outgoing


@pytest.mark.behaviour("A12")
@pytest.mark.parametrize(
    "head",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"content":"aaaa',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"aaaa',
        b'{"id":7,"jsonrpc":"2.0","result":"aaaa',
        b'\xef\xbb\xbf { "jsonrpc" : "2.0" , "id" : 7 ,\r\t"result" : NaN }',
        b'{"id":7,"x":null,"result":\xff}',
    ],
)
def test_an_answer_is_recognised_by_its_id(head: bytes) -> None:
    message = classify_head(head, "torn")
    assert isinstance(message, Response)
    assert (message.id, message.malformed) == (7, "torn")


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        (b"0", 0),
        (b"-12", -12),
        (b"9223372036854775807", 2**63 - 1),
        (b'"7"', "7"),
        (b'""', ""),
        (b"null", None),
        # Not readable from a head, or no ids.
        (b"9223372036854775808", None),
        (b"1180591620717411303424", None),
        (b"07", None),
        (b"7.0", None),
        (b"true", None),
        (b'"\\u0041"', None),
        (b'"\xc3\xa4"', None),
        (b"[7]", None),
    ],
)
def test_the_id_of_a_request_is_read_if_it_comes_before_what_is_too_much(id: bytes, expected: object) -> None:
    message = classify_head(b'{"jsonrpc":"2.0","id":%b,"method":"session/prompt","params":{"a' % id, "too long")
    assert isinstance(message, Invalid)
    assert (message.code, message.message, message.data) == (-32600, "Invalid request: too long", None)
    assert message.id == expected
    assert type(message.id) is type(expected)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"aaaa",
        b"[[[[",
        b'[{"id":7,"result":1',
        b"{",
        b'{"jsonrpc":"2.0","method":"x","params":{"id":7,"result":1',
        b'{"params":{"id":7},"id":7,"method":"x"}',
    ],
)
def test_a_head_without_an_id_is_an_invalid_message_without_one(head: bytes) -> None:
    message = classify_head(head, "torn")
    assert isinstance(message, Invalid)
    assert message.id is None


@pytest.mark.parametrize("head", [b'{"id":7,', b'{"id":7,"resu', b'{"id":7,"method":"x","params":["a'])
def test_a_head_with_an_id_alone_is_an_invalid_message_with_it(head: bytes) -> None:
    message = classify_head(head, "torn")
    assert isinstance(message, Invalid)
    assert message.id == 7


@pytest.mark.behaviour("A11")
@pytest.mark.parametrize("head", [b'{"jsonrpc":"2.0","result":"aaaa', b'{"error":'])
def test_an_answer_without_an_id_is_still_no_request(head: bytes) -> None:
    message = classify_head(head, "torn")
    assert isinstance(message, Response)
    assert message.id is None


@pytest.mark.behaviour("A11")
def test_a_method_makes_it_a_request_whatever_follows() -> None:
    assert isinstance(classify_head(b'{"method":"x","id":7,"result":1', "torn"), Invalid)


@pytest.mark.parametrize("member", [b'"a":1,', b'"a":"",'])
def test_only_the_beginning_of_a_long_line_that_is_not_json_is_looked_at(
    member: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[bytes] = []
    monkeypatch.setattr("acp_server.wire.messages._members", lambda head: looked_at.append(head) or ({}, None))
    (event,) = Endpoint().events(b"{" + member * 100_000 + b"x}")
    assert isinstance(event, Outgoing)
    assert [len(head) for head in looked_at] == [1024]
