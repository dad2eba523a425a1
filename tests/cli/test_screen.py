"""How updates of a session look at the terminal."""

from typing import Any

import click
import pytest

from acp_server.cli.screen import Screen, clean
from acp_server.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    Content,
    CurrentModeUpdate,
    Diff,
    EmbeddedResource,
    ImageContent,
    Plan,
    PlanEntry,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolCall,
    ToolCallLocation,
    ToolCallProgress,
    UnstructuredCommandInput,
    UsageUpdate,
    UserMessageChunk,
)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the screen writes, colours included."""
    pieces: list[str] = []
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(
        click, "echo", lambda text, nl, color: pieces.append(text if color is None else click.unstyle(text))
    )
    return pieces


def shown(*updates: Any) -> None:
    screen = Screen()
    for update in updates:
        screen.update(update)
    screen.fresh()


def text_of(written: list[str]) -> str:
    return click.unstyle("".join(written))


def test_messages_stream_and_another_kind_begins_a_line_of_its_own(written: list[str]) -> None:
    shown(
        UserMessageChunk(content=TextContent(text="Do it.")),
        AgentThoughtChunk(content=TextContent(text="Hm")),
        AgentThoughtChunk(content=TextContent(text="m.")),
        AgentMessageChunk(content=TextContent(text="Do")),
        AgentMessageChunk(content=TextContent(text="ne.\n")),
        AgentMessageChunk(content=TextContent(text="Really.")),
    )
    assert text_of(written) == "> Do it.\nHmm.\nDone.\nReally.\n"


def test_content_that_is_no_text_is_named(written: list[str]) -> None:
    shown(
        AgentMessageChunk(content=ImageContent(data="", mime_type="image/png")),
        AgentMessageChunk(content=ResourceLink(name="n", uri="file:///a")),
        AgentMessageChunk(content=EmbeddedResource(resource=TextResourceContents(uri="file:///b", text="t"))),
    )
    assert text_of(written) == "[image][resource_link: file:///a][resource: file:///b]\n"


def test_a_tool_call_has_a_line_for_each_status(written: list[str]) -> None:
    shown(
        AgentMessageChunk(content=TextContent(text="Now.")),
        ToolCall(tool_call_id="1", title="Read"),
        ToolCallProgress(tool_call_id="1", status="in_progress", title="Read a.py"),
        ToolCallProgress(tool_call_id="1", locations=[ToolCallLocation(path="/a.py", line=3)]),
        ToolCallProgress(tool_call_id="1", status="completed", locations=[ToolCallLocation(path="/a.py", line=3)]),
        ToolCallProgress(tool_call_id="2", status="failed", locations=[ToolCallLocation(path="/a.py")] * 3),
    )
    assert text_of(written).splitlines() == [
        "Now.",
        "  * Read [pending]",
        "  * Read a.py [in progress]",
        "  * Read a.py [completed]  /a.py:3",
        "  * 2 [failed]  3 places",
    ]
    assert click.style("  * 2 [failed]  3 places", fg="red") in written


def test_the_output_of_a_tool_is_shown_in_short(written: list[str]) -> None:
    long = "\n".join(f"line {n}" for n in range(20))
    shown(
        ToolCall(tool_call_id="1", title="Run", status="completed", content=[Content(content=TextContent(text=long))]),
        ToolCallProgress(tool_call_id="1", content=[Diff(path="/a", old_text="one\ntwo\n", new_text="one\nthree\n")]),
    )
    assert text_of(written).splitlines() == [
        "  * Run [completed]",
        *[f"    line {n}" for n in range(12)],
        "    ... 8 more lines",
        "    --- /a",
        "    +++ /a",
        "    @@ -1,2 +1,2 @@",
        "     one",
        "    -two",
        "    +three",
    ]


def test_plans_modes_and_commands_are_shown_and_what_is_not_for_reading_is_not(written: list[str]) -> None:
    shown(
        Plan(
            entries=[
                PlanEntry(content="a", priority="high", status="completed"),
                PlanEntry(content="b", priority="high", status="in_progress"),
                PlanEntry(content="c", priority="low", status="pending"),
                PlanEntry(content="d", priority="low", status="postponed"),
            ]
        ),
        CurrentModeUpdate(current_mode_id="ask"),
        AvailableCommandsUpdate(
            available_commands=[
                AvailableCommand(name="go", description="Go on.", input=UnstructuredCommandInput(hint="WHERE")),
                AvailableCommand(name="stop", description="Stop."),
            ]
        ),
        UsageUpdate(used=1, size=2),
    )
    assert text_of(written).splitlines() == [
        "  [x] a",
        "  [>] b",
        "  [ ] c",
        "  [?] d",
        "  mode: ask",
        "  /go WHERE                 Go on.",
        "  /stop                     Stop.",
    ]


def test_nothing_that_an_agent_says_can_steer_the_terminal(written: list[str]) -> None:
    evil = "\x1b[2J\x9b1m\x07\r\x00"
    shown(
        AgentMessageChunk(content=TextContent(text=evil)),
        ToolCall(
            tool_call_id=evil,
            title=evil,
            content=[Content(content=TextContent(text=evil)), Diff(path=evil, new_text=evil)],
            locations=[ToolCallLocation(path=evil)],
        ),
        Plan(entries=[PlanEntry(content=evil, priority="high", status="pending")]),
        CurrentModeUpdate(current_mode_id=evil),
        AvailableCommandsUpdate(available_commands=[AvailableCommand(name=evil, description=evil)]),
    )
    assert not {"\x1b", "\x9b", "\x07", "\r", "\x00"} & set(text_of(written))


def test_line_ends_of_any_kind_are_line_ends() -> None:
    assert clean("a\r\nb\tc\nd") == "a\nb\tc\nd"


def test_without_colours_there_are_none(written: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown(CurrentModeUpdate(current_mode_id="ask"))
    assert "".join(written) == "  mode: ask\n"
