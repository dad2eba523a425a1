"""`acp-server chat` at a terminal that it draws on: what the user sees, and what the user's keys mean."""

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from tests.cli.drawn import ENTER, drawn
from tests.docs.test_readme import BLOCK, ROOT

HERE = Path(__file__).parent
TALKER = "tests.cli.talker:agent"
SETTLED = "tests.cli.talker:settled"
NONE = "or Enter for none:"
DYING = """
import os, threading, time
from tests.cli.talker import agent

def die():
    while not os.path.exists("go"):
        time.sleep(0.01)
    os._exit(3)

threading.Thread(target=die, daemon=True).start()
"""


def go(folder: Path) -> None:
    """Let the agent go on."""
    (folder / "go").touch()


def test_it_says_that_the_agent_starts_and_then_who_it_is(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    waiting = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    slow.write_text(f"{waiting}from tests.cli.talker import agent\n")
    with drawn(str(slow), cwd=tmp_path) as user:
        user.shows(f"starting {slow} ...")
        go(tmp_path)
        user.shows("Talker 7, in ")
        user.hides("starting")
        user.leave()


def test_a_message_is_drawn_as_markdown_while_it_comes(tmp_path: Path) -> None:
    with drawn("--cwd", str(tmp_path), TALKER) as user:
        user.shows("Talker 7")
        user.type("markdown" + ENTER)
        # A block that is complete stays, and one that is open is there as well.
        text = user.shows("> markdown", "Heading", "Some bold words", "(https://example.org)", "• one", "• two", "The")
        assert "working" in text
        go(tmp_path)
        text = user.shows("The open end.")
        assert "**" not in text
        assert b"\x1b]8;" not in user.raw
        user.hides("working")
        user.leave()


def test_running_tool_calls_are_listed_with_their_state_place_and_time(tmp_path: Path) -> None:
    with drawn("--cwd", str(tmp_path), TALKER) as user:
        user.shows("Talker 7")
        user.type("tool" + ENTER)
        text = user.shows("Dig [in progress]  /some/where.py:3", "so far")
        first = re.search(r"where.py:3 +(\d+\.\d) s", text)
        assert first
        user.hides(first[0])  # time goes on
        go(tmp_path)
        user.shows("✓ Dig [completed]", "/some/where.py:3", " s", "so far", "\n>")
        user.leave()


def test_a_plan_is_a_checklist() -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("plan" + ENTER)
        user.shows("[>] Think", "\n>")
        user.leave()


def test_a_question_shows_the_change_in_colours_and_the_arguments_and_takes_a_number(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("first\nsecond\n")
    with drawn(cwd=tmp_path) as user:
        user.shows("acp-server workspace", "/run")
        user.type("/edit notes.txt second => 2nd" + ENTER)
        user.shows("* Edit `notes.txt` [pending]", "-second", "+2nd", "old: second", "new: 2nd", "4) Reject", NONE)
        assert re.search(rb"\x1b\[[\d;]*31m +-second", user.raw)
        assert re.search(rb"\x1b\[[\d;]*32m +\+2nd", user.raw)
        user.type("9" + ENTER)  # no answer
        user.shows(NONE)
        user.type("41\x7f\x7f1" + ENTER)
        user.shows("✓ Edit `notes.txt` [completed]", "is changed.")
        assert (tmp_path / "notes.txt").read_text() == "first\n2nd\n"
        user.leave()


@pytest.mark.parametrize("marked", [True, False], ids=["bracketed", "unmarked"])
def test_what_was_pasted_before_a_question_does_not_answer_it(tmp_path: Path, marked: bool) -> None:
    with drawn("--cwd", str(tmp_path), TALKER) as user:
        user.shows("Talker 7")
        user.type("later" + ENTER)
        user.shows("waiting")
        go(tmp_path)
        text = "1\n1\nand more"
        if marked:
            user.paste(text)
        else:
            user.type(text.replace("\n", "\r"))
        user.shows("path: /", "force: true", "? Delete everything", NONE)
        user.type(ENTER)
        user.shows("allowed: False, chosen: None")
        assert "allowed: True" not in user.text
        if marked:
            user.shows("\n> 1\n  1\n  and more")
            user.type("\x03")  # the draft goes
        else:
            user.shows("> 1", "You said 1.", "> 1", "You said 1.", "\n> and more")
            user.type("\x03")
        user.hides("and more")
        user.leave()


def test_what_is_pasted_at_a_question_does_not_answer_it_either(tmp_path: Path) -> None:
    with drawn("--cwd", str(tmp_path), TALKER) as user:
        user.shows("Talker 7")
        go(tmp_path)
        user.type("later" + ENTER)
        user.shows(NONE)
        user.paste("1\n")
        user.hides(NONE)
        user.shows(NONE)  # after a pause
        assert "allowed" not in user.text
        user.type("fix 2")  # the next prompt
        user.hides(NONE)
        user.shows(NONE)
        user.type("1" + ENTER)
        user.shows("allowed: True, chosen: yes", "\n> 1\n  fix 2")
        user.type("\x03")
        user.hides("fix 2")
        user.leave()


def test_a_paste_of_several_lines_is_one_prompt() -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.paste("one\ntwo")
        user.shows("> one\n  two")
        user.type(ENTER)
        user.shows("> one\n  two", "You said one", "two.")
        user.leave()


def test_what_is_typed_during_a_turn_is_the_next_prompt_and_ctrl_c_gives_it_back() -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("hang" + ENTER)
        user.shows("hanging")
        user.type("the next" + ENTER)
        user.shows("then: the next")
        user.type("\x03")
        user.shows("stopping ...", "(cancelled)", "\n> the next")
        user.type(ENTER)
        user.shows("You said the next.")
        user.leave()


def test_modes_and_options_are_shown_and_set_by_command() -> None:
    with drawn(SETTLED) as user:
        user.shows("settled 1")
        user.type("/mode" + ENTER)
        user.shows("* ask  Ask first", "  code  Go ahead")
        user.type("/mode co" + ENTER)
        user.shows("* code  Go ahead")
        user.type("/mode nosuch" + ENTER)
        user.shows("there is no mode 'nosuch'; there are: ask, code")
        user.type("/config" + ENTER)
        user.shows("model = small  Model", "loud = off  Loud")
        user.type("/config model large" + ENTER)
        user.shows("model = large")
        user.type("/config loud on" + ENTER)
        user.shows("loud = on")
        user.type("/config loud maybe" + ENTER)
        user.shows("'maybe' is neither on nor off")
        user.type("/quit" + ENTER)
        user.ends(0)


def test_slash_commands_are_completed_and_two_slashes_reach_those_of_the_agent() -> None:
    with drawn(SETTLED) as user:
        user.shows("settled 1", "/search")
        user.type("/")
        user.shows("\n> /", "/help", "What can be typed here.", "/mode [MODE]")
        user.type("sea")
        user.hides("/mode [MODE]")
        user.type("\t")
        user.shows("\n> /search")
        user.type(ENTER)
        user.shows("You said /search.")
        user.type("/help" + ENTER)
        user.shows("Alt-Enter", "/resume", "Of the agent:", "/search")
        user.type("//help" + ENTER)
        user.shows("You said /help.")
        user.leave()


def test_what_was_typed_is_there_in_the_next_run_in_a_private_file(tmp_path: Path) -> None:
    with drawn(TALKER, state=tmp_path / "state") as user:
        user.shows("Talker 7")
        user.type("remember me" + ENTER)
        user.shows("You said remember me.")
        user.leave()
    (file,) = (tmp_path / "state").rglob("chat_history")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with drawn(TALKER, state=tmp_path / "state") as user:
        user.shows("Talker 7")
        user.type("\x1b[A")
        user.shows("\n> remember me")
        user.type(ENTER)
        user.shows("You said remember me.")
        user.leave()


def test_sessions_are_listed_and_taken_up_again(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("needle\n")
    agent = [sys.executable, "-m", "acp_server", "serve", "--store", str(tmp_path / "sessions")]
    with drawn(*agent, cwd=tmp_path) as user:
        user.shows("/run")
        user.type("/read notes.txt" + ENTER)
        user.shows("needle", "\n>")
        user.leave()
    with drawn("--continue", *agent, cwd=tmp_path) as user:
        user.shows("> /read notes.txt", "needle")
        user.type("/new" + ENTER)
        user.shows("  session sess_")
        user.type("/read nosuch" + ENTER)
        user.shows("No such file")
        user.type("/sessions" + ENTER)
        user.shows("* 1) sess_", "/read nosuch", "  2) sess_", "/read notes.txt")
        user.type("/resume 2" + ENTER)
        user.shows("/resume 2", "> /read notes.txt", "needle", "  session sess_")
        user.leave()


def test_a_conversation_is_recorded(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with drawn("--record", str(record), TALKER) as user:
        user.shows("Talker 7")
        user.type("hello" + ENTER)
        user.shows("You said hello.")
        user.leave()
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    said = [(entry["dir"], entry["msg"].get("method")) for entry in entries]
    assert said[0] == ("in", "initialize")
    assert ("in", "session/prompt") in said
    assert ("out", "session/update") in said


@pytest.mark.parametrize(("option", "allowed"), [("--yes", True), ("--deny", False)])
def test_questions_may_be_answered_for_good(tmp_path: Path, option: str, allowed: bool) -> None:
    go(tmp_path)
    with drawn(option, "--cwd", str(tmp_path), TALKER) as user:
        user.shows("Talker 7")
        user.type("later" + ENTER)
        user.shows("path: /", "? Delete everything", f"({option})", f"allowed: {allowed}")
        user.leave()


def test_nothing_that_an_agent_says_moves_the_cursor_or_reaches_the_clipboard() -> None:
    with drawn(sys.executable, "-m", "tests.cli.hostile", "talk", columns=1_000) as user:
        user.shows("evil")
        for _ in range(2):
            user.type("1" + ENTER)
            user.shows(NONE)
            user.type("1" + ENTER)
            user.hides(NONE)
            user.hides("working")
        text = user.text
        assert b"\x1b]52" not in user.raw
        assert "\u202e".encode() not in user.raw
        assert "\u2066".encode() not in user.raw
        assert "\x9b".encode() not in user.raw
        assert b"\x07" not in user.raw
        assert not re.findall(r"^FORGED", text, re.MULTILINE)
        user.leave()


def test_the_prompt_and_what_is_shown_follow_the_size_of_the_terminal() -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("half a prompt")
        user.shows("\n> half a prompt")
        user.resize(40, 12)
        user.shows("> half a prompt")
        user.type("\x15long" + ENTER)
        text = user.shows("> long", "word word word word word word word\n")
        assert max(map(len, text.rpartition("> long")[2].splitlines())) <= 40
        user.resize(120, 50)
        user.type("hello" + ENTER)
        user.shows("You said hello.")
        user.leave()


def test_ctrl_c_while_the_agent_starts_leaves(tmp_path: Path) -> None:
    with drawn(sys.executable, "-c", "import time; time.sleep(1000)") as user:
        user.shows("starting")
        user.type("\x03")
        user.ends(130)


def test_ctrl_c_stops_a_turn_then_drops_the_draft_then_leaves() -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("hang" + ENTER)
        user.shows("hanging")
        user.type("\x03")
        user.shows("stopping ...", "(cancelled)", "\n>")
        user.type("a draft")
        user.shows("> a draft")
        user.type("\x03")
        user.hides("a draft")
        user.type("\x03")
        user.ends(0)


def test_ctrl_c_at_a_question_stops_the_turn_and_answers_nothing(tmp_path: Path) -> None:
    with drawn("--cwd", str(tmp_path), TALKER) as user:
        user.shows("Talker 7")
        go(tmp_path)
        user.type("later" + ENTER)
        user.shows(NONE)
        user.type("1\x03")
        user.shows("stopping ...", "(cancelled)")
        assert "allowed" not in user.text
        user.leave()


def test_a_second_ctrl_c_leaves_an_agent_that_does_not_stop() -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("stubborn" + ENTER)
        user.shows("> stubborn")
        user.type("\x03")
        user.shows("no\n")
        user.type("\x03")
        user.ends(130)


def test_an_agent_that_dies_in_a_turn_or_at_the_prompt_is_told_of_without_a_traceback(tmp_path: Path) -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("exit" + ENTER)
        user.shows("the agent exited with status 9; session/prompt has no answer")
        user.ends(1)
        assert "Traceback" not in user.text + user.program.stderr
    (tmp_path / "dying.py").write_text(DYING)
    with drawn("dying.py", cwd=tmp_path) as user:
        user.shows("Talker 7", "\n>")
        go(tmp_path)
        user.shows("the agent exited with status 3")
        user.ends(1)
        assert "Traceback" not in user.text + user.program.stderr


def test_an_agent_of_the_official_sdk_runs_from_its_file(tmp_path: Path) -> None:
    agent = HERE.parent / "interop" / "agents" / "official.py"
    with drawn(os.path.relpath(agent, tmp_path), cwd=tmp_path) as user:
        user.shows("Official 1, in")
        user.type("hello" + ENTER)
        user.shows("> hello", "The client sent: hello")
        user.leave()


def test_the_first_agent_of_the_readme_reads_a_file_of_the_folder(tmp_path: Path) -> None:
    first = BLOCK.search((ROOT / "README.md").read_text("utf-8"))
    assert first
    (tmp_path / "my_agent.py").write_text(first["source"])
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with drawn("my_agent.py", cwd=tmp_path) as user:
        user.shows("reader 1.0")
        user.type("a.txt" + ENTER)
        user.shows("You asked for 'a.txt'. It has 2 lines.")
        user.type("/etc/../etc/passwd" + ENTER)
        user.shows("\n>")
        user.leave()
