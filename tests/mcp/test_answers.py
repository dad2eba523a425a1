"""Answers of MCP servers that cannot be read, wholly or in part: the call fails at once, and what is fine is kept."""

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")

import mcp_types as types  # pyright: ignore[reportMissingImports]
from mcp.shared.message import SessionMessage  # pyright: ignore[reportMissingImports]

from acp_server.mcp.answers import Answers
from acp_server.wire.framing import TooLong
from tests.mcp.fuzz import changed
from tests.mcp.stage import call, raw, staged
from tests.mcp.test_odd_servers import impatient, reported

NESTED = b'{"jsonrpc":"2.0","id":ID,"result":{"content":' + b"[" * 3000 + b"]" * 3000 + b"}}"
DONE = b'{"content":[{"type":"text","text":"done"}]}'

# Each with what a caller gets of it: a text, or an error with these words.
ODD: dict[str, tuple[bytes, str]] = {
    "error without words": (b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":null}}', "error: "),
    "error as a text": (b'{"jsonrpc":"2.0","id":ID,"error":"boom"}', "error: error is not an object"),
    "no result": (b'{"jsonrpc":"2.0","id":ID,"result":null}', "error: its result is not an object"),
    "neither": (b'{"jsonrpc":"2.0","id":ID}', "error: neither result nor error"),
    "no version": (b'{"id":ID,"result":' + DONE + b"}", "done"),
    "an array": (b'[{"jsonrpc":"2.0","id":ID,"result":' + DONE + b"}]", "done"),
    "an empty array": (b"[]", "error: it is an array without a message"),
    "a mark in front": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":ID,"result":' + DONE + b"}", "done"),
    "half an emoji": (
        b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\\ud83d"}]}}',
        "\N{REPLACEMENT CHARACTER}",
    ),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":ID,"result":{"content":"\xff"}}', "error: it is not JSON"),
    "nested": (NESTED, "error: it is not JSON"),
    "cut short": (b'{"jsonrpc":"2.0","id":ID,"result":{"cont', "error: it is not JSON"),
    "cut short behind the id": (b'{"jsonrpc":"2.0","id":ID,"res', "error: it is not JSON"),
    "cut short before the id": (b'{"result":{"content":[', "error: it is not JSON"),
    "the id behind": (b'{"result":{"content":"\xff"},"jsonrpc":"2.0","id":ID}', "error: it is not JSON"),
    "the id null": (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}',
        "error: it does not name its request",
    ),
    "another id": (b'{"jsonrpc":"2.0","id":"other","result":{}}', "error: it does not name its request"),
    "the id as a text": (b'{"jsonrpc":"2.0","id":"ID","result":' + DONE + b"}", "done"),
}


def asking(method: str = "tools/call", *, id: int = 7) -> Answers:
    answers = Answers("raw")
    answers.asked(types.JSONRPCRequest(jsonrpc="2.0", id=id, method=method))
    return answers


def told(messages: list[Any]) -> str:
    """What a caller gets of the only answer."""
    [message] = messages
    assert message.id == 7
    if isinstance(message, types.JSONRPCError):
        return f"error: {message.error.message.removeprefix('the response cannot be read: ')}"
    return "\n".join(block["text"] for block in message.result["content"])


@pytest.mark.parametrize("name", ODD)
def test_an_answer_that_cannot_be_read_is_an_answer_to_its_call(name: str) -> None:
    line, expected = ODD[name]
    assert told(asking().read(line.replace(b"ID", b"7"))).startswith(expected)


@pytest.mark.parametrize("name", ODD)
def test_so_it_is_when_a_transport_of_the_official_package_could_not_read_it(name: str) -> None:
    line, expected = ODD[name]
    text = line.replace(b"ID", b"7").replace(b"\xff", b"\x00").decode()
    try:
        item: Any = SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        item = error
    messages = [each.message for each in asking().received(item)]
    assert told(messages).startswith(expected)


@pytest.mark.anyio
@pytest.mark.parametrize("name", ODD)
async def test_a_call_with_an_odd_answer_ends_and_the_next_one_works(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line, expected = ODD[name]
    server = raw("odd answer", "raw", "tools/call", line.hex())
    async with staged(tmp_path, server) as (editor, session, stage):
        for _ in range(2):
            await call(editor, session, "raw_run")
            status, message = stage.told
            if expected.startswith("error: "):
                assert status == "failed"
                assert expected.removeprefix("error: ") in (message or "")
                # Nor is an error of its own taken for its end, whose code is the same.
                assert "has ended" not in (message or "")
            else:
                assert (status, message) == ("completed", expected)
        assert [server.state for server in stage.sessions[0].mcp] == ["connected"]
    # What has failed is said, once.
    assert caplog.text.count("a response cannot be read") == (len(expected) > 7 and expected.startswith("error"))


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize("name", ["error as a text", "no result", "cut short", "the id null"])
async def test_a_server_that_begins_with_an_odd_answer_fails_at_once(method: str, name: str, tmp_path: Path) -> None:
    server = raw("odd answer", "raw", method, ODD[name][0].hex())
    async with staged(tmp_path, server, agent=impatient()) as (editor, session, stage):
        await editor.ask(session, " ")
        await reported(editor)
        [failed] = stage.sessions[0].mcp
        assert (failed.problem or "").startswith("the response cannot be read")


@pytest.mark.anyio
async def test_an_odd_tool_or_block_costs_itself_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with staged(tmp_path, raw("odd parts")) as (editor, session, stage):
        await call(editor, session)
        assert stage.names == ["raw_endless", "raw_polite", "raw_run"]
        await call(editor, session, "raw_run")
        assert stage.told[0] == "completed"
        assert (stage.told[1] or "").splitlines() == [
            "done",
            "[a block of the type 'film', which cannot be read]",
            "[a block of the type 'image', which cannot be read]",
            "[a block without a type, which cannot be read]",
        ]
    for said in (
        "outputSchema of the tool 'endless' is invalid and ignored",
        "the tool 'bare' is invalid; it is not offered",
        "annotations of the tool 'polite' is invalid and ignored",
        "a tool without a name is invalid; it is not offered",
    ):
        assert caplog.text.count(said) == 1


def test_what_is_no_answer_fails_nothing() -> None:
    answers = asking()
    for line in (b"Welcome!", b"{ a: 1 }", b"{'a': 1}", b'{"level":"error","error":"boom"}', b'{"id":"a","msg":"b"}'):
        assert answers.read(line) == []
    answers.asked(types.JSONRPCRequest(jsonrpc="2.0", id=8, method="tools/call"))
    answers.asked(types.JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 8}))
    assert answers.read(b'{"jsonrpc":"2.0","id":8,"result":{}}') == []
    assert told(answers.read(b'{"jsonrpc":"2.0","id":7,"result":' + DONE + b"}")) == "done"


def test_a_request_of_the_server_that_cannot_be_read_is_answered() -> None:
    for rest in (b'"method":1}', b'"method":"a","params":{"b":"\xff"}}'):
        [request] = asking().read(b'{"jsonrpc":"2.0","id":3,' + rest)
        assert (request.id, request.method) == (3, "unreadable")


def test_an_answer_that_is_too_long_and_does_not_say_whose_it_is_fails_the_calls_that_wait() -> None:
    assert told(asking().read(TooLong(b'{"result":{"content":"xxx'))).startswith("error: it has more than")


def test_what_cannot_be_read_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    answers = Answers("raw")
    for _ in range(3):
        answers.read(b"Welcome!")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


RECORDED: list[tuple[str, dict[str, Any]]] = [
    (
        "initialize",
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "recorded", "version": "1"},
            "instructions": "Call one.",
        },
    ),
    (
        "tools/list",
        {
            "tools": [
                {
                    "name": name,
                    "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
                    "outputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": True},
                }
                for name in ("one", "two", "three")
            ]
        },
    ),
    ("tools/call", {"content": [{"type": "text", "text": text} for text in ("first", "second")], "isError": False}),
]


@pytest.mark.parametrize("seed", range(4))
def test_no_mutated_answer_leaves_its_request_without_one_or_takes_parts_that_are_fine(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(500):
        method, result = dice.choice(RECORDED)
        [member, parts] = next(iter(result.items()))
        answers = asking(method)
        odd = changed(result, dice)
        [answer] = answers.read(json.dumps({"jsonrpc": "2.0", "id": 7, "result": odd}).encode())
        if isinstance(answer, types.JSONRPCError) or not isinstance(answer.result.get(member), list):
            continue
        if method == "initialize":
            continue  # it has no parts that could be fine by themselves
        model: Any = types.ListToolsResult if method == "tools/list" else types.CallToolResult
        kept = getattr(model.model_validate(answer.result, by_name=False), member)
        dumped = [part.model_dump(by_alias=True, exclude_none=True, mode="json") for part in kept]
        given = odd[member] if isinstance(odd, dict) and isinstance(odd.get(member), list) else []
        assert [part for part in given if part in parts and part not in dumped] == []


@pytest.mark.parametrize("seed", range(4))
def test_no_line_with_mutated_bytes_leaves_its_request_without_an_answer(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(500):
        method, result = dice.choice(RECORDED)
        line = bytearray(json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}, separators=(",", ":")).encode())
        if dice.random() < 0.5:
            # The id itself aside: an answer to what has been answered is that.
            place = dice.choice([at for at in range(2, len(line)) if not 16 <= at < 23])
            line[place] = dice.choice(b'\x00\xff"\\{}[],:x')
        else:
            del line[dice.randrange(2, len(line)) :]
        answers = asking(method)
        assert [answer.id for answer in answers.read(line)] == [7], bytes(line)
