"""The background check: what it finds in a message, and what it takes for right."""

import json
from typing import Any

import pytest

from acp_conformance.core.checker import Checker
from acp_conformance.core.members import published
from acp_conformance.core.schema import NotJson, announced, errors_of, parse, same_id

UPDATE = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}


def call(method: str, params: object = None, **members: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params}), **members}


def update(body: object) -> dict[str, Any]:
    return call("session/update", {"sessionId": "s", "update": body})


def checker(*sent: object) -> Checker:
    made = Checker("agent")
    made.client_capabilities = {"fs": {"readTextFile": True}}
    for message in sent:
        made.sent(message)
    return made


def rules(made: Checker, *messages: object) -> list[str]:
    return [each.rule for message in messages for each in made.check(json.dumps(message).encode())[1]]


INITIALIZE = call("initialize", {"protocolVersion": 1}, id=1)
INITIALIZED = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}
ERROR = {"code": -32600, "message": "no"}


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"\xff{}", "utf-8"),
        (b"Starting up", "json"),
        (b"", "json"),
        (b'{"a": NaN}', "json"),
        (b'{"a": Infinity}', "json"),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"_x"}', "json"),
        (b"[" * 100_000, "json"),
        (b"[]", "message"),
        (b"[1]", "batch"),
        (b"42", "message"),
        (b"null", "message"),
    ],
)
def test_a_line_that_is_no_message_is_found(line: bytes, rule: str) -> None:
    assert [each.rule for each in checker().check(line)[1]] == [rule]


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ({"method": "_x"}, "version"),
        ({"jsonrpc": "1.0", "method": "_x"}, "version"),
        ({"jsonrpc": 2.0, "method": "_x"}, "version"),
        ({"jsonrpc": "2.0"}, "kind"),
        ({"jsonrpc": "2.0", "id": 1}, "kind"),
        ({"jsonrpc": "2.0", "result": {}}, "kind"),
        ({"jsonrpc": "2.0", "method": 5}, "kind"),
        ({**call("_x"), "result": 1}, "kind"),
        ({**INITIALIZED, "error": None}, "kind"),
        (call("_x", id=True), "id-type"),
        (call("_x", id=1.5), "id-type"),
        (call("_x", id={}), "id-type"),
        (call("_x", 5), "params-structured"),
        (call("session/progress", {}), "method-name"),
        (call("readTextFile", {}, id=1), "method-name"),
        (call("session/prompt", {}, id=1), "direction"),
        (call("session/update", {}, id=1), "direction"),
        (call("fs/read_text_file", {}), "direction"),
        ({"jsonrpc": "2.0", "id": 1, "error": "no"}, "error-object"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "-1", "message": "no"}}, "error-object"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": True, "message": "no"}}, "error-object"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -1}}, "error-object"),
        ({"jsonrpc": "2.0", "id": "1", "result": {}}, "unasked-answer"),
        ({"jsonrpc": "2.0", "id": None, "error": ERROR}, "unasked-answer"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "1"}}, "result"),
        ({"jsonrpc": "2.0", "id": 1, "result": None}, "result"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "models": []}}, "extra-member"),
        (call("fs/write_text_file", {"sessionId": "s", "path": "/a", "content": ""}, id=1), "capability"),
        (call("fs/read_text_file", {"sessionId": "s"}, id=1), "request"),
        (update({"sessionUpdate": "agent_says"}), "update"),
        (update({**UPDATE, "content": "hi"}), "update"),
        (update({"sessionUpdate": "tool_call", "toolCallId": "c"}), "update"),
        (call("session/update", {"session_id": "s", "update": UPDATE}), "update"),
        (call("_mine/ask", [1], id=None), "null-id"),
    ],
)
def test_one_fault_breaks_one_rule(message: dict[str, Any], rule: str) -> None:
    assert rules(checker(INITIALIZE), message) == [rule]


@pytest.mark.parametrize(
    "message",
    [
        INITIALIZED,
        {"jsonrpc": "2.0", "id": 1, "error": {**ERROR, "data": [1]}},
        call("_mine/note"),
        call("_mine/ask", [1], id="one"),
        call("$/progress", {"a": 1}),
        call("$/cancel_request", {"requestId": 7}),
        update(UPDATE),
        update({**UPDATE, "_meta": {"a": 1}}),
        call("fs/read_text_file", {"sessionId": "s", "path": "/a"}, id="one"),
        call("auth/status_update", {"anything": 1}),
        update({"sessionUpdate": "plan_removed", "anything": 1}),
        update({"sessionUpdate": "current_mode_update", "modeId": "code"}),  # as the page on session modes shows it
    ],
)
def test_what_is_right_is_left_alone(message: dict[str, Any]) -> None:
    assert rules(checker(INITIALIZE), message) == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({**UPDATE, "content": {"type": "text", "text": 5}}, "update.content.text: 5 is not of type 'string'"),
        ({"sessionUpdate": "tool_call", "toolCallId": "c"}, "update: 'title' is a required property"),
        ({"sessionUpdate": "agent_says"}, "is not valid under any of the given schemas"),
        ({"content": {}}, "is not valid under any of the given schemas"),
    ],
)
def test_of_a_union_only_the_member_that_is_named_is_held_against_a_value(body: object, told: str) -> None:
    assert told in errors_of("SessionNotification", {"sessionId": "s", "update": body})


def test_a_second_answer_is_told_from_an_answer_to_nothing() -> None:
    assert rules(checker(INITIALIZE), INITIALIZED, INITIALIZED) == ["answered-twice"]
    assert rules(checker(INITIALIZE), {**INITIALIZED, "id": 2}) == ["unasked-answer"]


def test_an_id_may_be_used_again_once_its_request_is_answered() -> None:
    ask = call("_ask", id=5)
    open_still, answered = checker(), checker()
    assert rules(open_still, ask, ask) == ["reused-id"]
    assert rules(answered, ask) == []
    answered.sent({"jsonrpc": "2.0", "id": 5, "result": None})
    assert rules(answered, ask) == []


def test_ids_of_other_types_are_other_ids() -> None:
    assert rules(checker(), call("_ask", id=5), call("_ask", id="5")) == []
    assert not same_id(1, True)
    assert not same_id(1, 1.0)
    assert not same_id("1", 1)
    assert same_id(None, None)


@pytest.mark.parametrize(
    "sent",
    [
        5,
        [],
        {"jsonrpc": "2.0"},
        {"method": "x", "id": 7},
        call("x", "text", id=7),
        [INITIALIZE, 3],
        [INITIALIZE],
    ],
)
def test_an_error_without_id_may_answer_what_was_no_message(sent: object) -> None:
    assert rules(checker(sent), {"jsonrpc": "2.0", "id": None, "error": ERROR}) == []


def test_an_id_that_none_can_have_may_be_echoed_and_is_judged_elsewhere() -> None:
    assert rules(checker(call("x", id=True)), {"jsonrpc": "2.0", "id": True, "error": ERROR}) == []


def test_an_array_may_answer_an_array_and_its_members_are_checked() -> None:
    made = checker([call("_a", id=1), call("_b", id=2)])
    assert rules(made, [{"jsonrpc": "2.0", "id": 1, "result": 1}, {"id": 2, "result": 1}]) == ["version"]


def test_loading_may_be_answered_with_null_as_the_specification_shows_it() -> None:
    load = call("session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []}, id=1)
    assert rules(checker(load), {"jsonrpc": "2.0", "id": 1, "result": None}) == []


def test_a_client_may_answer_null_and_an_agent_may_show_bare_text_as_the_specification_shows_it() -> None:
    client = Checker("client")
    client.sent(call("fs/write_text_file", {"sessionId": "s", "path": "/a", "content": ""}, id=1))
    assert rules(client, {"jsonrpc": "2.0", "id": 1, "result": None}) == []
    shown = {"toolCallId": "c", "content": [{"type": "text", "text": "## Implementation Plan..."}]}
    asked = {"sessionId": "s", "toolCall": shown, "options": []}
    assert rules(checker(), call("session/request_permission", asked, id=1)) == []


def test_a_member_of_ones_own_is_told_with_the_schema_that_has_not_got_it() -> None:
    answer = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"undo": {}}}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": answer}).encode()
    (found,) = checker(INITIALIZE).check(line)[1]
    assert found.rule == "extra-member"
    assert f"agentCapabilities.sessionCapabilities.undo, which the protocol has not as of {published()}" in found.what


@pytest.mark.parametrize(
    ("capabilities", "path", "is_announced"),
    [
        ({"fs": {"readTextFile": True}}, "fs.readTextFile", True),
        ({"fs": {"readTextFile": False}}, "fs.readTextFile", False),
        ({"fs": None}, "fs.readTextFile", False),
        ({"sessionCapabilities": {"list": {}}}, "sessionCapabilities.list", True),
        ({"sessionCapabilities": {"list": None}}, "sessionCapabilities.list", False),
        ({}, "loadSession", False),
    ],
)
def test_null_and_false_announce_nothing(capabilities: dict[str, Any], path: str, is_announced: bool) -> None:
    assert announced(capabilities, path) is is_announced


def test_python_s_own_idea_of_json_is_not_taken() -> None:
    with pytest.raises(NotJson):
        parse("[NaN]")
    with pytest.raises(NotJson):
        parse("[" * 100_000)
    assert parse('{"a":1}') == {"a": 1}


# Meaning: what the schema cannot say.


def tool(kind: str, **members: object) -> dict[str, Any]:
    return update({"sessionUpdate": kind, "toolCallId": "c", "title": "t", **members})


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (call("fs/read_text_file", {"sessionId": "s", "path": "a.txt"}, id=1), "absolute-path"),
        (call("fs/read_text_file", {"sessionId": "s", "path": "./a"}, id=1), "absolute-path"),
        (call("fs/read_text_file", {"sessionId": "s", "path": "/a", "line": 0}, id=1), "line-number"),
        (tool("tool_call", locations=[{"path": "a"}]), "absolute-path"),
        (tool("tool_call", locations=[{"path": "/a", "line": 0}]), "line-number"),
        (tool("tool_call", content=[{"type": "diff", "path": "a", "newText": ""}]), "absolute-path"),
        (tool("tool_call_update", status="completed"), "tool-order"),
    ],
)
def test_a_message_of_the_right_shape_can_be_wrong(message: dict[str, Any], rule: str) -> None:
    assert rules(checker(), message) == [rule]


@pytest.mark.parametrize("path", ["/a", "C:\\a", "c:/a", "\\\\host\\share"])
def test_absolute_paths_of_every_system_are_absolute(path: str) -> None:
    assert rules(checker(), call("fs/read_text_file", {"sessionId": "s", "path": path, "line": 1}, id=1)) == []


def test_a_tool_call_is_known_once_it_was_reported_or_permission_was_asked_for_it() -> None:
    assert rules(checker(), tool("tool_call"), tool("tool_call_update", status="completed")) == []
    ask = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": []}
    asked = call("session/request_permission", ask, id=1)
    assert rules(checker(), asked, tool("tool_call_update", status="completed")) == []


def test_a_session_that_was_never_made_is_a_stranger_one_that_is_made_later_is_not() -> None:
    new = call("session/new", {"cwd": "/", "mcpServers": []}, id=1)
    made = {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}
    stranger, early, loaded = checker(), checker(new), checker()
    loaded.sent(call("session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []}, id=2))
    for each in (stranger, early, loaded):
        rules(each, update(UPDATE))
    rules(early, made)
    assert [each.rule for each in stranger.leftovers()] == ["session"]
    assert early.leftovers() == loaded.leftovers() == []


@pytest.mark.parametrize(("requests", "accused"), [(0, ["a", "b", "b", "c"]), (1, ["b", "b", "c"]), (2, ["c"])])
def test_a_request_for_a_session_that_has_no_answer_may_have_made_one(requests: int, accused: list[str]) -> None:
    subject = checker(*(call("session/new", {"cwd": "/", "mcpServers": []}, id=id) for id in range(requests)))
    for name in ("a", "b", "b", "c"):
        rules(subject, call("session/update", {"sessionId": name, "update": UPDATE}))
    assert [each.what for each in subject.leftovers()] == [f"session/update names the session {n!r}" for n in accused]


def test_a_client_that_asks_for_a_later_version_may_say_more() -> None:
    for version, found in ((2, []), (1, ["extra-member"])):
        line = json.dumps(call("initialize", {"protocolVersion": version, "info": {}}, id=1)).encode()
        assert [each.rule for each in Checker("client").check(line)[1]] == found
