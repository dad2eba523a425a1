"""How updates of a session look at the terminal."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import click
import pytest

from acp_server.apps.cli.screen import Screen, clean
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
    Notice,
    OwnWord,
    Plan,
    PlanEntry,
    RequestPermissionRequest,
    ResourceLink,
    Terminal,
    TextContent,
    TextResourceContents,
    ToolCall,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallUpdate,
    UnknownSessionUpdate,
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
        click, "echo", lambda text, file, nl, color: pieces.append(text if color is None else click.unstyle(text))
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


@pytest.mark.parametrize(
    ("meta", "state", "colour"),
    [
        ({"outcome": "rejected"}, "rejected", "yellow"),
        ({"outcome": "cancelled"}, "cancelled", "yellow"),
        ({"acp_server.status": "cancelled"}, "cancelled", "yellow"),
        ({"outcome": "rejected", "acp_server.status": "cancelled"}, "rejected", "yellow"),
        ({"outcome": "odd"}, "failed", "red"),
        ({"outcome": {}}, "failed", "red"),
        ({}, "failed", "red"),
    ],
)
def test_a_call_that_the_user_has_ended_has_not_failed(
    meta: dict[str, Any], state: str, colour: str, written: list[str]
) -> None:
    shown(
        ToolCall(tool_call_id="1", title="Dig", status="in_progress", meta={"outcome": "cancelled"}),
        ToolCallProgress(tool_call_id="1", status="failed", meta=meta),
    )
    assert text_of(written) == f"  * Dig [in progress]\n  * Dig [{state}]\n"
    assert click.style(f"  * Dig [{state}]", fg=colour) in written


def text_content(text: str) -> Content:
    return Content(content=TextContent(text=text))


def output(lines: int, *, fenced: bool = False) -> Content:
    text = "".join(f"line {n}\n" for n in range(lines))
    return text_content(f"~~~~\n{text}~~~~\n" if fenced else text)


def test_the_output_of_a_tool_is_shown_in_short(written: list[str]) -> None:
    shown(
        ToolCall(tool_call_id="1", title="Run", status="completed", content=[output(20)]),
        ToolCall(tool_call_id="2", title="Run", status="completed", content=[output(17)]),
    )
    assert text_of(written).splitlines() == [
        "  * Run [completed]",
        *[f"    line {n}" for n in range(12)],
        "    ... 4 more lines",
        *[f"    line {n}" for n in range(16, 20)],
        "  * Run [completed]",
        *[f"    line {n}" for n in range(17)],
    ]


@pytest.mark.parametrize("fenced", [True, False])
def test_output_that_grows_is_shown_as_it_comes_and_each_line_once(written: list[str], fenced: bool) -> None:
    def progress(lines: int, *more: Any, status: Any = None) -> ToolCallProgress:
        return ToolCallProgress(tool_call_id="1", status=status, content=[output(lines, fenced=fenced), *more])

    screen = Screen()
    screen.update(ToolCall(tool_call_id="1", title="Run", status="in_progress"))
    seen: list[list[str]] = []
    for update in (
        progress(1),
        progress(3),
        progress(3),
        progress(14),
        ToolCallProgress(tool_call_id="1", title="Run on"),
        progress(30),
        progress(31, text_content("It was stopped."), status="failed"),
    ):
        written.clear()
        screen.update(update)
        seen.append(text_of(written).splitlines())
    assert seen == [
        ["    line 0"],
        ["    line 1", "    line 2"],
        [],
        [f"    line {n}" for n in range(3, 12)],
        ["  * Run on [in progress]"],
        [],
        [
            "  * Run on [failed]",
            "    ... 16 more lines",
            *[f"    line {n}" for n in (28, 29, 30)],
            "    It was stopped.",
        ],
    ]


def test_output_whose_beginning_is_left_out_is_not_shown_again_and_again(written: list[str]) -> None:
    updates = [ToolCallProgress(tool_call_id="1", content=[text_content(f"{n}\n" * 9)]) for n in range(9)]
    shown(*updates, ToolCallProgress(tool_call_id="1", status="completed"))
    assert len(text_of(written).splitlines()) < 25


def test_a_change_is_shown_once_as_a_unified_diff_in_colours(written: list[str]) -> None:
    change = Diff(path="/a", old_text="one\ntwo\n", new_text="one\nthree\n")
    shown(
        ToolCall(tool_call_id="1", title="Edit", content=[change]),
        ToolCallProgress(tool_call_id="1", content=[text_content("May I?"), change]),
        ToolCallProgress(tool_call_id="1", status="failed", content=[change, text_content("No.")]),
    )
    assert text_of(written).splitlines() == [
        "  * Edit [pending]",
        "    --- /a",
        "    +++ /a",
        "    @@ -1,2 +1,2 @@",
        "     one",
        "    -two",
        "    +three",
        "    May I?",
        "  * Edit [failed]",
        "    No.",
    ]
    assert {click.style("    -two", fg="red"), click.style("    +three", fg="green")} <= set(written)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (None, "new\n", ["--- /dev/null", "+++ /a", "@@ -0,0 +1 @@", "+new"]),
        ("a\n", "a", ["--- /a", "+++ /a", "@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]),
        ("a\r\nb\r\n", "a\r\nc\r\n", ["--- /a", "+++ /a", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]),
        ("a\n", "a\r\n", ["--- /a", "+++ /a", "@@ -1 +1 @@", "-a", "+a\N{REPLACEMENT CHARACTER}"]),
        ("a\x0cb\n", "", ["--- /a", "+++ /a", "@@ -1 +0,0 @@", "-a\N{REPLACEMENT CHARACTER}b"]),
    ],
    ids=["new file", "last line break", "lines with CR LF", "line breaks alone", "other separators"],
)
def test_every_kind_of_change_is_to_be_seen(written: list[str], old: str | None, new: str, lines: list[str]) -> None:
    shown(ToolCall(tool_call_id="1", title="Edit", content=[Diff(path="/a", old_text=old, new_text=new)]))
    assert text_of(written).splitlines()[1:] == [f"    {line}" for line in lines]


def test_of_a_very_long_change_it_is_said_how_much_is_not_shown(written: list[str]) -> None:
    shown(ToolCall(tool_call_id="1", title="Write", content=[Diff(path="/a", new_text="x\n" * 5_000)]))
    assert len(text_of(written).splitlines()) == 202
    assert text_of(written).splitlines()[101] == "    ... 4,803 more lines"


def test_plans_modes_and_commands_are_shown_and_what_is_not_for_reading_is_not(written: list[str]) -> None:
    shown(
        Plan(
            entries=[
                PlanEntry(content="a", priority="high", status="completed"),
                PlanEntry(content="b", priority="high", status="in_progress"),
                PlanEntry(content="c", priority="low", status="pending"),
                PlanEntry(content="d", priority="low", status=OwnWord("postponed")),
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
        "  /go WHERE  Go on.",
        "  /stop      Stop.",
    ]


def test_on_a_terminal_what_a_command_does_is_broken_between_words(
    written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    commands = [
        AvailableCommand(name="go", description="Go on, and do not stop before all of it is done."),
        AvailableCommand(name="read", description="Read.", input=UnstructuredCommandInput(hint="PATH[:LINES]")),
    ]
    shown(AvailableCommandsUpdate(available_commands=commands))
    assert text_of(written).splitlines() == [
        "  /go            Go on, and do not stop",
        "                 before all of it is",
        "                 done.",
        "  /read PATH[:LINES]",
        "                 Read.",
    ]


def test_nothing_that_an_agent_says_can_steer_the_terminal(written: list[str]) -> None:
    evil = "\x1b[2J\x9b1m\x07\r\x00"
    shown(
        AgentMessageChunk(content=TextContent(text=evil)),
        ToolCall(
            tool_call_id=evil,
            title=evil,
            content=[Content(content=TextContent(text=evil)), Diff(path="/" + evil, new_text=evil)],
            locations=[ToolCallLocation(path="/" + evil)],
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


def test_what_is_written_is_clean_whatever_the_caller_did(written: list[str]) -> None:
    evil = "\x1b]52;c;aGk=\x07\x9b2J\u202e\u2066\u2028\rFORGED"
    screen = Screen()
    screen.say(evil)
    screen.line(evil, evil, fg="red")
    screen.text(evil, dim=True)
    screen.error(ValueError(f"{evil}\n{evil}"))
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u2028", "\r"} & set(text_of(written))


def test_a_line_stays_one_line_and_only_the_first_line_of_an_error_is_not_indented(written: list[str]) -> None:
    screen = Screen()
    screen.line("a\nFORGED", "b\r\nFORGED")
    screen.error(ValueError("it failed\nFORGED\n\nFORGED"))
    shown(
        ToolCall(tool_call_id="1", title="Run\nFORGED"),
        CurrentModeUpdate(current_mode_id="ask\nFORGED"),
        Plan(entries=[PlanEntry(content="a\nFORGED", priority="high", status="pending")]),
        AvailableCommandsUpdate(available_commands=[AvailableCommand(name="go\nFORGED", description="Go.\nFORGED")]),
    )
    lines = text_of(written).splitlines()
    assert lines[0] == "a↵FORGEDb↵FORGED"
    assert not [line for line in lines if line.startswith("FORGED")]
    assert len(lines) == 1 + 4 + 4


def test_what_a_terminal_of_the_agent_writes_is_shown_with_its_tool_call(written: list[str]) -> None:
    def wrote(data: bytes) -> UnknownSessionUpdate:
        tag, told = "terminal_output_chunk", {"terminalId": "t", "data": b64encode(data).decode()}
        return UnknownSessionUpdate.from_wire({"sessionUpdate": tag, **told})

    def update(**told: Any) -> UnknownSessionUpdate:
        return UnknownSessionUpdate.from_wire({"sessionUpdate": "terminal_update", "terminalId": "t", **told})

    call = ToolCall(tool_call_id="c", title="Run", status="in_progress", content=[Terminal(terminal_id="t")])
    broken = UnknownSessionUpdate.from_wire({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "?"})
    shown(call, update(command="ls"), wrote("one\nö".encode()[:-1]), broken, wrote("ö\n\x1b[2Jtwo\n".encode()[1:]))
    assert [line.strip() for line in click.unstyle("".join(written)).splitlines()][1:] == [
        "one",
        "ö",
        "\N{REPLACEMENT CHARACTER}[2Jtwo",
    ]
    nothing = [update(output=output) for output in (None, 7, ["x"], {"data": [1]})]
    shown(call, update(output={"data": b64encode(b"anew\n").decode()}), *nothing)
    assert text_of(written).rstrip().endswith("anew")


def test_no_commands_are_no_lines(written: list[str]) -> None:
    shown(AvailableCommandsUpdate(available_commands=[]))
    assert not text_of(written)


def test_a_notice_is_a_line(written: list[str]) -> None:
    shown(Notice(severity="warning", title="Low on space", description="Two\nlines"))
    assert "Low on space  Two" in text_of(written)


@pytest.mark.parametrize(
    ("preview", "arguments", "times"),
    [
        ("May it?\n\n~~~~\npath: z.txt\ntext: abc\n~~~~\n", {"path": "z.txt", "text": "abc"}, 1),
        ("path: z.txt\ntext: \n    abc\n    d\n", {"path": "z.txt", "text": "abc\nd\n"}, 1),
        ("path: z.txt\n    text: abc", {"path": "z.txt", "text": "abc"}, 2),
        ("path: z.txt\ntext: abcd", {"path": "z.txt", "text": "abc"}, 2),
        ("path: z.txt\n" + "line\n" * 20 + "more: 1", {"path": "z.txt", "more": 1}, 2),
        ("path: z.txt", "path: z.txt", 2),
    ],
    ids=["the same", "long texts", "indented", "more of it", "not seen as a whole", "no names"],
)
def test_a_question_shows_arguments_once_that_stand_in_the_preview(
    written: list[str], preview: str, arguments: Any, times: int
) -> None:
    call = ToolCallUpdate(
        tool_call_id="c", title="Write", raw_input=arguments, content=[Content(content=TextContent(text=preview))]
    )
    Screen().question(RequestPermissionRequest(session_id="s", tool_call=call, options=[]))
    assert text_of(written).count("path: z.txt") == times


def asked_about(call: ToolCallUpdate) -> Callable[[], None] | None:
    return Screen().question(RequestPermissionRequest(session_id="s", tool_call=call, options=[]))


HIDDEN = "rm -rf /"


@pytest.mark.parametrize(
    "call",
    [
        {"raw_input": {"command": "true\n" * 1_000 + HIDDEN}},
        {"raw_input": {"command": "true;" + " " * 60_000 + HIDDEN}},
        {"raw_input": {f"word{n}": n for n in range(1_000)} | {"command": HIDDEN}},
        {"raw_input": ["true", *([" "] * 10_000), HIDDEN]},
        {"content": [Diff(path="/a", old_text=None, new_text="true\n" * 1_000 + HIDDEN)]},
        {"content": [Content(content=TextContent(text="Run this:\n" + "true\n" * 1_000 + HIDDEN))]},
    ],
    ids=["lines", "one line", "arguments", "a list", "a change", "text"],
)
def test_a_question_shows_the_end_as_well_and_has_a_key_for_all(written: list[str], call: dict[str, Any]) -> None:
    show_all = asked_about(ToolCallUpdate(tool_call_id="c", title="Run", **call))
    shown = text_of(written)
    assert HIDDEN in shown
    assert " more " in shown
    assert "? Run" in shown
    assert show_all is not None
    written.clear()
    show_all()
    whole = text_of(written)
    assert " more " not in whole
    assert HIDDEN in whole
    assert whole.count("true") in (1_000, 1, 0)
    assert "? Run" in whole


def test_a_question_that_is_shown_as_a_whole_has_no_key_for_more(written: list[str]) -> None:
    text = Content(content=TextContent(text="line\n" * 14))
    call = ToolCallUpdate(tool_call_id="c", title="Run", raw_input={"command": "true\n" * 150}, content=[text])
    assert asked_about(call) is None
    assert text_of(written).count("line") == 14
    assert text_of(written).count("true") == 150


def test_what_is_left_out_of_an_argument_does_not_count_as_shown(written: list[str]) -> None:
    cut = "true;" * 2_000 + " ... 10,000 more characters ... " + "true;" * 2_000
    content: list[Any] = [Content(content=TextContent(text=f"command: {cut}"))]
    command = "true;" * 2_000 + HIDDEN * 1_250 + "true;" * 2_000
    assert asked_about(ToolCallUpdate(tool_call_id="c", title="Run", raw_input={"command": command}, content=content))


def test_a_command_a_path_and_a_name_show_each_character(written: list[str]) -> None:
    call = ToolCallUpdate(
        tool_call_id="c",
        title="Write a text of \u0645\u06cc\u200c\u062e\u0648",
        raw_input={"na\u200bme": "r\u200bm\u202e -rf"},
        content=[Diff(path="/a\u2060b", old_text="", new_text="\u0645\u06cc\u200c\u062e\u0648\n")],
        locations=[ToolCallLocation(path="/a\u2060b")],
    )
    asked_about(call)
    shown = text_of(written)
    assert "na\\u200bme: r\\u200bm\\u202e -rf" in shown
    assert "  /a\\u2060b\n" in shown
    assert "+++ /a\\u2060b" in shown
    assert "+\u0645\u06cc\u200c\u062e\u0648" in shown
    assert "? Write a text of \u0645\u06cc\u200c\u062e\u0648" in shown


def test_a_change_of_very_many_lines_is_shown_in_time_that_grows_with_them(written: list[str]) -> None:
    lines = [f"{number % 100}\n" for number in range(100_000)]
    diff = Diff(path="/a", old_text="".join(lines), new_text="".join(reversed(lines)))
    whole = asked_about(ToolCallUpdate(tool_call_id="c", title="Write", content=[diff]))
    assert whole is not None
    whole()
    assert text_of(written).count("\n    -99\n") >= 1_000


def test_of_very_many_arguments_the_first_and_the_last_are_shown_and_all_on_demand(written: list[str]) -> None:
    arguments = {f"argument {number}": number for number in range(100_000)}
    whole = asked_about(ToolCallUpdate(tool_call_id="c", title="Write", raw_input=arguments))
    assert whole is not None
    lines = text_of(written).splitlines()
    assert len(lines) < 300
    assert "    ... 99,800 more arguments" in lines
    assert "    argument 99999: 99999" in lines
    whole()
    assert "    argument 5000: 5000" in text_of(written).splitlines()


def test_of_very_many_commands_the_first_are_shown(written: list[str]) -> None:
    commands = [AvailableCommand(name=f"c{number}", description="does it") for number in range(10_000)]
    shown(AvailableCommandsUpdate(available_commands=commands))
    assert len(text_of(written).splitlines()) == 201
    assert text_of(written).splitlines()[-1] == "  ... 9,800 more commands"


def test_with_a_change_on_the_screen_the_arguments_are_one_line(written: list[str]) -> None:
    change = Diff(path="/a.txt", old_text="one", new_text="two")
    asked = {"path": "a.txt", "old": "one\none", "new": "x" * 100}
    whole = asked_about(ToolCallUpdate(tool_call_id="c", title="Edit", raw_input=asked, content=[change]))
    lines = text_of(written).splitlines()
    assert "    -one" in lines
    [line] = [line for line in lines if "path: a.txt" in line]
    assert line.startswith("    path: a.txt, old: one one, new: xxx")
    assert line.endswith("x ...")
    assert whole is not None
    whole()
    assert f"    new: {'x' * 100}" in text_of(written).splitlines()
