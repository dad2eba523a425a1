"""A redacted recording has the course of a conversation and nothing that was said in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from acp_server.agent.record import Recorder, read_recording
from acp_server.agent.redaction import redacted

SECRET = "hunter2"
TOLD: list[Any] = [
    {"method": "session/prompt", "id": 1, "params": {"sessionId": "s1", "prompt": [{"type": "text", "text": SECRET}]}},
    {"method": "terminal/create", "id": 2, "params": {"command": SECRET, "env": [{"name": SECRET, "value": SECRET}]}},
    {"method": "session/new", "params": {"cwd": f"/{SECRET}", "mcpServers": [{"type": "http", "headers": [SECRET]}]}},
    {"id": 3, "error": {"code": -32603, "message": SECRET, "data": {SECRET: {"type": SECRET}}}},
    {"method": "session/update", "params": {"update": {"rawInput": {"type": SECRET, "id": SECRET}}}},
    {"method": "_own/method", "id": 4, "params": {"type": SECRET, "kind": [SECRET, {"id": SECRET}]}},
    {"id": 5, "result": {"_meta": {"status": SECRET}, f"{SECRET} is a key": 1}},
    [{"method": "_own/method", "params": {"id": SECRET}}],
    {"id": f"two words, {SECRET}", "method": "x"},
    {"id": 6, "result": {"agentInfo": {"name": "agent", "version": "1.0", "title": SECRET}}},
    SECRET,
]


@pytest.mark.parametrize("message", TOLD)
def test_nothing_that_was_said_stays(message: Any) -> None:
    assert SECRET not in json.dumps(redacted(message))


def test_free_members_are_emptied_and_the_numbers_of_the_protocol_stay() -> None:
    shown = redacted({"id": 7, "result": {"exitCode": 3, "rawOutput": {"pin": 1234}, "rawInput": 1234, "_meta": None}})
    assert shown == {"id": 7, "result": {"exitCode": 3, "rawOutput": {}, "rawInput": 0, "_meta": None}}


def test_the_course_of_a_conversation_stays() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "cancelled"}}
    assert redacted(message) == message
    update = {"sessionUpdate": "tool_call", "toolCallId": "c-1", "kind": "edit", "status": "pending", "title": "Write"}
    assert redacted({"method": "session/update", "params": {"sessionId": "s", "update": update}}) == {
        "method": "session/update",
        "params": {"sessionId": "s", "update": {**update, "title": "[5 characters]"}},
    }


def test_what_is_not_json_or_too_deep_becomes_its_length(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "talk.ndjson", redact=True)
    deep = b"[" * 990 + b"]" * 990
    recorder.add("out", b"hunter2\n" + deep + b"\n")
    recorder.add("in", b'{"method": "x", "params": "hunter2"}\n')
    recorder.close()
    entries = read_recording(tmp_path / "talk.ndjson").entries
    assert [(entry.raw, entry.msg) for entry in entries] == [
        ("[7 characters]", None),
        ("[1980 characters]", None),
        (None, {"method": "x", "params": "[7 characters]"}),
    ]
