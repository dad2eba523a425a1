"""What a newer peer sends is carried as it came; what is known and wrong is an error for the peer, -32602."""

from typing import Any

import pytest

from acp_server.errors import InvalidParams
from acp_server.schema import from_wire, v2
from acp_server.schema.reading import read
from tests.schema.v2.fragments import SESSION, TEXT

UNKNOWN: dict[str, dict[str, Any]] = {
    "AuthMethod": {"type": "_key", "methodId": "m", "name": "n", "more": [None]},
    "AvailableCommand": {"type": "_macro", "name": "n", "description": "d", "more": 1},
    "AvailableCommandInput": {"type": "_form", "fields": {"a": None}},
    "BackgroundWork": {"type": "_job", "jobId": 1},
    "ContentBlock": {"type": "_video", "data": None},
    "CreateElicitationRequest": {"mode": "_voice", "message": "m", "sessionId": "s"},
    "CreateElicitationResponse": {"action": "_later", "at": "noon"},
    "DiffChange": {"operation": "_rename", "path": "/a"},
    "ElicitationPropertySchema": {"type": "_color", "palette": []},
    "McpServer": {"type": "sse", "name": "n", "url": "https://x.example"},
    "PlanUpdateContent": {"type": "_graph", "planId": "p", "edges": [[1, 2]]},
    "ReplayFrom": {"type": "_message", "messageId": "m"},
    "RequestPermissionOutcome": {"outcome": "_asked_again"},
    "RequestPermissionSubject": {"type": "_network", "host": "x"},
    "SessionConfigOption": {"type": "_slider", "configId": "c", "name": "n", "max": 3},
    "SessionUpdate": {"sessionUpdate": "_weather", "sun": None},
    "SetSessionConfigOptionRequest": {"type": "_number", **SESSION, "configId": "c", "value": None},
    "ToolCallContent": {"type": "_chart", "points": [1]},
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_member_is_carried_and_written_again_as_it_came(name: str) -> None:
    member = from_wire(getattr(v2, name), UNKNOWN[name])
    assert type(member).__name__.startswith("Unknown")
    assert member.to_wire() == UNKNOWN[name]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_member_without_a_tag_or_with_a_wrong_one_is_an_error(name: str) -> None:
    tag = next(
        key for key in ("sessionUpdate", "type", "mode", "action", "operation", "outcome") if key in UNKNOWN[name]
    )
    for wrong in ({key: value for key, value in UNKNOWN[name].items() if key != tag}, {**UNKNOWN[name], tag: 5}):
        with pytest.raises(ValueError, match="Input should be"):
            from_wire(getattr(v2, name), wrong)


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({**SESSION, "prompt": []}, "prompt"),
        ({**SESSION, "prompt": [{"type": "text"}]}, "prompt[0].text"),
        ({**SESSION, "prompt": [TEXT, {"type": "resource", "resource": {"uri": "a:b"}}]}, "prompt[1].resource"),
        ({**SESSION, "prompt": [TEXT, {"text": "a"}]}, "prompt[1]"),
        ({"prompt": [TEXT]}, "sessionId"),
    ],
)
def test_known_content_that_is_wrong_is_refused_with_its_place(params: Any, path: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        read(v2.PromptRequest, params)
    assert [problem["path"] for problem in caught.value.data["problems"]] == [path]


@pytest.mark.parametrize("wrong", [{"type": "_graph"}, {"type": "_graph", "planId": 3}])
def test_an_unknown_member_without_what_every_member_has_is_an_error(wrong: Any) -> None:
    with pytest.raises(ValueError, match="planId"):
        from_wire(v2.PlanUpdateContent, wrong)


@pytest.mark.parametrize("wrong", [None, True, 1.5, 2**63, []])
def test_only_a_string_or_an_integer_of_64_bits_is_a_request_id(wrong: Any) -> None:
    with pytest.raises(ValueError, match="requestId"):
        v2.CancelRequestNotification.from_wire({"requestId": wrong})


@pytest.mark.parametrize(("cols", "fits"), [(0, False), (1, True), (65535, True), (65536, False), (80.0, False)])
def test_a_terminal_has_at_least_one_column_and_at_most_65535(cols: Any, fits: bool) -> None:
    update = v2.TerminalUpdate.from_wire({"terminalId": "t", "size": {"cols": cols, "rows": 24}})
    assert (update.size is not None) is fits
