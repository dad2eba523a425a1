"""The suite takes what the published drafts have for a part of the protocol, and not for the agent's own."""

from typing import Any

import pytest

from acp_conformance.core.members import published, unknown_members
from tests.conformance.core.published import SAME, beyond
from tests.schema.test_parity import find_published

FORM = {"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_known_beyond_the_stable_schema_is_what_is_published(version: int) -> None:
    find_published(name="schema.unstable.json")
    assert published(version)._asdict() == beyond(version)


def test_every_member_of_the_published_draft_is_known() -> None:
    draft: dict[str, Any] = find_published(name="schema.unstable.json")["$defs"]
    for name in ("SessionCapabilities", "AgentCapabilities", "SessionInfo", "AgentMessageChunk", "ToolCallProgress"):
        members = draft[SAME.get(name, name)]["properties"]
        assert unknown_members(name, dict.fromkeys(members, 0)) == []


@pytest.mark.parametrize(
    ("name", "value", "own"),
    [
        ("SessionCapabilities", {"systemPrompt": {}, "undo": {}}, ["undo"]),
        ("SessionCapabilities", {"status": {"anything": 1}, "archive": {}, "title": {}}, []),
        ("AgentCapabilities", {"auth": {"status": {}, "mine": 1}}, ["auth.mine"]),
        ("SessionInfo", {"sessionId": "s", "cwd": "/", "archived": True, "stars": 5}, ["stars"]),
        ("CreateElicitationRequest", {**FORM, "sessionId": "s", "toolCallId": "t"}, []),
        ("CreateElicitationRequest", {**FORM, "requestId": 5}, []),
        ("CreateElicitationRequest", {**FORM, "sessionId": "s", "made": 1}, ["made"]),
        ("CreateElicitationRequest", {"mode": "_own", "anything": 1}, []),
        ("SetSessionConfigOptionRequest", {"sessionId": "s", "configId": "c", "type": "boolean", "value": True}, []),
        ("SetSessionConfigOptionRequest", {"sessionId": "s", "configId": "c", "value": "v", "made": 1}, ["made"]),
        ("ClientSessionCapabilities", {"notices": {"_meta": {"a": 1}, "made": 1}}, ["notices.made"]),
    ],
)
def test_a_member_that_no_schema_has_is_of_ones_own(name: str, value: dict[str, Any], own: list[str]) -> None:
    assert unknown_members(name, value) == own
