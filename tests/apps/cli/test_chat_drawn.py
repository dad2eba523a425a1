"""`acp-server chat` at a terminal that it draws on: what the user sees, and what the user's keys mean."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.apps.cli.drawn import ENTER, Drawn, Shared
from tests.apps.cli.drawn import drawn as drawn_chat
from tests.docs.test_readme import BLOCK, ROOT
from tests.prefork import Prefork

Start = Callable[..., AbstractContextManager[Drawn]]
Talking = Callable[[], AbstractContextManager[Drawn]]
HERE = Path(__file__).parents[1]
TALKER = "tests.apps.cli.talker:agent"
NONE = "or Enter for none:"
ASKED = "1-2, y, n"
DYING = """
import os, threading, time
from tests.apps.cli.talker import agent

def die():
    while not os.path.exists("go"):
        time.sleep(0.01)
    os._exit(3)

threading.Thread(target=die, daemon=True).start()
"""


def go(folder: Path) -> None:
    """Let the agent go on."""
    (folder / "go").touch()


@pytest.fixture(scope="module")
def shared(chats: Prefork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """One chat with the talker for all tests that neither start nor end one."""
    folder = tmp_path_factory.mktemp("shared")

    def start() -> AbstractContextManager[Drawn]:
        return drawn_chat(chats, "--cwd", str(folder), TALKER, cwd=folder)

    with start() as user:
        user.shows("Talker 7", "\n>")
        yield Shared(start, user)
        user.type("\x03\x04")


@pytest.fixture
def talking(shared: Shared) -> Talking:
    return shared.used


def test_it_says_that_the_agent_starts_and_then_who_it_is(tmp_path: Path, drawn: Start) -> None:
    slow = tmp_path / "slow.py"
    waiting = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    slow.write_text(f"{waiting}from tests.apps.cli.talker import agent\n")
    with drawn(str(slow), cwd=tmp_path) as user:
        user.shows(f"starting {slow} ...")
        go(tmp_path)
        user.shows("Talker 7, in ")
        user.hides("starting")
        user.leave()


def test_a_message_is_drawn_as_markdown_while_it_comes(talking: Talking) -> None:
    with talking() as user:
        user.type("markdown" + ENTER)
        # A block that is complete stays, and one that is open is there as well.
        text = user.shows("> markdown", "Heading", "Some bold words", "(https://example.org)", "• one", "• two", "The")
        assert "working" in text
        go(user.folder)
        text = user.shows("The open end.")
        assert "**" not in text
        assert b"\x1b]8;" not in user.raw
        user.hides("working")


def test_running_tool_calls_are_listed_with_their_state_place_and_time(talking: Talking) -> None:
    with talking() as user:
        user.type("tool" + ENTER)
        text = user.shows("Dig [in progress]  /some/where.py:3", "so far")
        first = re.search(r"where.py:3 +(\d+\.\d) s", text)
        assert first
        user.hides(first[0])  # time goes on
        go(user.folder)
        user.shows("✓ Dig [completed]", "/some/where.py:3", " s", "so far", "\n>")


def test_a_plan_is_a_checklist(talking: Talking) -> None:
    with talking() as user:
        user.type("plan" + ENTER)
        user.shows("[>] Think", "\n>")


def test_a_question_shows_the_change_in_colours_and_the_arguments_and_takes_a_number(
    tmp_path: Path, drawn: Start
) -> None:
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


def test_a_question_that_is_not_shown_as_a_whole_has_a_key_for_it(talking: Talking) -> None:
    with talking() as user:
        user.type("a question too long" + ENTER)
        user.shows("more lines", "step 400", "? Run it", "a to see all of it")
        user.type("a")
        user.shows("step 150", "step 400", "? Run it", "a to see all of it")
        user.type("1" + ENTER)
        user.shows("allowed: True")


@pytest.mark.parametrize("marked", [True, False], ids=["bracketed", "unmarked"])
def test_what_was_pasted_before_a_question_does_not_answer_it(talking: Talking, marked: bool) -> None:
    with talking() as user:
        user.type("later" + ENTER)
        user.shows("waiting")
        text = "1\n1\nand more"
        if marked:
            user.paste(text)
            user.shows("\n> 1\n  1\n  and more")
        else:
            user.type(text.replace("\n", "\r"))
            user.shows("then: 1", "then: 1", "\n> and more")
        go(user.folder)
        user.shows("path: /", "force: true", "? Delete everything", ASKED)
        user.type(ENTER)  # a draft is there
        user.shows("That is not an answer", ASKED)
        user.type("n" + ENTER)
        user.shows("allowed: False, chosen: no")
        assert "allowed: True" not in user.text
        if marked:
            user.shows("\n> 1\n  1\n  and more")
            user.type("\x03")  # the draft goes
        else:
            user.shows("> 1", "You said 1.", "> 1", "You said 1.", "\n> and more")
            user.type("\x03")
        user.hides("and more")


@pytest.mark.parametrize(
    ("keys", "answer"),
    [("y", "allowed: True, chosen: yes"), ("YES", "allowed: True, chosen: yes"), ("n", "allowed: False, chosen: no")],
)
def test_y_and_n_answer_a_question(talking: Talking, keys: str, answer: str) -> None:
    with talking() as user:
        go(user.folder)
        user.type("later" + ENTER)
        user.shows(NONE)
        user.type(keys + ENTER)
        user.shows(answer)


def test_what_is_no_answer_asks_again_and_dismisses_nothing(talking: Talking) -> None:
    with talking() as user:
        go(user.folder)
        user.type("later" + ENTER)
        user.shows(NONE)
        user.type("maybe" + ENTER)
        user.shows("That is not an answer", ASKED)
        user.type("7" + ENTER)
        user.shows("That is not an answer", ASKED)
        assert "allowed" not in user.text
        user.type("2" + ENTER)
        user.shows("allowed: False, chosen: no", "\n> maybe")
        user.type("\x03")
        user.hides("maybe")


def test_what_is_pasted_at_a_question_does_not_answer_it_either(talking: Talking) -> None:
    with talking() as user:
        go(user.folder)
        user.type("later" + ENTER)
        user.shows(NONE)
        user.paste("1\n")
        user.hides(ASKED)
        user.shows(ASKED)  # after a pause
        assert "allowed" not in user.text
        user.type("fix 2")  # the next prompt
        user.hides(ASKED)
        user.shows(ASKED)
        user.type("1" + ENTER)
        user.shows("allowed: True, chosen: yes", "\n> 1\n  fix 2")
        user.type("\x03")
        user.hides("fix 2")


def test_a_paste_of_several_lines_is_one_prompt(talking: Talking) -> None:
    with talking() as user:
        user.paste("one\ntwo")
        user.shows("> one\n  two")
        user.type(ENTER)
        user.shows("> one\n  two", "You said one", "two.")


def test_what_is_typed_during_a_turn_is_the_next_prompt_and_ctrl_c_gives_it_back(talking: Talking) -> None:
    with talking() as user:
        user.type("hang" + ENTER)
        user.shows("hanging")
        user.type("the next" + ENTER)
        user.shows("then: the next")
        user.type("\x03")
        user.shows("stopping ...", "(cancelled)", "\n> the next")
        user.type(ENTER)
        user.shows("You said the next.")


def test_ctrl_c_right_behind_enter_stops_what_was_sent_and_does_not_leave(talking: Talking) -> None:
    with talking() as user:
        user.type("one" + ENTER)
        user.shows("You said one.")
        user.hides("working")
        user.type("hang" + ENTER + "\x03")
        # It is there to be edited, or its turn was stopped. Ctrl-U drops the draft.
        user.type("\x15two" + ENTER)
        user.shows("You said two.")


def test_a_conversation_is_recorded(tmp_path: Path, drawn: Start) -> None:
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
def test_questions_may_be_answered_for_good(tmp_path: Path, option: str, allowed: bool, drawn: Start) -> None:
    go(tmp_path)
    with drawn(option, "--cwd", str(tmp_path), TALKER) as user:
        user.shows("Talker 7")
        user.type("later" + ENTER)
        user.shows("path: /", "? Delete everything", f"({option})", f"allowed: {allowed}")
        user.leave()


def test_nothing_that_an_agent_says_moves_the_cursor_or_reaches_the_clipboard(drawn: Start) -> None:
    with drawn(sys.executable, "-m", "tests.apps.cli.hostile", "talk", columns=1_000) as user:
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


def test_the_prompt_and_what_is_shown_follow_the_size_of_the_terminal(talking: Talking) -> None:
    with talking() as user:
        user.type("half a prompt")
        user.shows("> half a prompt")
        user.resize(40, 12)
        user.shows("> half a prompt")
        user.type("\x15long" + ENTER)
        text = user.shows("> long", "word word word word word word word\n")
        assert max(map(len, text.rpartition("> long")[2].splitlines())) <= 40
        user.resize(120, 50)
        user.type("hello" + ENTER)
        user.shows("You said hello.")


def test_ctrl_c_while_the_agent_starts_leaves(tmp_path: Path, drawn: Start) -> None:
    with drawn(sys.executable, "-c", "import time; time.sleep(1000)") as user:
        user.shows("starting")
        user.type("\x03")
        user.ends(130)


def test_ctrl_c_stops_a_turn_then_drops_the_draft_then_leaves(drawn: Start) -> None:
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


def test_ctrl_c_at_a_question_stops_the_turn_and_answers_nothing(talking: Talking) -> None:
    with talking() as user:
        go(user.folder)
        user.type("later" + ENTER)
        user.shows(NONE)
        user.type("1\x03")
        user.shows("stopping ...", "(cancelled)")
        assert "allowed" not in user.text


def test_a_second_ctrl_c_leaves_an_agent_that_does_not_stop(drawn: Start) -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("stubborn" + ENTER)
        user.shows("> stubborn", "stubborn")  # the agent says it once more
        user.type("\x03")
        user.shows("stopping ...", "no\n")
        user.type("\x03")
        user.ends(130)


def test_an_agent_that_dies_in_a_turn_or_at_the_prompt_is_told_of_without_a_traceback(
    tmp_path: Path, drawn: Start
) -> None:
    with drawn(TALKER) as user:
        user.shows("Talker 7")
        user.type("exit" + ENTER)
        user.shows("the agent exited with status 9; it ended before it answered session/prompt")
        user.ends(1)
        assert "Traceback" not in user.text + user.program.stderr
    (tmp_path / "dying.py").write_text(DYING)
    with drawn("dying.py", cwd=tmp_path) as user:
        user.shows("Talker 7", "\n>")
        go(tmp_path)
        user.shows("the agent exited with status 3")
        user.ends(1)
        assert "Traceback" not in user.text + user.program.stderr


def test_an_agent_of_the_official_sdk_runs_from_its_file(tmp_path: Path, drawn: Start) -> None:
    agent = HERE.parent / "interop" / "agents" / "official.py"
    with drawn(os.path.relpath(agent, tmp_path), cwd=tmp_path) as user:
        user.shows("Official 1, in")
        user.type("hello" + ENTER)
        user.shows("> hello", "The client sent: hello")
        user.leave()


def test_the_first_agent_of_the_readme_reads_a_file_of_the_folder(tmp_path: Path, drawn: Start) -> None:
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


def test_what_is_not_utf_8_in_a_prompt_is_replaced(tmp_path: Path, drawn: Start) -> None:
    record = tmp_path / "record"
    with drawn("--record", str(record), TALKER) as user:
        user.shows("Talker 7", "\n>")
        user.send(b"caf\xe9")
        user.type(ENTER)
        user.shows("You said caf")
        user.leave()
    assert '"text":"caf\N{REPLACEMENT CHARACTER}"' in record.read_text("utf-8")
