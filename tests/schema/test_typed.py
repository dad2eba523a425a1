"""The program in `typed`, which pyright checks in strict mode, does what its types say."""

from acp_server import schema
from acp_server.schema import from_wire
from tests.schema import typed


def test_a_tag_tells_members_apart() -> None:
    assert typed.text_of(schema.TextContent(text="a")) == "a"
    assert typed.text_of(from_wire(schema.ContentBlock, {"type": "video", "text": "b"})) == "[video]"
    assert typed.told(schema.ToolCall(tool_call_id="c", title="t")) == "t: pending"
    assert typed.told(from_wire(schema.SessionUpdate, {"sessionUpdate": "later"})) == "later"
    assert typed.server_of(schema.McpServerStdio(name="n", command="/c")) == "/c"
    assert typed.server_of(from_wire(schema.McpServer, {"type": "pipe"})) == "pipe"


def test_any_sequence_may_be_given_and_a_list_is_kept() -> None:
    call, progress, plan, prompt, info = (record.to_wire() for record in typed.made())
    assert call["locations"] == [{"path": "/a"}]
    assert progress["content"] == call["content"]
    assert "locations" not in progress
    assert [entry["content"] for entry in plan["entries"]] == ["a", "b"]
    assert [block["text"] for block in prompt["prompt"]] == ["a", "b"]
    assert info == {"sessionUpdate": "session_info_update", "title": None}
    assert type(schema.Plan(entries=()).entries) is list
