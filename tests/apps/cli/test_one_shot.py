"""`acp-server chat -p`: one prompt for a script."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.cli import main
from acp_server.apps.cli.chat.report import JsonReport, TextReport
from acp_server.errors import RpcError
from acp_server.safe_text import UNSAFE
from acp_server.schema import (
    AgentMessageChunk,
    Content,
    Diff,
    Plan,
    PlanEntry,
    RequestPermissionRequest,
    TextContent,
    ToolCall,
    ToolCallProgress,
    ToolCallUpdate,
)
from tests.agent.processes.driver import Driven, environment, started
from tests.apps.cli.at_terminal import CHAT
from tests.prefork import Prefork

TALKER = "tests.apps.cli.talker:agent"


Chat = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def chat(chats: Prefork) -> Chat:
    """A chat with these arguments, from its beginning to its end."""

    def run(*arguments: str, cwd: Path | None = None, text: str = "") -> "subprocess.CompletedProcess[str]":
        return chats.run([*CHAT, *arguments], env=environment(), cwd=cwd, text=text)

    return run


def lines(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_the_agent_says_is_on_standard_output_and_the_prompt_may_be_read(chat: Chat) -> None:
    done = chat("-p", "-", TALKER, text="hello")
    assert (done.stdout, done.stderr, done.returncode) == ("You said hello.\n", "", 0)


@pytest.mark.parametrize("locale", ["C.UTF-8", "en_US.UTF-8", "C"])
def test_what_is_not_utf_8_in_a_prompt_is_replaced(locale: str, tmp_path: Path) -> None:
    for number, (prompt, read) in enumerate([(b"-", b"caf\xe9"), (b"caf\xe9", b"")]):
        record = tmp_path / str(number)
        subprocess.run(
            [*CHAT, "--record", str(record), "-p", prompt, TALKER],
            input=read,
            env=environment(LC_ALL=locale),
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=30,
        )
        assert '"text":"caf\N{REPLACEMENT CHARACTER}"' in record.read_text("utf-8")


def test_a_prompt_cannot_be_read_from_a_closed_input() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *CHAT, "-p", "-", TALKER],
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=30,
    )
    why = "acp-server: -p - reads the prompt from standard input, which is closed\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", why)


def test_json_has_everything_that_happens(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    done = chat("--json", "--yes", "--cwd", str(tmp_path), "-p", "later", TALKER)
    assert done.returncode == 0
    events = lines(done)
    assert [event["type"] for event in events] == ["session", "update", "permission", "update", "result"]
    assert events[0]["agent"] == "Talker 7"
    assert events[2]["request"]["toolCall"]["rawInput"] == {"path": "/", "force": True}
    assert events[2]["answer"] == "yes"
    assert events[-1] == {"type": "result", "stopReason": "end_turn", "text": "waitingallowed: True, chosen: yes"}


def test_without_a_word_about_questions_they_are_refused(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    done = chat("--cwd", str(tmp_path), "-p", "later", TALKER)
    assert done.stdout == "waitingallowed: False, chosen: no\n"
    arguments = "    path: /\n    force: true\n"
    assert done.stderr == f"? Delete everything: refused (--yes allows it)\n{arguments}"
    for option, said in {"--deny": "refused (--deny)", "--yes": "Allow it"}.items():
        done = chat(option, "--cwd", str(tmp_path), "-p", "later", TALKER)
        assert done.stderr == f"? Delete everything: {said}\n{arguments}"


def test_on_a_terminal_what_is_no_answer_begins_a_line(chats: Prefork, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    ours, theirs = pty.openpty()
    command = [*CHAT, "--cwd", str(tmp_path), "-p", "later", TALKER]
    with started(command, stdout=theirs, stderr=theirs, popen=chats.popen) as program:
        assert program.exit_code() == 0
    os.close(theirs)
    shown = os.read(ours, 65536).decode().replace("\r\n", "\n")
    os.close(ours)
    asked = "? Delete everything: refused (--yes allows it)\n    path: /\n    force: true\n"
    assert shown == f"waiting\n{asked}allowed: False, chosen: no\n"


@pytest.mark.parametrize(
    ("prompt", "agent", "code", "said"),
    [
        ("error", TALKER, 1, "Internal error: the agent's log says why (-32603)"),
        ("exit", TALKER, 1, "the agent exited with status 9; it ended before it answered session/prompt"),
        ("hi", "nosuch", 2, "nosuch cannot be started: there is no such program"),
        ("refuse", TALKER, 3, "(refusal)"),
        ("limit", TALKER, 4, "(max_tokens)"),
        ("hi", "tests.apps.cli.talker:locked", 5, "Authentication required (-32000)"),
    ],
)
def test_the_exit_status_says_what_happened(chat: Chat, prompt: str, agent: str, code: int, said: str) -> None:
    done = chat("-p", prompt, agent)
    assert done.returncode == code
    assert said in done.stderr
    # That of the handler which failed is in the agent's own log.
    assert "Traceback" not in done.stderr or prompt == "error"


@pytest.mark.parametrize(("name", "hint"), [("locked", True), ("never", False)])
def test_who_has_to_log_in_first_is_told_where_if_there_is_a_way(chat: Chat, name: str, hint: bool) -> None:
    done = chat("-p", "hello", TALKER.replace(":agent", f":{name}"))
    assert done.returncode == 5
    assert ("start the chat without -p: it asks how to log in\n" in done.stderr) is hint


def test_an_error_is_an_object_too(chat: Chat) -> None:
    (error,) = lines(chat("--json", "-p", "hi", "tests.apps.cli.talker:locked"))
    assert error == {"type": "error", "message": "Authentication required (-32000)", "code": -32000}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("from acp_server import Agent\ndef (:", "{file} failed: SyntaxError: invalid syntax (mine.py, line 2)"),
        ("from acp_server import Agent\n1 / 0", "{file} failed: ZeroDivisionError: division by zero (mine.py, line 2)"),
        ("from acp_server import Agent", "{file} has no attribute 'agent'"),
    ],
)
def test_an_agent_of_ours_that_cannot_be_served_is_a_mistake_said_once(
    chat: Chat, source: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(source)
    why = why.format(file=tmp_path / "mine.py")
    said = f"acp-server: {why}\n"
    plain = chat("-p", "hi", "mine.py", cwd=tmp_path)
    assert (plain.returncode, plain.stdout, plain.stderr) == (2, "", said)
    as_json = chat("--json", "-p", "hi", "mine.py", cwd=tmp_path)
    assert (as_json.returncode, lines(as_json)) == (2, [{"type": "error", "message": why, "code": None}])
    talk = chat("mine.py", cwd=tmp_path)
    assert (talk.returncode, talk.stdout, talk.stderr) == (2, said, "")


def test_an_address_that_cannot_be_reached_is_said_once(chat: Chat, tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'none'}"
    plain = chat("-p", "hi", address)
    assert (plain.returncode, plain.stdout, plain.stderr.count("\n")) == (1, "", 1)
    assert "cannot be reached" in plain.stderr
    talk = chat(address)
    assert (talk.returncode, talk.stdout, talk.stderr) == (1, plain.stderr, "")


def test_another_program_that_ends_with_the_same_status_has_failed(chat: Chat) -> None:
    done = chat("-p", "hi", "sh", "-c", "echo no >&2; exit 2")
    assert done.returncode == 1
    assert done.stderr.startswith("no\nacp-server: the agent exited with status 2")


def test_a_file_that_is_not_there_is_named_with_the_folder_in_which_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["chat", "-p", "hi"], ["record", "--to", "talk"], ["doctor"]):
        assert main([*command, "nosuch.py"]) == 2
        said = f"acp-server: {tmp_path / 'nosuch.py'} cannot be read: No such file or directory\n"
        assert capsys.readouterr() == ("", said)


def test_words_behind_a_file_that_are_not_for_serve_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    usage = f"acp-server chat [OPTIONS] {TALKER} [OPTIONS OF serve]"
    why = f"chat: Got unexpected extra arguments (a b), behind {TALKER}. Usage: {usage}"
    assert main(["chat", "-p", "hi", TALKER, "a", "b"]) == 2
    assert capsys.readouterr() == ("", f"acp-server: {why}\n")


def test_a_mistake_on_the_command_line_is_an_object_too(chat: Chat) -> None:
    done = chat("--json", "-p", "hi", "nosuch")
    (error,) = lines(done)
    assert (done.returncode, done.stderr, error["type"]) == (2, "", "error")
    assert error["message"].startswith("nosuch cannot be started: there is no such program")


def test_ctrl_c_cancels_the_turn_and_shows_what_the_agent_still_says(chats: Prefork) -> None:
    with started([*CHAT, "-p", "last words", TALKER], popen=chats.popen) as program:
        while b"hanging" not in _some(program):
            pass
        program.signal(signal.SIGINT)
        assert program.exit_code() == 130
        assert program.stderr == "* t [failed]\n    Half of it\n    is done.\n(cancelled)\n"


def test_a_turn_that_ctrl_c_has_cancelled_has_a_result_too(chats: Prefork) -> None:
    with started([*CHAT, "--json", "-p", "last words", TALKER], popen=chats.popen) as program:
        _wait_for(program, "hanging")
        program.signal(signal.SIGINT)
        update, result = program.rest()
        assert update["update"]["content"][0]["content"]["text"] == "Half of it\nis done."
        assert result == {"type": "result", "stopReason": "cancelled", "text": "hanging"}
        assert program.exit_code() == 130


def test_a_second_ctrl_c_leaves_at_once(chats: Prefork) -> None:
    with started([*CHAT, "--json", "-p", "stubborn", TALKER], popen=chats.popen) as program:
        _wait_for(program, "stubborn")
        program.signal(signal.SIGINT)
        program.wait_for_stderr("no\n")
        program.signal(signal.SIGINT)
        assert program.rest() == [{"type": "error", "message": "interrupted", "code": None}]
        assert program.exit_code() == 130
        assert "ERROR" not in program.stderr


def test_ctrl_c_before_there_is_a_turn_leaves(chats: Prefork) -> None:
    agent = ["sh", "-c", "exec 3>&1 cat >&2"]
    with started([*CHAT, "--json", "-p", "hi", *agent], popen=chats.popen) as program:
        program.wait_for_stderr("initialize")
        program.signal(signal.SIGINT)
        assert program.rest() == [{"type": "error", "message": "interrupted", "code": None}]
        assert program.exit_code() == 130


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--json"], "--json needs -p or --sessions"),
        (["--yes", "--deny"], "--yes and --deny cannot be used together"),
        (["--continue", "--resume", "x"], "--continue and --resume cannot be used together"),
        (["--resume", "x", "--continue"], "--continue and --resume cannot be used together"),
        (["-p", "hello", "--sessions"], "-p and --sessions cannot be used together"),
    ],
)
def test_options_that_do_not_go_together_are_a_mistake(
    options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", *options, TALKER]) == 2
    assert capsys.readouterr() == ("", f"acp-server: {why}\n")


@pytest.mark.parametrize("text", ["", "half", "whole\n"])
def test_what_comes_behind_the_answer_begins_a_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for end in (lambda out: out.result("end_turn"), lambda out: out.error(RpcError("No"))):
        out = TextReport("ask")
        out.update(AgentMessageChunk(content=TextContent(text=text)))
        end(out)
        assert capsys.readouterr().out == (f"{text.rstrip()}\n" if text else "")


def test_of_a_plan_the_steps_that_have_changed_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out = TextReport("ask")
    later = PlanEntry(content="Write", priority="low", status="pending")
    for state in ("pending", "in_progress", "completed"):
        out.update(Plan(entries=[PlanEntry(content="Read\x1b", priority="low", status=state), later]))
    assert capsys.readouterr() == ("", "[ ] Read\\x1b\n[ ] Write\n[>] Read\\x1b\n[x] Read\\x1b\n")


def test_json_loses_nothing_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    odd = "\x1b\x9b31m \u2028 \u202e \U000e0041 \ud83d é"
    deep: Any = odd
    for _ in range(150):
        deep = {odd: [deep]}
    out = JsonReport()
    out.update(ToolCall(tool_call_id="1", title=odd, raw_input=deep, meta={odd: odd}))
    call = ToolCallUpdate(tool_call_id="1", raw_input=deep)
    out.permission(RequestPermissionRequest(session_id="1", tool_call=call, options=[]), None)
    told = capsys.readouterr().out
    (shown, asked) = [json.loads(line) for line in told.splitlines()]
    assert shown["update"]["rawInput"] == asked["request"]["toolCall"]["rawInput"] == deep
    assert (shown["update"]["title"], shown["update"]["_meta"]) == (odd, {odd: odd})
    assert UNSAFE.search(told) is None


def test_a_tool_that_failed_says_so_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    out = TextReport("ask")
    why = Content(content=TextContent(text="There is no\nsuch file."))
    change = Diff(path="/a.txt", old_text="old", new_text="new")
    out.update(ToolCall(tool_call_id="1", title="Read a.txt"))
    out.update(ToolCall(tool_call_id="2", title="Read b.txt"))
    out.update(ToolCallProgress(tool_call_id="1", title="Read a.txt again"))
    out.update(ToolCallProgress(tool_call_id="1", content=[change, why]))
    out.update(ToolCallProgress(tool_call_id="2", status="completed", content=[why]))
    out.update(ToolCallProgress(tool_call_id="1", status="failed"))
    out.update(ToolCall(tool_call_id="3", title="Search", status="failed"))
    said = "* Read a.txt again\n* Read a.txt again [failed]\n    There is no\n    such file.\n* Search [failed]\n"
    assert capsys.readouterr() == ("", f"* Read a.txt\n* Read b.txt\n{said}")


def test_of_what_a_tool_says_that_failed_the_beginning_and_the_end_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = TextReport("ask")
    text = Content(content=TextContent(text="".join(f"{number}\n" for number in range(100)) + "That was all."))
    out.update(ToolCall(tool_call_id="1", title="Count", status="failed", content=[text]))
    said = capsys.readouterr().err.splitlines()
    assert said[:3] == ["* Count [failed]", "    0", "    1"]
    assert said[-5:] == ["    ... 85 more lines", "    97", "    98", "    99", "    That was all."]


def test_sessions_are_listed_for_scripts(chat: Chat, tmp_path: Path) -> None:
    agent = [sys.executable, "-m", "acp_server", "serve", "--store", str(tmp_path / "store")]
    assert chat("-p", "/help", *agent, cwd=tmp_path).returncode == 0
    (session,) = lines(chat("--sessions", "--json", *agent, cwd=tmp_path))
    assert session["title"] == "/help"
    again = chat("--resume", session["sessionId"][:9], "-p", "/read nosuch", *agent, cwd=tmp_path)
    assert "No such file" in again.stdout
    assert len(lines(chat("--sessions", "--json", *agent, cwd=tmp_path))) == 1


def _some(program: Any) -> bytes:
    return os.read(program._out_of, 65536)


def _wait_for(program: Driven, text: str) -> None:
    while text not in json.dumps(program.next()):
        pass


@pytest.mark.parametrize("word", ["-p", "--yes", "--cwd=/"])
def test_an_option_of_the_chat_behind_an_agent_that_is_served_is_said_to_be_misplaced(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "tests.apps.cli.talker:agent", "--store", "memory", word, "hello"]) == 2
    said = f"acp-server: {word} is an option of chat: write it before tests.apps.cli.talker:agent\n"
    assert capsys.readouterr().err == said


def test_options_behind_a_command_are_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "-p", "hello", "sh", "-c", "echo $0 >&2", "--yes"]) == 1
    assert "--yes" in capfd.readouterr().err


def _versions(chat: Chat, agent: str, *options: str) -> Any:
    done = chat(*options, "--json", "-p", "hello", f"tests.apps.cli.talker:{agent}")
    states = [event for event in lines(done) if event.get("update", {}).get("sessionUpdate") == "state_update"]
    return done.returncode, 2 if states else 1, lines(done)[-1]


@pytest.mark.parametrize(
    ("agent", "options", "spoken"),
    [("agent", (), 1), ("agent", ("--protocol", "1"), 1), ("agent", ("--protocol", "2"), 2), ("newest", (), 2)],
)
def test_version_1_is_spoken_unless_2_is_asked_for_or_the_agent_has_nothing_else(
    chat: Chat, agent: str, options: tuple[str, ...], spoken: int
) -> None:
    result = {"type": "result", "stopReason": "end_turn", "text": "You said hello."}
    assert _versions(chat, agent, *options) == (0, spoken, result)


@pytest.mark.parametrize(("agent", "version"), [("oldest", "2"), ("newest", "1")])
def test_a_version_that_is_asked_for_and_missing_is_an_error(chat: Chat, agent: str, version: str) -> None:
    code, _, error = _versions(chat, agent, "--protocol", version)
    assert (code, error["type"]) == (1, "error")
    assert "version" in error["message"]


def asking(id: str) -> RequestPermissionRequest:
    return RequestPermissionRequest(session_id="s", tool_call=ToolCallUpdate(tool_call_id=id), options=[])


def test_a_question_that_has_only_the_id_of_a_call_shows_what_is_known_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = TextReport("ask")
    out.update(ToolCall(tool_call_id="7", title="Delete it", raw_input={"path": "/etc"}))
    capsys.readouterr()
    out.permission(asking("7"), None)
    assert capsys.readouterr().err == "? Delete it: refused (--yes allows it)\n    path: /etc\n"
    out.permission(asking("8"), None)
    assert capsys.readouterr().err == "? 8: refused (--yes allows it)\n"


SETTLED = "tests.apps.cli.talker:settled"


def test_a_mode_and_options_are_set_before_the_prompt(chat: Chat) -> None:
    done = chat("-p", "what is set", "--mode", "code", "--config", "model=large", "--config", "loud=on", SETTLED)
    assert (done.stdout, done.returncode) == ("code large True\n", 0)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--mode", "cod"], "the agent has no mode 'cod'; did you mean 'code'?"),
        (["--config", "modelx=large"], "the agent has no option 'modelx'; did you mean 'model'?"),
        (["--config", "model=huge"], "the agent has no value of model 'huge'; there are small, large"),
        (["--config", "loud=yes"], "the agent has no value of loud 'yes'; there are on, true, off, false"),
        (["--config", "fast"], "--config must be ID=VALUE, not 'fast'"),
    ],
)
def test_a_mode_or_an_option_that_is_not_there_is_named(chat: Chat, arguments: list[str], why: str) -> None:
    done = chat("-p", "settings", *arguments, SETTLED)
    assert (done.stdout, done.stderr, done.returncode) == ("", f"acp-server: {why}\n", 2)


def test_help_behind_an_agent_is_that_of_the_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.py"
    file.write_text("from acp_server import Agent\nagent = Agent('a')\n")
    assert main(["chat", str(file), "--help"]) == 0
    assert "acp-server chat [OPTIONS]" in capsys.readouterr().out


def test_a_wrong_command_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chta"]) == 2
    assert "There is no command 'chta'; did you mean 'chat'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "index", "expected"),
    [("acp-server ", 1, "plain,chat"), ("acp-server ch", 1, "plain,chat"), ("acp-server chat --mo", 2, "plain,--mode")],
)
def test_a_shell_is_told_what_may_stand_next(
    words: str, index: int, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_ACP_SERVER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(index))
    assert main([]) == 0
    assert expected in capsys.readouterr().out.splitlines()
