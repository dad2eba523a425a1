"""Words that the protocol does not have: read from a peer, refused from Python code."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from acp_server import schema
from acp_server.schema import (
    Annotations,
    Notice,
    OwnWord,
    PermissionOption,
    Plan,
    PlanEntry,
    Record,
    SessionNotification,
    ToolCall,
    ToolCallLocation,
    ToolCallProgress,
    v2,
)

MISTAKES: list[tuple[type[Record], dict[str, Any], str]] = [
    (PlanEntry, {"content": "a", "priority": "high", "status": "done"}, "status: did you mean 'completed'?"),
    (PlanEntry, {"content": "a", "priority": "urgent", "status": "pending"}, "priority: there are high, medium, low"),
    (PlanEntry, {"content": "a", "priority": "normal", "status": "pending"}, "priority: did you mean 'medium'?"),
    (PlanEntry, {"content": "a", "priority": "low", "status": "in progress"}, "status: did you mean 'in_progress'?"),
    (ToolCall, {"tool_call_id": "1", "title": "t", "kind": "serch"}, "kind: did you mean 'search'?"),
    (ToolCall, {"tool_call_id": "1", "title": "t", "status": "running"}, "status: did you mean 'in_progress'?"),
    (ToolCallProgress, {"tool_call_id": "1", "status": "success"}, "status: did you mean 'completed'?"),
    (PermissionOption, {"option_id": "1", "name": "n", "kind": "allow"}, "kind: did you mean 'allow_once'?"),
    (PermissionOption, {"option_id": "1", "name": "n", "kind": "ALLOW_ONCE"}, "kind: did you mean 'allow_once'?"),
    (Notice, {"title": "m", "severity": "warn"}, "severity: did you mean 'warning'?"),
    (Annotations, {"audience": ["human"]}, "audience.0: there are assistant, user"),
    (v2.PlanEntry, {"content": "a", "priority": "low", "status": "complete"}, "status: did you mean 'completed'?"),
]


@pytest.mark.parametrize(("kind", "fields", "words"), MISTAKES, ids=[words for _, _, words in MISTAKES])
def test_code_that_writes_a_word_of_its_own_is_told_which_is_meant(
    kind: type[Record], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        kind(**fields)
    (problem,) = refused.value.errors()
    where, _, instead = words.partition(": ")
    assert ".".join(map(str, problem["loc"])) == where
    way_out = "; use OwnWord(...) for a word of an extension" if instead.startswith("there are") else ""
    assert problem["msg"] == f"There is no such word in the protocol; {instead}{way_out}"


def test_a_word_in_a_dictionary_within_is_looked_at_too() -> None:
    with pytest.raises(ValidationError, match="did you mean 'completed'"):
        Plan(entries=[{"content": "a", "priority": "low", "status": "done"}])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    update = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", "kind": "serch"}
    with pytest.raises(ValidationError, match="did you mean 'search'"):
        SessionNotification(session_id="s", update=update)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_an_attribute_takes_no_such_word_and_keeps_what_it_had() -> None:
    entry = PlanEntry(content="a", priority="high", status="pending")
    with pytest.raises(ValueError, match="did you mean 'completed'"):
        entry.status = "done"
    with pytest.raises(ValueError, match="there are high, medium, low"):
        entry.model_copy(update={"priority": "urgent"})
    assert (entry.status, entry.priority) == ("pending", "high")


def test_what_a_peer_sends_is_read_and_can_be_passed_on() -> None:
    sent = {"content": "a", "priority": "urgent", "status": "done"}
    entry = PlanEntry.from_wire(sent)
    assert Plan(entries=[entry]).to_wire()["entries"] == [sent]
    assert schema.from_wire(PlanEntry, sent) == TypeAdapter(PlanEntry).validate_python(sent) == entry


def test_an_address_is_a_place_of_its_own() -> None:
    places = [ToolCallLocation(path=path) for path in ("https://example.org/a", "file:///a", "/a", "C:\\a")]
    assert ToolCall(tool_call_id="1", title="t", locations=places).to_wire()["locations"][0]["path"][:8] == "https://"
    for path in ("a.py", "./a", "a:b", "a/b"):
        with pytest.raises(ValidationError, match="absolute"):
            ToolCallLocation(path=path)


def test_a_word_of_an_extension_is_given_on_purpose() -> None:
    for word in (OwnWord("plan_exit"), "_mine"):
        call = ToolCall(tool_call_id="1", title="t", kind=word)
        call.kind = word
        assert call.to_wire()["kind"] == str(word)
        assert type(call.to_wire()["kind"]) is str
