"""`acp-server chat` at a terminal that it does not draw on, and at a pipe."""

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.agent.processes.driver import started
from tests.apps.cli.at_terminal import BUILT_IN, CHAT, PATIENCE, TALKER, Terminal


def wait_for(file: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < end
        select.select([], [], [], 0.01)


Start = Callable[..., AbstractContextManager[Terminal]]


@pytest.fixture
def workspace(chat: Start) -> Callable[..., AbstractContextManager[Terminal]]:
    """A chat with the built-in agent in a folder with one file."""
    return partial(opened, chat)


@contextmanager
def opened(chat: Start, folder: Path, *, colours: bool = False) -> Iterator[Terminal]:
    (folder / "notes.txt").write_text("first\nsecond\n")
    with chat("--cwd", str(folder), agent=[*BUILT_IN], colours=colours) as user:
        user.expect("/help", "> ")
        yield user


def test_it_says_who_is_there_and_shows_what_is_answered(chat: Start) -> None:
    with chat() as user:
        user.expect("Talker 7", "Ctrl-C stops a turn, Ctrl-D leaves.", "> ")
        user.type("hello\n")
        user.expect("You said hello.\n", "> ")
        user.type("   \n")
        user.expect("> ")
        user.type("plan\n")
        user.expect("[>] Think\n", "> ")
        user.leave()
        assert user.program.stderr == ""


def test_without_a_command_it_is_the_built_in_agent_in_the_given_folder(tmp_path: Path, chat: Start) -> None:
    (tmp_path / "a.txt").write_text("needle\n")
    with chat("--cwd", str(tmp_path), agent=[]) as user:
        user.expect("acp-server", f"in {tmp_path}", "> ")
        user.type("/search needle\n")
        user.expect("Search for `needle`", "a.txt:1:1: needle", "[completed]", "> ")
        user.leave()


def test_ctrl_c_stops_the_turn_and_the_conversation_goes_on(chat: Start) -> None:
    with chat() as user:
        user.expect("> ")
        for _ in range(2):
            user.type("hang\n")
            user.expect("hanging")
            user.type("\x03")
            user.expect("stopped\n", "(cancelled)\n", "> ")
        user.type("still there?\n")
        user.expect("You said still there?.", "> ")
        user.leave()


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_ctrl_c_and_ctrl_d_at_the_prompt_leave(key: str, chat: Start) -> None:
    with chat() as user:
        user.expect("> ")
        # Python does not notice an interrupt in the short time between the prompt and the waiting for a key.
        while not user.answers(key):
            pass
        assert user.program.exit_code() == 0


def test_a_second_ctrl_c_leaves_an_agent_that_does_not_stop(chat: Start) -> None:
    with chat() as user:
        user.expect("> ")
        user.type("stubborn\n")
        user.expect("stubborn")
        user.type("\x03")
        user.expect("no\n")
        user.type("\x03")
        assert user.program.exit_code() == 130


def test_a_permission_is_asked_for_with_the_offered_options(chat: Start) -> None:
    answers = {
        "1\n": "allowed: True, chosen: yes",
        "2\n": "allowed: False, chosen: no",
        "\n": "allowed: False, chosen: None",
        "3\nmaybe\n0\n1\n": "allowed: True, chosen: yes",
        "\x04": "allowed: False, chosen: None",  # the last one: a terminal may say the end once
    }
    with chat() as user:
        for typed, result in answers.items():
            user.expect("> ")
            user.type("permission\n")
            user.expect("? Delete everything\n", "1) Allow it\n", "2) Refuse it\n", "or Enter for none: ")
            user.type(typed)
            user.expect(result)
        user.expect("> ")
        user.leave()


def test_lines_that_were_typed_before_a_question_are_prompts_and_no_answer_to_it(tmp_path: Path, chat: Start) -> None:
    with chat("--cwd", str(tmp_path)) as user:
        user.expect("> ")
        user.type("later\n")
        user.expect("waiting")
        # The second one without its end, which the user types once the question is there.
        user.type("1\n1")
        (tmp_path / "go").touch()
        user.expect("? Delete everything\n", "2) Refuse it\n", "or Enter for none: ")
        user.type("\n")
        user.expect("allowed: False, chosen: None", "> ", "You said 1.", "> ")
        user.leave()


def test_ctrl_c_at_a_question_stops_the_turn(chat: Start) -> None:
    with chat() as user:
        user.expect("> ")
        user.type("permission\n")
        user.expect("2) Refuse it\n", "or Enter for none: ")
        while not user.answers("\x03"):
            pass
        user.expect("(cancelled)\n", "> ")
        user.leave()


def test_a_question_that_is_withdrawn_before_its_turn_is_not_asked(tmp_path: Path, chat: Start) -> None:
    with chat("--cwd", str(tmp_path)) as user:
        user.expect("> ")
        user.type("two questions\n")
        user.expect("? the first\n", "2) Refuse it\n", "or Enter for none: ")
        wait_for(tmp_path / "withdrawn")
        user.type("1\n")
        assert "the second" not in user.expect("allowed: [True]", "> ")
        user.leave()


def test_a_question_that_is_withdrawn_while_it_is_asked_says_so_once_it_is_answered(
    tmp_path: Path, chat: Start
) -> None:
    with chat("--cwd", str(tmp_path)) as user:
        user.expect("> ")
        user.type("withdrawn\n")
        user.expect("? Delete everything\n", "2) Refuse it\n", "or Enter for none: ")
        (tmp_path / "asked").touch()
        wait_for(tmp_path / "withdrawn")
        user.type("1\n")
        user.expect("(the agent does not ask for that any more)\n", "It does not matter.\n", "> ")
        user.leave()


def test_on_version_2_a_change_is_shown_whole_before_it_is_allowed_or_not(tmp_path: Path, chat: Start) -> None:
    (tmp_path / "notes.txt").write_text("second\n" + "line\n" * 20)
    (tmp_path / "long.txt").write_text("\n".join(f"old {number}" for number in range(30)))
    with chat("--protocol", "2", "--cwd", str(tmp_path), agent=[*BUILT_IN]) as user:
        user.expect("/help", "> ")
        user.type("/edit notes.txt second => 2nd\n")
        user.expect(
            "  * Edit `notes.txt` [pending]\n",
            f"    --- {tmp_path}/notes.txt\n    +++ {tmp_path}/notes.txt\n",
            "    -second\n    +2nd\n",
            "  ? Edit `notes.txt`\n    1) Change it\n",
            "none: ",
        )
        user.type("1\n")
        rest = user.expect("  * Edit `notes.txt` [completed]\n", "`notes.txt` is changed.", "> ")
        assert "second" not in rest  # the change is not shown again
        user.type("/write long.txt new\n")
        # All of it, though of other output only the beginning is shown.
        user.expect("    -old 0\n", "    -old 29\n", "    +new\n", "none: ")
        user.type("\n")
        user.expect("It was not approved", "> ")
        user.leave()


@pytest.mark.parametrize(
    ("typed", "text", "status", "said"),
    [
        ("1", "first\n2nd\n", "completed", "`notes.txt` is changed."),
        ("3", "first\nsecond\n", "rejected", "It was not allowed"),
        ("", "first\nsecond\n", "cancelled", "It was not approved"),
    ],
    ids=["yes", "no", "neither"],
)
def test_a_change_is_shown_before_it_is_allowed_or_not(
    tmp_path: Path, typed: str, text: str, status: str, said: str, workspace: Start
) -> None:
    with workspace(tmp_path) as user:
        user.type("/edit notes.txt second => 2nd\n")
        user.expect(
            "  * Edit `notes.txt` [pending]\n",
            f"    --- {tmp_path}/notes.txt\n    +++ {tmp_path}/notes.txt\n",
            "    @@ -1,2 +1,2 @@\n     first\n    -second\n    +2nd\n",
            "  ? Edit `notes.txt`\n",
            "    1) Change it\n    2) Change it, always in this session: this file\n",
            "    3) Reject\n    4) Reject, always in this session: this file\n",
            "1-4, y, n, or Enter for none: ",
        )
        assert (tmp_path / "notes.txt").read_text() == "first\nsecond\n"
        user.type(f"{typed}\n")
        # What came of it is said once; why it was not done is in the call, too.
        in_call = () if status == "completed" else (f"    {said}", "\n")
        rest = user.expect(f"  * Edit `notes.txt` [{status}]\n", *in_call, said, "> ")
        assert "second" not in rest  # the change is not shown again
        assert (tmp_path / "notes.txt").read_text() == text
        user.leave()


def test_a_question_that_is_not_shown_as_a_whole_has_a_key_for_it(chat: Start) -> None:
    with chat() as user:
        user.expect("> ")
        user.type("a question too long\n")
        shown = user.expect(
            "step 99\n", "... 201 more lines\n", "step 400\n", "? Run it\n", "a to see all of it, or Enter for none: "
        )
        assert "step 150\n" not in shown
        user.type("a\n")
        user.expect("step 1\n", "step 150\n", "step 400\n", "? Run it\n", "a to see all of it, or Enter for none: ")
        user.type("1\n")
        user.expect("allowed: True", "> ")
        user.leave()


def test_ctrl_c_at_a_question_about_a_file_leaves_it_as_it_is(tmp_path: Path, workspace: Start) -> None:
    with workspace(tmp_path) as user:
        user.type("/write new.txt hello\n")
        user.expect("--- /dev/null\n", "+hello\n", "1) Make it\n", "none: ")
        while not user.answers("\x03"):
            pass
        user.expect("  stopping ...\n", "  * Write `new.txt` [cancelled]\n", "  (cancelled)\n", "> ")
        user.type("/read new.txt\n")
        user.expect("No such file", "> ")
        user.leave()
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_command_shows_what_it_prints_as_it_comes_and_keeps_it_when_ctrl_c_ends_it(
    tmp_path: Path, workspace: Start
) -> None:
    with workspace(tmp_path) as user:
        user.type("/run echo $$ > pid; echo one; while ! test -e go; do sleep 0.01; done; echo two; exec sleep 1000\n")
        user.expect("Run this in", "    echo $$ > pid; ", "1) Run it\n", "none: ")
        user.type("1\n")
        user.expect("[in progress]\n    one\n")
        (tmp_path / "go").touch()
        user.expect("    two\n")
        user.type("\x03")
        rest = user.expect("  stopping ...\n", "[cancelled]\n    It was stopped.", "  (cancelled)\n", "> ")
        assert "one" not in rest.split("[cancelled]\n")[1]  # what was shown is not shown again
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
        user.leave()


def test_changes_have_colours_at_a_terminal(tmp_path: Path, workspace: Start) -> None:
    with workspace(tmp_path, colours=True) as user:
        user.type("/edit notes.txt second => 2nd\n")
        user.expect("\x1b[31m    -second\x1b[0m\n", "\x1b[32m    +2nd\x1b[0m\n", "none: ")
        user.type("3\n")
        user.expect("> ")
        user.leave()


def test_a_turn_that_does_not_end_well_says_so(chat: Start) -> None:
    with chat() as user:
        for prompt, said in {
            "error": "Internal error: the agent's log says why (-32603)\n",
            "refuse": "(refusal)\n",
        }.items():
            user.expect("> ")
            user.type(f"{prompt}\n")
            user.expect(said)
        user.expect("> ")
        user.leave()


def test_an_agent_that_dies_ends_the_conversation_with_its_last_words(chat: Start) -> None:
    with chat() as user:
        user.expect("> ")
        user.type("exit\n")
        user.expect("the agent exited with status 9")
        assert user.program.exit_code() == 1


def test_an_agent_that_wants_to_be_logged_in_is_logged_in(chat: Start) -> None:
    with chat(agent=[*TALKER[:-1], "tests.apps.cli.talker:locked"]) as user:
        user.expect("? Log in by\n", "1) By a word\n", "    1, or Enter for none: ")
        user.type("1\n")
        user.expect("> ")
        user.type("hello\n")
        user.expect("You said hello.", "> ")
        user.leave()


@pytest.mark.parametrize(("target", "typed"), [("locked", "\n"), ("never", "")])
def test_without_a_login_there_is_no_conversation(target: str, typed: str, chat: Start) -> None:
    with chat(agent=[*TALKER[:-1], f"tests.apps.cli.talker:{target}"]) as user:
        if typed:
            user.expect("or Enter for none: ")
            user.type(typed)
        user.expect("Authentication required (-32000)")
        assert user.program.exit_code() == 5


def test_a_command_that_does_not_exist_is_said_in_one_line(chat: Start) -> None:
    with chat(agent=["no-such-agent-here"]) as user:
        assert user.program.exit_code() == 2
        assert user.program.stderr == (
            "acp-server: no-such-agent-here cannot be started: "
            "there is no such program (expected FILE.py, module:attribute or a command)\n"
        )


def test_what_the_command_gets_as_options_is_its_own(chat: Start) -> None:
    with chat(agent=["sh", "-c", "echo options: $0 $1 >&2; exit 3", "--cwd", "--help"]) as user:
        user.expect("options: --cwd --help")
        assert user.program.exit_code() == 1


def test_prompts_may_come_from_a_pipe() -> None:
    with started([*CHAT, *TALKER]) as program:
        program.send(b"one\ntwo\n")
        program.close_input()
        lines: list[bytes] = []
        try:
            while True:
                lines.append(program.next_line())
        except EOFError:
            pass
        assert program.exit_code() == 0
        text = b"\n".join(lines)
        assert text.index(b"You said one.") < text.index(b"You said two.")
