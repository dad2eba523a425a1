"""`acp-server serve --reload` with real processes: the client sees one agent, whose code changes."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from acp_server.apps.cli import main
from tests.agent.processes.driver import Driven, Message, started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the driver of these tests needs POSIX pipes")

AGENT = """
import os

from anyio import sleep_forever

from acp_server import Agent, Turn

agent = Agent("counter", version="VERSION")


@agent.prompt
async def answer(turn: Turn):
    if turn.text == "wait":
        await sleep_forever()
    if turn.text == "ask":
        # That the turn has begun is written beside it: what dies on the answer would otherwise outrun that.
        await turn.session.save()
        await turn.client.request("_question", {})
    yield f"VERSION:{len(turn.session.record.turns)}"


@agent.method("_die")
async def die(call):
    os._exit(7)


@agent.authenticate("key", name="A key")
async def login(call):
    os.write(2, b"VERSION has a login\\n")
"""
ERROR = {"code": -32603, "message": "The agent has ended. It starts again when its code changes. Its log says why."}
ALL_GO_ON = "restarted; 1 of 1 sessions continue"


class Author:
    """Somebody who changes `file` while a client talks to the agent in it."""

    def __init__(self, editor: Driven, file: Path) -> None:
        self.editor = editor
        self.file = file
        self._read = 0

    def changes_to(self, source: str, until: str) -> None:
        """Save the file, and wait until the log says so."""
        self._read = len(self.editor.stderr)
        # All of it in one step: an empty file in between would be a change of its own, and start one process more.
        saved = self.file.with_suffix(".new")
        saved.write_text(source)
        saved.replace(self.file)
        self.sees(until)

    def sees(self, text: str) -> None:
        self.editor.wait_for_stderr(text, self._read)

    def begins(self) -> str:
        """Connect; a new session."""
        self.editor.call(1, "initialize", protocolVersion=1)
        return self.editor.call(2, "session/new", cwd=str(self.file.parent), mcpServers=[])["sessionId"]

    @property
    def agent(self) -> psutil.Process:
        (process,) = psutil.Process(self.editor.process.pid).children()
        return process


@contextmanager
def reloading(tmp_path: Path, source: str, *options: str) -> Iterator[Author]:
    file = tmp_path / "my_agent.py"
    file.write_text(source)
    command = [sys.executable, "-m", "acp_server", "serve", "--reload", *options, str(file)]
    with started(command, cwd=tmp_path) as editor:
        yield Author(editor, file)


def version(number: str) -> str:
    return AGENT.replace("VERSION", number)


def prompt(editor: Driven, id: int, session: str, text: str = "x") -> None:
    editor.request(id, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


def said(editor: Driven, id: int) -> str:
    """What the agent says until it answers the prompt, which is all that comes."""
    text = ""
    while "id" not in (message := editor.next()):
        text += message["params"]["update"].get("content", {}).get("text", "")
    assert message == {"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn"}}
    return text


def test_a_changed_file_is_served_and_the_sessions_go_on_with_their_history(tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        editor = author.editor
        first = author.begins()
        second = editor.call(3, "session/new", cwd=str(tmp_path), mcpServers=[])["sessionId"]
        prompt(editor, 4, first)
        assert said(editor, 4) == "1:1"
        author.changes_to(version("22"), "restarted; 2 of 2 sessions continue")
        prompt(editor, 5, first)
        assert said(editor, 5) == "22:2"
        prompt(editor, 6, second)
        assert said(editor, 6) == "22:1"
        editor.close_input()
        assert editor.rest() == []
        assert editor.exit_code() == 0


def test_a_change_waits_for_the_answer_to_a_prompt(tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        editor = author.editor
        session = author.begins()
        prompt(editor, 3, session, "ask")
        question = editor.next()
        author.changes_to(version("22"), "my_agent.py changed, so the agent is restarted when it has answered")
        editor.send({"jsonrpc": "2.0", "id": question["id"], "result": {}})
        assert said(editor, 3) == "1:1"
        author.sees(ALL_GO_ON)
        prompt(editor, 4, session)
        assert said(editor, 4) == "22:2"


def test_requests_that_come_while_no_process_is_ready_are_answered_by_the_next_one(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waits = f"open({str(gate)!r}).read()\n" + version("22")
    with reloading(tmp_path, version("1")) as author:
        editor = author.editor
        session = author.begins()
        os.mkfifo(gate)
        author.changes_to(waits, "my_agent.py changed")
        # It opens for writing when the new process reads, which is before it is ready.
        with gate.open("w"):
            for id in range(3, 6):
                # It ends by its cancel alone, whether or not the process has begun it before it reads that.
                prompt(editor, id, session, "wait")
                editor.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        answers: list[Message] = []
        while len(answers) < 3:
            if "method" not in (message := editor.next()):
                answers.append(message)
        # One that was begun is answered when it has been saved, which may be behind those that were not.
        assert {answer["id"] for answer in answers} == {3, 4, 5}
        assert [answer["result"]["stopReason"] for answer in answers] == ["cancelled"] * 3


def test_a_syntax_error_is_told_to_the_client_and_the_next_good_change_mends_it(tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        editor = author.editor
        session = author.begins()
        author.changes_to("agent = (\n", "the agent has ended with exit code 2; it is restarted when its code changes")
        assert "my_agent.py failed: SyntaxError: '(' was never closed (my_agent.py, line 1)" in editor.stderr
        prompt(editor, 3, session)
        assert editor.next() == {"jsonrpc": "2.0", "id": 3, "error": ERROR}
        editor.send(b'[{"jsonrpc":"2.0","id":4,"method":"x"},{"jsonrpc":"2.0","method":"y"}]\n')
        assert editor.next() == [{"jsonrpc": "2.0", "id": 4, "error": ERROR}]
        author.changes_to(version("22"), ALL_GO_ON)
        prompt(editor, 5, session)
        assert said(editor, 5) == "22:1"


def test_a_file_that_is_wrong_from_the_beginning_can_be_mended_too(tmp_path: Path) -> None:
    with reloading(tmp_path, "agent = (\n") as author:
        editor = author.editor
        editor.request(1, "initialize", protocolVersion=1)
        assert editor.next() == {"jsonrpc": "2.0", "id": 1, "error": ERROR}
        author.changes_to(version("1"), "my_agent.py changed")
        assert editor.call(2, "initialize", protocolVersion=1)["agentInfo"]["version"] == "1"


def test_a_process_that_dies_leaves_no_request_without_an_answer_and_no_question_at_the_client(tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        editor = author.editor
        session = author.begins()
        prompt(editor, 3, session, "ask")
        question = editor.next()
        editor.request(4, "_die")
        assert [editor.next(), editor.next()] == [{"jsonrpc": "2.0", "id": id, "error": ERROR} for id in (3, 4)]
        withdrawal = {"method": "$/cancel_request", "params": {"requestId": question["id"]}}
        assert editor.next() == {"jsonrpc": "2.0", **withdrawal}
        author.sees("the agent has ended with exit code 7")
        author.changes_to(version("22"), ALL_GO_ON)
        # Its answer comes late: the question of the next process, which counts from the beginning, is another one.
        prompt(editor, 5, session, "ask")
        again = editor.next()
        editor.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32800, "message": "withdrawn"}})
        editor.send({"jsonrpc": "2.0", "id": again["id"], "result": {}})
        assert said(editor, 5) == "22:2"


def test_what_an_agent_repeats_when_it_loads_a_session_is_not_shown_again(tmp_path: Path) -> None:
    loads = """

@agent.initialize
def initialize(initialization):
    initialization.answer["agentCapabilities"] = {"loadSession": True}
"""
    with reloading(tmp_path, version("1") + loads) as author:
        editor = author.editor
        session = author.begins()
        prompt(editor, 3, session)
        assert said(editor, 3) == "1:1"
        author.changes_to(version("22") + loads, ALL_GO_ON)
        prompt(editor, 4, session)
        assert said(editor, 4) == "22:2"


def test_the_commands_of_the_new_code_reach_the_client(tmp_path: Path) -> None:
    offers = """

@agent.session
async def offer(session):
    from acp_server.schema import AvailableCommand

    await session.set_commands([AvailableCommand(name="VERSION", description="A command.")])
"""
    code = AGENT + offers
    with reloading(tmp_path, code.replace("VERSION", "one")) as author:
        author.begins()
        assert commands(author.editor) == ["one"]
        author.changes_to(code.replace("VERSION", "another"), ALL_GO_ON)
        assert commands(author.editor) == ["another"]


def commands(editor: Driven) -> list[str]:
    return [each["name"] for each in editor.next()["params"]["update"]["availableCommands"]]


def test_a_login_is_repeated(tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        author.begins()
        author.editor.call(3, "authenticate", methodId="key")
        author.changes_to(version("22"), "22 has a login")
        assert author.editor.finish() == 0


def test_what_the_agent_offers_anew_is_logged_since_the_client_cannot_learn_it(tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        author.begins()
        author.changes_to(version("22"), "the agent's capabilities have changed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_agent_and_then_the_relay(number: int, tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        author.begins()
        agent = author.agent
        author.editor.signal(number)
        assert author.editor.exit_code() == 128 + number
        assert not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE


def test_a_signal_ends_the_relay_while_there_is_no_agent(tmp_path: Path) -> None:
    with reloading(tmp_path, "1/0") as author:
        author.sees("the agent has ended with exit code 2")
        author.editor.signal(signal.SIGINT)
        assert author.editor.exit_code() == 130


def test_the_private_file_of_the_sessions_is_gone_at_the_end(tmp_path: Path) -> None:
    with reloading(tmp_path, version("1")) as author:
        author.begins()
        command = author.agent.cmdline()
        file = Path(command[command.index("--memory-file") + 1])
        assert file.is_file()
        assert file.parent.stat().st_mode & 0o077 == 0
        assert author.editor.finish() == 0
        assert not file.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--reload needs the file or module of your own agent"),
        (["--model", "openai:x", "a.py"], "--reload cannot be used with --model"),
        (["/no/such/folder/a.py"], "there is no folder /no/such/folder"),
    ],
)
def test_what_cannot_be_reloaded_is_one_line_and_exit_code_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--reload", *arguments]) == 2
    assert text in capsys.readouterr().err
