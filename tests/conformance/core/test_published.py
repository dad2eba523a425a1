"""The suite takes a member that the published drafts have for one of the protocol, and not for the agent's own."""

import json
from pathlib import Path
from typing import Any

from acp_conformance.core.schema import unknown_members
from tests.schema.test_parity import find_published

SCHEMA = Path(unknown_members.__code__.co_filename).with_name("schemas") / "v1" / "schema.json"


def test_every_member_of_the_published_draft_is_known() -> None:
    ours: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))["$defs"]
    draft: dict[str, Any] = find_published(name="schema.unstable.json")["$defs"]
    objects = {name for name in ours.keys() & draft.keys() if "properties" in ours[name]}
    strange = {name: unknown_members(name, dict.fromkeys(draft[name].get("properties", {}), 0)) for name in objects}
    assert {name: members for name, members in strange.items() if members} == {}


def test_a_member_that_is_in_no_draft_is_the_agents_own() -> None:
    assert unknown_members("SessionCapabilities", {"systemPrompt": {}, "undo": {}}) == ["undo"]
