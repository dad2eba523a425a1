"""What a newer peer sends survives; what is known is checked."""

from itertools import product
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from acp_server import schema
from tests.each import each
from tests.schema.examples import EXAMPLES

NEW: dict[str, Any] = {"shape": {"sides": [3, None]}, "_meta": 5, "nothing": None}

UNIONS = {
    "AuthMethod": ("type", schema.UnknownAuthMethod),
    "ContentBlock": ("type", schema.UnknownContentBlock),
    "CreateElicitationRequest": ("mode", schema.UnknownElicitationMode),
    "CreateElicitationResponse": ("action", schema.UnknownElicitationAction),
    "ElicitationPropertySchema": ("type", schema.UnknownPropertySchema),
    "McpServer": ("type", schema.UnknownMcpServer),
    "MultiSelectItems": ("type", schema.UnknownMultiSelectItems),
    "RequestPermissionOutcome": ("outcome", schema.UnknownPermissionOutcome),
    "SessionConfigOption": ("type", schema.UnknownSessionConfigOption),
    "SessionUpdate": ("sessionUpdate", schema.UnknownSessionUpdate),
    "ToolCallContent": ("type", schema.UnknownToolCallContent),
}

OPEN_ENUMS = {
    "CompactionStatus": ("CompactionUpdate", "status"),
    "NoticeSeverity": ("Notice", "severity"),
    "PermissionOptionKind": ("PermissionOption", "kind"),
    "PlanEntryPriority": ("PlanEntry", "priority"),
    "PlanEntryStatus": ("PlanEntry", "status"),
    "SessionArchiveFilter": ("ListSessionsRequest", "archived"),
    "SessionConfigOptionCategory": ("SessionConfigSelect", "category"),
    "SessionStatus": ("SessionStatusResponse", "status"),
    "StopReason": ("PromptResponse", "stopReason"),
    "SubagentActivity": ("SubagentState", "state"),
    "SubagentStopReason": ("SubagentState", "stopReason"),
    "SystemPromptMode": ("SystemPrompt", "mode"),
    "StringFormat": ("StringPropertySchema", "format"),
    "ToolCallStatus": ("ToolCall", "status"),
    "ToolKind": ("ToolCallUpdate", "kind"),
}


@each(UNIONS)
def test_an_unknown_member_of_a_union_is_carried_unchanged(union: str) -> None:
    key, kind = UNIONS[union]
    received = {key: "of_tomorrow", **NEW}
    read = schema.from_wire(getattr(schema, union), received)
    assert type(read) is kind
    assert read.fields == NEW
    assert read.to_wire() == received


@each(UNIONS)
def test_an_unknown_member_has_its_meta_as_those_that_are_known(union: str) -> None:
    key, _ = UNIONS[union]
    for meta, told in (({"automatic": True}, {"automatic": True}), (5, None)):
        read: Any = schema.from_wire(getattr(schema, union), {key: "of_tomorrow", "_meta": meta})
        assert read.meta == told
        assert read.to_wire()["_meta"] == meta
    without: Any = schema.from_wire(getattr(schema, union), {key: "of_tomorrow", "meta": 1})
    assert (without.meta, without.fields) == (None, {"meta": 1})


@each(UNIONS)
def test_a_tag_that_is_not_a_string_is_an_error(union: str) -> None:
    key, _ = UNIONS[union]
    for tag in (5, ["text"], {}, True):
        with pytest.raises(ValidationError):
            schema.from_wire(getattr(schema, union), {key: tag, **NEW})


@each(sorted(set(UNIONS) - {"AuthMethod", "McpServer", "MultiSelectItems"}))
def test_a_missing_tag_is_an_error(union: str) -> None:
    with pytest.raises(ValidationError):
        schema.from_wire(getattr(schema, union), NEW)


@each(product(UNIONS, [None, 5, "text", [], [{"type": "text", "text": "a"}], True]))
def test_a_member_that_is_not_an_object_is_an_error(union: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        schema.from_wire(list[getattr(schema, union)], [value])


def test_an_unknown_member_is_carried_wherever_it_stands() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "hologram", **NEW}]
    prompt = {"sessionId": "s", "prompt": blocks}
    assert schema.PromptRequest.from_wire(prompt).to_wire() == prompt
    chunk = {"sessionUpdate": "agent_message_chunk", "content": blocks[1]}
    assert schema.from_wire(schema.SessionUpdate, chunk).to_wire() == chunk
    call = {"toolCallId": "c", "content": [{"type": "content", "content": blocks[1]}, {"type": "hologram", **NEW}]}
    assert schema.ToolCallUpdate.from_wire(call).to_wire() == call


def test_contents_of_a_resource_without_text_and_blob_are_carried_unchanged() -> None:
    resource = {"type": "resource", "resource": {"uri": "x:y", "stream": None}}
    read = schema.EmbeddedResource.from_wire(resource)
    assert isinstance(read.resource, schema.UnknownResourceContents)
    assert read.to_wire() == resource


def test_input_of_a_command_in_a_new_form_is_carried_unchanged() -> None:
    command = {"name": "a", "description": "b", "input": {"fields": [None]}}
    read = schema.AvailableCommand.from_wire(command)
    assert isinstance(read.input, schema.UnknownCommandInput)
    assert read.to_wire() == command


@pytest.mark.parametrize(
    ("union", "received"),
    [
        ("ContentBlock", {"type": "text"}),
        ("ContentBlock", {"type": "text", "text": 5}),
        ("ContentBlock", {"type": "image", "data": "aGk="}),
        ("ContentBlock", {"type": "resource", "resource": {"uri": "a", "text": 5}}),
        ("ContentBlock", {"type": "resource", "resource": {"text": "a"}}),
        ("ToolCallContent", {"type": "diff", "path": "/a"}),
        ("ToolCallContent", {"type": "content", "content": {"type": "text"}}),
        ("SessionUpdate", {"sessionUpdate": "plan"}),
        ("SessionUpdate", {"sessionUpdate": "notice", "severity": "info", "title": ""}),
        ("SessionUpdate", {"sessionUpdate": "usage_update", "used": -1, "size": 5}),
        ("McpServer", {"type": "http", "name": "a", "command": "b"}),
        ("McpServer", {"name": "a", "args": [], "env": []}),
        ("McpServer", {"name": "a", "command": "b", "args": [5], "env": []}),
        ("AuthMethod", {"type": "terminal", "id": "a"}),
        ("RequestPermissionOutcome", {"outcome": "selected"}),
        ("SessionConfigOption", {"type": "boolean", "id": "a", "name": "b", "currentValue": "yes"}),
        ("CreateElicitationRequest", {"mode": "form", "message": "a", "sessionId": "s"}),
        ("CreateElicitationResponse", {"action": "accept", "content": {"a": {}}}),
        ("ElicitationPropertySchema", {"type": "string", "minLength": -1}),
    ],
)
def test_a_known_member_with_a_bad_payload_is_an_error(union: str, received: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        schema.from_wire(getattr(schema, union), received)


@each(OPEN_ENUMS)
def test_an_unknown_value_of_an_enumeration_is_carried_unchanged(enum: str) -> None:
    name, key = OPEN_ENUMS[enum]
    received = {**EXAMPLES[name][0], key: "of_tomorrow"}
    read = getattr(schema, name).from_wire(received)
    assert read.to_wire() == received


def test_every_enumeration_is_among_those_tried() -> None:
    names = {
        name
        for name in dir(schema)
        if schema.area_of(name) and "OpenEnum" in repr(getattr(getattr(schema, name), "__value__", None))
    }
    assert names - {"Role", "ElicitationSchemaType"} == set(OPEN_ENUMS)


def test_an_unknown_role_is_carried_unchanged() -> None:
    assert schema.Annotations.from_wire({"audience": ["user", "referee"]}).audience == ["user", "referee"]


def test_a_server_without_a_type_or_of_type_stdio_is_started_over_stdio() -> None:
    server = {"name": "a", "command": "b", "args": [], "env": []}
    for received in (server, {"type": "stdio", **server}):
        read = schema.from_wire(schema.McpServer, received)
        assert type(read) is schema.McpServerStdio
        assert read.to_wire() == received


def test_a_server_whose_type_is_not_a_string_is_an_error() -> None:
    with pytest.raises(ValidationError):
        schema.from_wire(schema.McpServer, {"type": 5, "name": "a", "command": "b", "args": [], "env": []})


def test_an_authentication_method_without_a_type_or_of_type_agent_is_the_agents_own() -> None:
    method = {"id": "a", "name": "b"}
    for received in (method, {"type": "agent", **method}):
        read = schema.from_wire(schema.AuthMethod, received)
        assert type(read) is schema.AuthMethodAgent
        assert read.to_wire() == received


@each(sorted(EXAMPLES))
def test_unknown_fields_are_kept_and_written_again(name: str) -> None:
    for example in EXAMPLES[name]:
        if isinstance(example, dict):
            received = {**example, "xTomorrow": {"a": [None, 1]}}
            assert schema.from_wire(getattr(schema, name), received).to_wire() == received


def test_python_code_may_pass_objects_of_a_subclass() -> None:
    class Shout(schema.TextContent):
        """Text in capitals."""

    prompt = schema.PromptRequest(session_id="s", prompt=[Shout(text="HI")])
    assert prompt.to_wire() == {"sessionId": "s", "prompt": [{"type": "text", "text": "HI"}]}


def test_a_content_block_in_the_place_of_tool_output_is_an_error_that_names_what_fits() -> None:
    with pytest.raises(ValidationError, match=r"Content, Diff, Terminal"):
        schema.ToolCallUpdate.model_validate({"tool_call_id": "c", "content": [schema.TextContent(text="a")]})


def test_the_known_values_of_an_enumeration_can_be_listed() -> None:
    literal, _ = get_args(get_args(schema.StopReason.__value__)[0])
    assert get_args(literal) == ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
