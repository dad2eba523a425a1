"""The table of methods: complete, and with the capabilities that open each method."""

import pytest

from acp_server import schema

GATES = {
    "session/load": {"loadSession": True},
    "session/list": {"sessionCapabilities": {"list": {}}},
    "session/resume": {"sessionCapabilities": {"resume": {}}},
    "session/close": {"sessionCapabilities": {"close": {}}},
    "session/delete": {"sessionCapabilities": {"delete": {}}},
    "session/fork": {"sessionCapabilities": {"fork": {}}},
    "session/set_title": {"sessionCapabilities": {"title": {}}},
    "session/archive": {"sessionCapabilities": {"archive": {}}},
    "session/unarchive": {"sessionCapabilities": {"archive": {}}},
    "session/status": {"sessionCapabilities": {"status": {}}},
    "session/options": {"sessionCapabilities": {"options": {}}},
    "logout": {"auth": {"logout": {}}},
    "fs/read_text_file": {"fs": {"readTextFile": True}},
    "fs/write_text_file": {"fs": {"writeTextFile": True}},
    "terminal/create": {"terminal": True},
    "terminal/output": {"terminal": True},
    "terminal/wait_for_exit": {"terminal": True},
    "terminal/kill": {"terminal": True},
    "terminal/release": {"terminal": True},
    "elicitation/create": {"elicitation": {}},
    "elicitation/complete": {"elicitation": {"url": {}}},
}
"""The least that a receiver announces for a method to be open."""


def is_open(name: str, announced: object) -> bool:
    """Whether a method is open when its receiver announces this."""
    method = schema.METHODS[name]
    if method.receiver == "agent":
        agent = schema.AgentCapabilities.from_wire(announced)
        return schema.is_announced(method.capability, agent=agent, client=None)
    client = schema.ClientCapabilities.from_wire(announced)
    return schema.is_announced(method.capability, agent=None, client=client)


@pytest.mark.parametrize("name", GATES)
def test_a_capability_opens_its_method_and_nothing_else_does(name: str) -> None:
    assert is_open(name, GATES[name])
    assert not is_open(name, {})
    others = [other for other in GATES.values() if not _contains(other, GATES[name])]
    assert not any(is_open(name, other) for other in others)


def _contains(announced: object, needed: object) -> bool:
    if not isinstance(needed, dict) or not isinstance(announced, dict):
        return announced == needed
    return all(key in announced and _contains(announced[key], value) for key, value in needed.items())


def test_every_other_method_is_always_open() -> None:
    free = {name for name, method in schema.METHODS.items() if method.capability is None}
    assert free == set(schema.METHODS) - set(GATES)
    assert all(schema.is_announced(schema.METHODS[name].capability, agent=None, client=None) for name in free)


def test_nothing_is_announced_by_a_side_that_is_not_known_yet() -> None:
    for name in GATES:
        assert not schema.is_announced(schema.METHODS[name].capability, agent=None, client=None)


def test_null_and_false_announce_nothing() -> None:
    assert not is_open("session/load", {"loadSession": False})
    assert not is_open("session/list", {"sessionCapabilities": {"list": None}})
    assert not is_open("session/list", {"sessionCapabilities": None})
    assert not is_open("elicitation/create", {"elicitation": None})


def test_each_side_of_a_capability_that_a_member_needs_exists() -> None:
    agent, client = schema.AgentCapabilities(), schema.ClientCapabilities()
    for union, tags in schema.MEMBER_CAPABILITIES.items():
        assert schema.area_of(union) is not None
        for capability in tags.values():
            assert not schema.is_announced(capability, agent=agent, client=client)


def test_a_member_is_open_once_its_capability_is_announced() -> None:
    client = schema.ClientCapabilities.from_wire({"session": {"notices": {}}})
    updates = schema.MEMBER_CAPABILITIES["SessionUpdate"]
    assert schema.is_announced(updates["notice"], agent=None, client=client)
    assert not schema.is_announced(updates["compaction_update"], agent=None, client=client)


def test_a_notification_has_no_result() -> None:
    notifications = {name for name, method in schema.METHODS.items() if not method.is_request}
    assert notifications == {"session/cancel", "session/update", "elicitation/complete", "$/cancel_request"}
    assert all(schema.METHODS[name].result_type is None for name in notifications)


def test_both_sides_receive_the_cancel_of_a_request() -> None:
    assert [name for name, method in schema.METHODS.items() if method.receiver == "both"] == ["$/cancel_request"]


def test_the_table_gives_the_classes() -> None:
    assert schema.METHODS["session/prompt"].params_type is schema.PromptRequest
    assert schema.METHODS["session/prompt"].result_type is schema.PromptResponse
