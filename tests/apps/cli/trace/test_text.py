"""A conversation as lines of text, and the exit code for those who only want that."""

import json
from pathlib import Path
from typing import Any

import pytest

from acp_server.agent.record import Direction, Entry
from acp_server.apps.cli import main
from acp_server.apps.cli.trace import Row, rows
from acp_server.apps.cli.trace.anomalies import anomalies
from acp_server.apps.cli.trace.conversation import Conversation

from .recordings import Recording, cancelled_turn


def message(t: float, direction: Direction, **members: Any) -> Entry:
    return Entry(t, direction, {"jsonrpc": "2.0", **members})


def shown(*entries: Entry) -> list[Row]:
    conversation = Conversation(entries)
    return list(rows(conversation, anomalies(conversation)))


def titles(*entries: Entry) -> list[str]:
    return [row.text[10:] for row in shown(*entries)]


def test_an_answer_names_its_request_and_how_long_it_took() -> None:
    assert titles(
        message(10.0, "in", id=1, method="initialize", params={}),
        message(10.025, "out", id=1, result={}),
        message(11.0, "in", id=2, method="slow"),
        message(13.5, "out", id=2, error={"code": -32603, "message": "Internal error"}),
    ) == [
        "--> #1 initialize",
        "<-- #1 initialize 25.0 ms",
        "--> #2 slow",
        "<-- #2 slow 2.50 s FAILED",
    ]


def test_ids_belong_to_a_direction_and_have_a_type() -> None:
    assert titles(
        message(0, "in", id=1, method="ours"),
        message(1, "out", id=1, method="theirs"),
        message(2, "in", id="1", method="text"),
        message(3, "in", id=1, result=None),
        message(4, "out", id="1", result=None),
        message(5, "out", id=1, result=None),
        message(6, "out", id=1, result=None),
    )[3:7] == [
        "--> #1 theirs 2.00 s",
        '<-- #"1" text 2.00 s',
        "<-- #1 ours 5.00 s",
        "<-- #1 ours is answered again",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"stopReason": "cancelled"}},
        {"result": {"outcome": {"outcome": "cancelled"}}},
        {"error": {"code": -32800, "message": "Request cancelled"}},
    ],
)
def test_cancels_and_what_was_cancelled_are_marked(answer: dict[str, Any]) -> None:
    found = shown(
        message(0, "in", id=7, method="session/prompt", params={"sessionId": "s"}),
        message(0, "in", method="$/cancel_request", params={"requestId": 7}),
        message(0, "in", method="$/cancel_request", params={"requestId": 8}),
        message(0, "in", method="session/cancel", params={"sessionId": "s"}),
        message(0, "out", id=7, **answer),
    )
    assert [row.text[14:] for row in found] == [
        "#7 session/prompt",
        "cancel #7 session/prompt",
        "cancel #8 which is not waiting for an answer",
        "session/cancel",
        "#7 session/prompt 0.0 ms CANCELLED",
    ]
    assert {row.colour for row in found[1:]} == {"yellow"}


def test_what_is_wrong_comes_last() -> None:
    *_, last = shown(message(1, "out", id=0, method="fs/read_text_file"), message(2, "in", method="hello"))
    assert last == Row(
        "    0.000 !!! never answered: #0 fs/read_text_file",
        "#0 fs/read_text_file has no answer in the recording",
        "red",
        whole=True,
    )


def test_updates_say_what_they_are() -> None:
    update = {"sessionUpdate": "plan", "entries": []}
    row, odd = shown(
        message(0, "out", method="session/update", params={"sessionId": "s", "update": update}),
        message(0, "out", method="session/update", params={"sessionId": "s"}),
    )
    assert (row.text[14:], row.rest) == ("session/update plan", '{"entries":[]}')
    assert (odd.text[14:], odd.rest) == ("session/update", '{"sessionId":"s"}')


def test_members_of_a_batch_are_shown_one_by_one() -> None:
    batch = [{"id": 1, "method": "a"}, {"id": 2, "method": "b"}, 7]
    assert titles(Entry(0, "in", batch))[:3] == ["--> #1 a", "--> #2 b", "--> no message"]


def test_lines_that_are_no_messages_are_shown_too() -> None:
    found = shown(Entry(0, "in", raw="what?"), Entry(0, "in", skipped=100), Entry(0, "in", None))[:3]
    assert [(row.text[14:], row.rest, row.colour) for row in found] == [
        ("not JSON", "what?", "red"),
        ("a line of more than 100 bytes", "", "red"),
        ("no message", "null", "red"),
    ]


def test_the_exit_code_tells_a_script_whether_something_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    well = cancelled_turn().write(tmp_path / "well")
    assert main(["trace", str(well), "--text"]) == 0
    assert "!!!" not in capsys.readouterr().out
    talk = Recording()
    talk.prompt(1)
    ill = talk.write(tmp_path / "ill")
    for options in (), ("--text",), ("--text", "--html", str(tmp_path / "page.html")):
        assert main(["trace", str(ill), *options]) == 1
        assert "!!! never answered: #1 prompt: hello" in capsys.readouterr().out
    assert main(["trace", str(ill), "--html", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_slow_and_what_is_late_can_be_said(tmp_path: Path) -> None:
    talk = Recording()
    talk.ask("in", 1, "initialize")
    talk.wait(0.5)
    talk.withdraw("in", 1)
    talk.wait(0.5)
    talk.fail("out", 1)
    talk.ask("in", 2, "session/list")
    talk.wait(0.5)
    talk.answer("out", 2)
    file = str(talk.write(tmp_path / "recording"))
    assert [main(["trace", file, *options]) for options in ([], ["--slow", "0.4"], ["--late", "0.4"])] == [0, 1, 1]


def recording(folder: Path, *messages: dict[str, Any]) -> str:
    lines = [json.dumps({"t": 1e9 + n, "dir": "in", "msg": message}) for n, message in enumerate(messages)]
    (folder / "recording").write_text("\n".join(lines) + "\n")
    return str(folder / "recording")


def test_lines_are_cut_to_the_width_unless_they_are_wanted_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    file = recording(tmp_path, {"method": "long", "params": {"text": "x" * 100}}, {"method": "short", "params": {}})
    assert main(["trace", file]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith('    0.000 --> long  {"text":"xxx')
    assert first.endswith("xxx...")
    assert len(first) == 60
    assert second == "    1.000 --> short  {}"
    assert main(["trace", "--full", file]) == 0
    assert "x" * 100 in capsys.readouterr().out


def test_what_is_wrong_is_never_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    talk = Recording()
    talk.prompt(1)
    assert main(["trace", str(talk.write(tmp_path / "ill"))]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith(" has no answer in the recording")


def test_what_a_message_contains_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recording(tmp_path, {"method": "a\u009b2Jb", "params": {"c": "\u0085d\ud800"}})
    with (tmp_path / "recording").open("a") as more:
        more.write('{"t":1,"dir":"out","raw":"\\u001b[2J"}\n')
    assert main(["trace", file]) == 1
    out = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\x85"} & set(out)


def test_an_empty_recording_is_said_to_be_and_fails_in_a_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_text("")
    for options in (), ("--html", str(tmp_path / "page.html")):
        assert main(["trace", str(tmp_path / "empty"), *options]) == 1
        assert capsys.readouterr() == ("", f"acp-server: {tmp_path}/empty has no messages\n")


def test_a_recording_whose_last_line_was_cut_off_is_shown_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = cancelled_turn().write(tmp_path / "talk")
    whole = file.read_bytes()
    last = len(whole.splitlines())
    assert main(["trace", str(file)]) == 0
    shown = capsys.readouterr().out.splitlines()
    file.write_bytes(whole[:-20])
    assert main(["trace", str(file)]) == 1  # the answer to the prompt is in that line
    out, err = capsys.readouterr()
    assert out.splitlines()[: last - 1] == shown[:-1]
    assert err == f"acp-server: {file}, line {last} is left out: it was cut off\n"
    file.write_bytes(whole.partition(b"\n")[0][:-20])
    assert main(["trace", str(file)]) == 1
    assert capsys.readouterr().err.splitlines()[1] == f"acp-server: {file} has no messages"


def test_what_is_no_recording_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").write_text("hello\n")
    assert main(["trace", str(tmp_path / "other")]) == 2
    assert capsys.readouterr().err == f"acp-server: {tmp_path}/other, line 1: not an entry of a recording\n"
