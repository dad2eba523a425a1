"""The screen that the chat draws on, without a terminal."""

import re

import pytest

from acp_server.apps.cli.chat.live_screen import LiveScreen
from acp_server.schema import AgentMessageChunk, TextContent, ToolCall, ToolCallProgress


def test_a_message_that_comes_all_at_once_and_is_very_long_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def chunk(text: str) -> AgentMessageChunk:
        return AgentMessageChunk(content=TextContent(text=text))

    screen = LiveScreen(lambda: None, lambda: (80, 24))
    read: list[str] = []
    monkeypatch.setattr("acp_server.apps.cli.chat.live_screen._markdown", lambda text: read.append(text) or text)
    table = "|a" * 100 + "\n" + "|-" * 100 + "\n" + ("|a" * 100 + "\n") * 1_000
    for text in ("**before** ", table, "**behind**"):
        screen.update(chunk(text))
    screen.turn_over()
    assert read == ["**before** ", "**behind**"]
    assert screen.take().count("|a|a") > 1_000


def test_the_time_of_a_call_begins_when_it_runs_and_not_when_the_user_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = LiveScreen(lambda: None, lambda: (80, 24))
    clock = 100.0
    monkeypatch.setattr("acp_server.apps.cli.chat.live_screen.time.monotonic", lambda: clock)
    screen.update(ToolCall(tool_call_id="1", title="Dig", status="pending"))
    clock = 160.0  # the user thinks
    screen.update(ToolCallProgress(tool_call_id="1", status="in_progress"))
    clock = 161.0
    screen.update(ToolCallProgress(tool_call_id="1", status="in_progress"))
    clock = 162.5
    screen.update(ToolCallProgress(tool_call_id="1", status="completed"))
    assert re.search(r"Dig \[completed\]\S*  2.5 s", screen.take())
