"""What is left out when an object is written, and what is not."""

import copy
import pickle
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from acp_server import schema
from acp_server.schema import NULL, v2


def test_a_field_that_was_never_set_is_absent() -> None:
    assert schema.TextContent(text="hi").to_wire() == {"type": "text", "text": "hi"}
    assert schema.ToolCall(tool_call_id="c", title="t").to_wire() == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "t",
    }
    assert schema.InitializeResponse(protocol_version=1).to_wire() == {"protocolVersion": 1}


def test_a_default_that_was_set_is_written() -> None:
    call = schema.ToolCall(tool_call_id="c", title="t", kind="other", locations=[])
    assert call.to_wire()["kind"] == "other"
    assert call.to_wire()["locations"] == []
    assert schema.ClientCapabilities(terminal=False).to_wire() == {"terminal": False}


def test_what_was_changed_later_is_written() -> None:
    capabilities = schema.ClientCapabilities()
    capabilities.terminal = True
    assert capabilities.to_wire() == {"terminal": True}


def test_what_was_filled_in_place_is_written() -> None:
    session = schema.SessionInfo(session_id="s", cwd="/")
    session.additional_directories.append("/a")
    assert session.to_wire()["additionalDirectories"] == ["/a"]
    capabilities = schema.AgentCapabilities()
    capabilities.prompt_capabilities.image = True
    assert capabilities.to_wire() == {"promptCapabilities": {"image": True}}


def test_none_is_absent_where_null_means_nothing() -> None:
    block = schema.TextContent(text="hi", annotations=None, meta=None)
    assert block.to_wire() == {"type": "text", "text": "hi"}
    progress = schema.ToolCallProgress(tool_call_id="c", title=None, content=None, raw_output=None)
    assert progress.to_wire() == {"sessionUpdate": "tool_call_update", "toolCallId": "c"}


@pytest.mark.parametrize(
    ("update", "cleared"),
    [
        (schema.SessionInfoUpdate(title=NULL), {"title": None}),
        (schema.SessionInfoUpdate(updated_at=NULL), {"updatedAt": None}),
        (schema.CompactionUpdate(compaction_id="c", status="failed", error=NULL), {"error": None}),
        (schema.CompactionUpdate(compaction_id="c", status="failed", summary=NULL), {"summary": None}),
        (schema.CompactionUpdate(compaction_id="c", status="failed", meta=NULL), {"_meta": None}),
        (v2.ToolCallUpdate(tool_call_id="c", title=NULL), {"title": None}),
    ],
)
def test_null_is_written_where_it_clears(update: Any, cleared: dict[str, Any]) -> None:
    (name,) = cleared
    name = {"_meta": "meta", "updatedAt": "updated_at"}.get(name, name)
    assert {key: value for key, value in update.to_wire().items() if value is None} == cleared
    assert getattr(update, name) is None
    assert update.is_null(name)
    assert type(update).from_wire(update.to_wire()).is_null(name)
    setattr(update, name, None)
    assert not update.is_null(name)
    assert None not in update.to_wire().values()
    setattr(update, name, NULL)
    assert {key: value for key, value in update.to_wire().items() if value is None} == cleared


def test_there_is_one_null() -> None:
    assert copy.deepcopy(NULL) is copy.copy(NULL) is pickle.loads(pickle.dumps(NULL)) is NULL
    assert repr(NULL) == "NULL"


def test_null_inside_of_a_notification_is_written() -> None:
    update = schema.SessionInfoUpdate(title=NULL)
    notification = schema.SessionNotification(session_id="s", update=update)
    assert notification.to_wire()["update"] == {"sessionUpdate": "session_info_update", "title": None}


def test_none_leaves_every_optional_field_out() -> None:
    assert schema.SessionInfoUpdate(title=None, updated_at=None).to_wire() == {"sessionUpdate": "session_info_update"}
    call = schema.ToolCall(tool_call_id="c", title="t", kind=None, status=None, content=None, locations=None)
    assert call.to_wire() == {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}
    assert (call.kind, call.status, call.content, call.locations) == (None, None, None, None)
    anything: Any = None
    capabilities = schema.ClientCapabilities(terminal=anything, fs=anything)
    assert (capabilities.terminal, capabilities.to_wire()) == (False, {})
    assert schema.McpServerStdio(name="n", command="/c", args=anything).args == []
    assert v2.ToolCallUpdate(tool_call_id="c", title=None).to_wire() == {"toolCallId": "c"}


def test_none_given_to_an_attribute_unsets_it() -> None:
    capabilities = schema.ClientCapabilities(terminal=True)
    anything: Any = capabilities
    anything.terminal = None
    assert (capabilities.terminal, capabilities.to_wire()) == (False, {})
    session = schema.SessionInfo(session_id="s", cwd="/", title="t")
    assert session.model_copy(update={"title": None}).to_wire() == {"sessionId": "s", "cwd": "/"}


def test_null_is_refused_where_it_means_nothing() -> None:
    with pytest.raises(ValidationError, match="Null has no meaning here"):
        schema.ToolCall(tool_call_id="c", title="t", status=NULL)
    with pytest.raises(AttributeError, match=r"ToolCall.status cannot be null"):
        schema.ToolCall(tool_call_id="c", title="t").status = NULL
    with pytest.raises(ValidationError, match="Null has no meaning here"):
        v2.ToolCallUpdate(tool_call_id=NULL)


def test_a_required_field_is_not_left_out() -> None:
    anything: Any = None
    with pytest.raises(ValidationError, match="valid string"):
        schema.ToolCall(tool_call_id="c", title=anything)


def test_a_null_request_id_is_written() -> None:
    assert schema.CancelRequestNotification(request_id=None).to_wire() == {"requestId": None}
    assert schema.CancelRequestNotification(request_id=NULL).to_wire() == {"requestId": None}
    url = schema.ElicitationUrlMode(message="m", elicitation_id="e", url="https://x", request_id=NULL)
    assert url.to_wire()["requestId"] is None
    assert url.scope.to_wire() == {"requestId": None}


def test_an_elicitation_of_a_session_has_no_request_id() -> None:
    form = schema.ElicitationFormMode(
        message="m", session_id="s", tool_call_id="c", requested_schema=schema.ElicitationSchema()
    )
    assert form.scope.to_wire() == {"sessionId": "s", "toolCallId": "c"}
    assert form.to_wire() == {
        "mode": "form",
        "message": "m",
        "sessionId": "s",
        "toolCallId": "c",
        "requestedSchema": {"type": "object", "properties": {}},
    }


def test_an_elicitation_without_a_scope_is_an_error() -> None:
    with pytest.raises(ValidationError, match="belongs to a session or to a request"):
        schema.ElicitationFormMode(message="m", requested_schema=schema.ElicitationSchema())


def test_what_the_protocol_requires_is_written_even_where_python_code_may_leave_it_out() -> None:
    assert schema.NewSessionRequest(cwd="/w").to_wire() == {"cwd": "/w", "mcpServers": []}
    assert schema.McpServerStdio(name="a", command="b").to_wire() == {
        "name": "a",
        "command": "b",
        "args": [],
        "env": [],
    }
    assert schema.McpServerHttp(name="a", url="b").to_wire()["headers"] == []
    assert schema.ResumeSessionRequest(session_id="s", cwd="/w").to_wire() == {"sessionId": "s", "cwd": "/w"}


def test_nulls_inside_free_data_stay() -> None:
    call = schema.ToolCallUpdate(tool_call_id="c", raw_input={"a": None, "b": [None]}, meta={"k": None})
    assert call.to_wire() == {"toolCallId": "c", "rawInput": {"a": None, "b": [None]}, "_meta": {"k": None}}


def test_a_tool_call_that_waits_for_permission_has_no_tag_of_an_update() -> None:
    request = schema.RequestPermissionRequest(
        session_id="s",
        tool_call=schema.ToolCallUpdate(tool_call_id="c"),
        options=[schema.PermissionOption(option_id="y", name="Yes", kind="allow_once")],
    )
    assert request.to_wire()["toolCall"] == {"toolCallId": "c"}


def test_a_boolean_option_is_set_with_its_type() -> None:
    request = schema.SetSessionConfigOptionRequest(session_id="s", config_id="web", value=False)
    assert request.to_wire() == {"sessionId": "s", "configId": "web", "type": "boolean", "value": False}


@pytest.mark.parametrize(
    "received",
    [{"type": "boolean", "value": "true"}, {"type": "slider", "value": True}, {"value": 5}, {"value": None}, {}],
)
def test_a_value_that_does_not_fit_its_type_is_an_error(received: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        schema.SetSessionConfigOptionRequest.from_wire({"sessionId": "s", "configId": "c", **received})


def test_a_type_of_tomorrow_with_a_value_id_is_carried_unchanged() -> None:
    received = {"sessionId": "s", "configId": "c", "type": "slider", "value": "7"}
    assert schema.SetSessionConfigOptionRequest.from_wire(received).to_wire() == received


def test_a_value_without_a_json_form_is_an_error() -> None:
    with pytest.raises(PydanticSerializationError):
        schema.ToolCallUpdate(tool_call_id="c", raw_output=object()).to_wire()


def test_what_is_printed_of_an_object_is_what_it_has() -> None:
    update = schema.ToolCallProgress.from_wire({"toolCallId": "1", "status": "failed", "of tomorrow": 5})
    said = "tool_call_id='1', status='failed', session_update='tool_call_update', of tomorrow=5"
    assert repr(update) == f"ToolCallProgress({said})"
    assert str(schema.SessionMode(id="ask", name="Ask")) == "id='ask' name='Ask'"


def test_a_plain_dump_shows_everything() -> None:
    assert schema.McpCapabilities().model_dump() == {"meta": None, "http": False, "sse": False}
