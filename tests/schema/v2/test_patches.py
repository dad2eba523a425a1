"""A field of an update that is absent, null or a value is read as one of three, and written again as what it was."""

from typing import Any

from acp_server.schema import NULL, from_wire, v2
from tests.each import each
from tests.schema.v2.fragments import TEXT

PATCHES: dict[type[v2.Patch], dict[str, Any]] = {
    v2.UserMessage: {"messageId": "m"},
    v2.AgentMessage: {"messageId": "m"},
    v2.AgentThought: {"messageId": "m"},
    v2.ToolCallUpdate: {"toolCallId": "c"},
    v2.ToolCallProgress: {"toolCallId": "c"},
    v2.TerminalUpdate: {"terminalId": "t"},
    v2.SessionInfoUpdate: {},
    v2.UsageUpdate: {"used": 1, "size": 2},
    v2.CompactionUpdate: {"compactionId": "c", "status": "in_progress"},
    v2.SubagentUpdate: {"sessionId": "s2"},
    v2.SessionMessage: {"messageId": "m"},
}
FIELDS = [
    (cls, field.alias)
    for cls in PATCHES
    for field in cls.model_fields.values()
    if field.alias and field.default is None
]


def test_every_patch_of_the_schema_is_tried_here() -> None:
    def below(cls: type[Any]) -> set[type[Any]]:
        return {cls} | {found for sub in cls.__subclasses__() for found in below(sub)}

    public = {cls for cls in below(v2.Patch) if v2.area_of(cls.__name__) and not cls.__name__.startswith("_")}
    assert public - {v2.Patch} == set(PATCHES)


@each(FIELDS)
def test_null_is_read_as_none_that_was_set_and_written_as_null(cls: type[v2.Patch], key: str) -> None:
    wire = {**PATCHES[cls], key: None}
    read = cls.from_wire(wire)
    name = next(name for name, field in cls.model_fields.items() if field.alias == key)
    assert getattr(read, name) is None
    assert name in read.model_fields_set
    assert {key: value for key, value in read.to_wire().items() if key != "sessionUpdate"} == wire


@each(FIELDS)
def test_a_field_that_is_absent_is_not_set_and_not_written(cls: type[v2.Patch], key: str) -> None:
    read = cls.from_wire(PATCHES[cls])
    assert read.model_fields_set.isdisjoint(name for name, field in cls.model_fields.items() if field.alias == key)
    assert key not in read.to_wire()


@each((cls, key) for cls, key in FIELDS if key not in {"rawInput", "rawOutput", "cwd", "additionalDirectories"})
def test_a_wrong_value_changes_nothing_and_does_not_clear(cls: type[v2.Patch], key: str) -> None:
    read = cls.from_wire({**PATCHES[cls], key: 5})
    assert key not in read.to_wire()


def test_python_code_says_the_three_apart_the_same_way() -> None:
    assert v2.ToolCallUpdate(tool_call_id="c").to_wire() == {"toolCallId": "c"}
    assert v2.ToolCallUpdate(tool_call_id="c", title=None).to_wire() == {"toolCallId": "c"}
    assert v2.ToolCallUpdate(tool_call_id="c", title=NULL).to_wire() == {"toolCallId": "c", "title": None}
    assert v2.ToolCallUpdate(tool_call_id="c", title="").to_wire() == {"toolCallId": "c", "title": ""}


def test_null_inside_of_meta_and_of_raw_values_is_kept() -> None:
    wire = {"toolCallId": "c", "_meta": {"gone": None, "deep": {"x": None}}, "rawInput": {"limit": None}}
    assert v2.ToolCallUpdate.from_wire(wire).to_wire() == wire


def test_a_field_of_tomorrow_that_is_cleared_is_written_again() -> None:
    wire = {"toolCallId": "c", "mood": None, "weight": 3}
    assert v2.ToolCallUpdate.from_wire(wire).to_wire() == wire


def test_wrong_items_of_a_list_are_left_out_and_the_rest_replaces() -> None:
    read = v2.UserMessage.from_wire({"messageId": "m", "content": [TEXT, {"type": "text"}, 7]})
    assert read.to_wire()["content"] == [TEXT]


def test_a_patch_inside_of_a_permission_request_survives() -> None:
    wire = {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": None}}
    assert from_wire(v2.RequestPermissionSubject, wire).to_wire() == wire


def test_a_plain_dump_shows_everything() -> None:
    assert v2.ToolCallUpdate(tool_call_id="c").model_dump()["title"] is None
