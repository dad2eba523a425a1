"""The tools of the built-in agent for a model: what it is told, and how much of it."""

import json
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_server import Agent, ToolResult, Turn
from acp_server.apps.coder.model_agent import MOST_CHARACTERS, MOST_FILES, MOST_HITS, add_tools
from acp_server.apps.coder.roots import open_roots
from tests.session.editor import Editor, editing

from .client import FILES, PERMISSION, READ, TERMINALS, chosen

pytestmark = pytest.mark.anyio


class Model:
    """What a model does in the place of one: it calls the tool that the user names, and notes what it is told."""

    def __init__(self) -> None:
        self.agent = Agent("model")
        self.told: list[ToolResult] = []
        add_tools(self.agent)
        self.agent.session(open_roots)
        self.agent.prompt(self._prompt)

    async def _prompt(self, turn: Turn) -> None:
        name, arguments = json.loads(turn.text)
        self.told.append(await turn.run_tool(name, arguments))


class Talk:
    """A client of it that allows everything."""

    def __init__(self, model: Model, editor: Editor, session: str) -> None:
        self._model = model
        self.editor = editor
        self._session = session
        editor.client.answer(PERMISSION, chosen("allow_once"))

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        assert (await self.editor.ask(self._session, json.dumps([name, arguments])))["stopReason"] == "end_turn"
        return self._model.told[-1]

    async def told(self, name: str, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert result.status == "completed", result.message
        assert result.message is not None
        return result.message

    def shown(self) -> str:
        """The texts of the last tool call."""
        updates = [update for update in self.editor.client.updates() if "toolCallId" in update]
        contents = [update["content"] for update in updates if update.get("content")]
        return "".join(part["content"]["text"] for part in contents[-1])


@asynccontextmanager
async def talking(root: Path, capabilities: dict[str, Any] | None = None) -> AsyncGenerator[Talk]:
    model = Model()
    async with editing(model.agent, capabilities=capabilities or {}) as editor:
        yield Talk(model, editor, await editor.open(str(root)))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("import os\n\n\ndef main():\n    return 'needle'\n")
    (tmp_path / "notes.txt").write_text("a needle\n")
    (tmp_path / ".gitignore").write_text("built/\n")
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "out.txt").write_text("a needle\n")
    return tmp_path


async def test_files_are_listed_without_those_that_git_ignores(project: Path) -> None:
    async with talking(project) as talk:
        assert await talk.told("list_files") == ".gitignore\nnotes.txt\nsrc/app.py"
        assert await talk.told("list_files", path="src") == "src/app.py"
        assert "No such file" in str((await talk.call("list_files", path="nowhere")).message)


async def test_of_many_files_the_first_are_listed(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number:04}").touch()
    async with talking(tmp_path) as talk:
        lines = (await talk.told("list_files")).split("\n")
        assert lines[:-1] == [f"{number:04}" for number in range(MOST_FILES)]
        assert lines[-1] == "[there are more files: name a directory]"


async def test_hits_of_a_search_are_lines_with_their_places(project: Path) -> None:
    async with talking(project) as talk:
        assert (
            await talk.told("search", pattern="needle")
            == "notes.txt:1:3: a needle\nsrc/app.py:5:13:     return 'needle'"
        )
        assert await talk.told("search", pattern="needle", path="src") == "src/app.py:5:13:     return 'needle'"
        assert await talk.told("search", pattern="pin") == "There are no hits."
        failed = await talk.call("search", pattern="(")
        assert failed.status == "failed"


async def test_of_many_hits_the_first_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("needle\n" * (MOST_HITS + 1))
    async with talking(tmp_path) as talk:
        lines = (await talk.told("search", pattern="needle")).split("\n")
        assert len(lines) == MOST_HITS + 1
        assert lines[-1] == "[there are more hits: look for something more special]"


async def test_a_file_is_read_whole_or_by_lines(project: Path) -> None:
    async with talking(project) as talk:
        assert await talk.told("read", path="notes.txt") == "a needle"
        assert (
            await talk.told("read", path="src/app.py", first_line=4, last_line=5) == "def main():\n    return 'needle'"
        )
        assert await talk.told("read", path="src/app.py", first_line=5) == "    return 'needle'"
        assert await talk.told("read", path="src/app.py", last_line=1) == "import os"
        assert "Outside" in str((await talk.call("read", path="../x")).message)


async def test_of_a_long_file_whole_lines_are_read_and_where_more_begins(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 10_001)))
    async with talking(tmp_path) as talk:
        first = await talk.told("read", path="long.txt")
        assert len(first) <= MOST_CHARACTERS + 100
        last, note = first.split("\n")[-2:]
        number = int(last.removeprefix("line "))
        following = f"[From line {number + 1} on nothing is shown: that would be too much at once]"
        assert note == following
        assert (await talk.told("read", path="long.txt", first_line=number + 1)).startswith(f"line {number + 1}\n")


async def test_of_long_lines_as_many_are_read_as_there_is_room_for(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text(f"{'x' * 20_000}\n" * 3)
    (tmp_path / "one.txt").write_text("x" * 200_000)
    (tmp_path / "empty.txt").touch()
    async with talking(tmp_path) as talk:
        assert await talk.told("read", path="wide.txt") == "x" * 20_000 + "\n[more from line 2 on]"
        assert await talk.told("read", path="one.txt") == "x" * MOST_CHARACTERS + "\n[line 1 is cut here]"
        assert await talk.told("read", path="empty.txt") == "The file is empty."


async def test_a_file_is_read_as_the_editor_has_it(project: Path) -> None:
    async with talking(project, FILES) as talk:
        talk.editor.client.answer(READ, {"content": "not saved\n"})
        assert await talk.told("read", path="notes.txt") == "not saved"


async def test_an_edit_is_asked_for_and_made(project: Path) -> None:
    async with talking(project) as talk:
        assert await talk.told("edit", path="notes.txt", old="needle", new="pin") == "`notes.txt` is changed."
        assert (project / "notes.txt").read_text() == "a pin\n"
        assert await talk.told("write", path="new.txt", content="x\n") == "`new.txt` is made."
        assert len(talk.editor.client.all(PERMISSION)) == 2


async def test_what_a_command_prints_is_told_with_how_it_ends_and_shown_once(project: Path) -> None:
    async with talking(project) as talk:
        assert await talk.told("run", command="echo out; echo err >&2; exit 3") == (
            "out\nerr\n\n[It ended with exit code 3.]"
        )
        assert talk.shown().count("err") == 1
        assert await talk.told("run", command="true") == "[It ended with exit code 0.]"


async def test_of_what_a_command_prints_the_end_is_told(project: Path) -> None:
    program = "for i in range(20_000): print(f'line {i}')"
    async with talking(project) as talk:
        told = await talk.told("run", command=f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}")
        assert told.startswith("[beginning omitted]\n")
        assert told.endswith("line 19999\n\n[It ended with exit code 0.]")
        assert len(told) < MOST_CHARACTERS + 100


async def test_what_a_command_prints_in_a_terminal_of_the_client_is_told(project: Path) -> None:
    async with talking(project, TERMINALS) as talk:
        client = talk.editor.client
        client.answer("terminal/create", {"terminalId": "t"})
        client.answer("terminal/wait_for_exit", {"exitCode": 0})
        client.answer("terminal/output", {"output": "hello\n", "truncated": False})
        client.answer("terminal/release", {})
        assert await talk.told("run", command="echo hello") == "hello\n\n[It ended with exit code 0.]"
