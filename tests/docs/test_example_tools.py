"""The example agents with tools, each as a process on either backend: what they find, and what is left of a cancel."""

import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.client import Handlers, LocalFiles, RemoteSession, RemoteTurn, allow_once, reject_once, spawn_agent
from acp_server.schema import AgentMessageChunk, TextContent, ToolCall, ToolCallProgress
from acp_server.tools.runner import EDITOR_ONLY
from tests.agent.processes.driver import environment
from tests.prefork import Prefork

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GIT = shutil.which("git")

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An example writes nothing to standard error."""
    with caplog.at_level("INFO", "acp_server.client.stderr"):
        yield
    assert not [r.getMessage() for r in caplog.get_records("call") if r.name == "acp_server.client.stderr"]


_forks: Prefork | None = None


@pytest.fixture(autouse=True)
def started_by_forks(forks: Prefork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_forks", forks)


@asynccontextmanager
async def session_with(
    name: str, folder: Path, backend: str, handlers: Handlers | None = None
) -> AsyncGenerator[RemoteSession]:
    assert _forks
    command = _forks.stand_in(["-m", "acp_server", "serve", str(EXAMPLES / name), "--backend", backend])
    with anyio.fail_after(30):
        async with spawn_agent(command, handlers, env=environment()) as agent:
            await agent.initialize()
            yield await agent.new_session(folder)


class Seen:
    """What a client was shown in a turn."""

    def __init__(self) -> None:
        self.said = ""
        self.ids: dict[str, str] = {}
        """The calls, by their first titles."""
        self.titles: dict[str, str] = {}
        self.statuses: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.raw: dict[str, Any] = {}

    def see(self, update: Any) -> None:
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            self.said += update.content.text
        elif isinstance(update, ToolCall):
            self.ids[update.title] = update.tool_call_id
        elif isinstance(update, ToolCallProgress):
            id = update.tool_call_id
            assert self.statuses.get(id) not in ("completed", "failed"), "it goes on behind its end"
            self.titles[id] = update.title or self.titles.get(id, "")
            self.statuses[id] = update.status or self.statuses.get(id, "")
            if update.content is not None:
                wire = update.to_wire()["content"]
                self.texts[id] = "\n".join(c["content"]["text"] for c in wire if c["type"] == "content")
            self.raw[id] = update.raw_output or self.raw.get(id)

    async def all(self, turn: RemoteTurn) -> None:
        async for update in turn:
            self.see(update)


async def whole_turn(session: RemoteSession, text: str) -> Seen:
    seen = Seen()
    answer = await session.run(text, on_update=seen.see)
    assert answer.stop_reason == "end_turn"
    return seen


# -- sources.py


def make_vast(folder: Path) -> None:
    """Forty million lines: no search of them ends by itself while a test waits for it."""
    original = folder / "0.txt"
    original.write_text(("nothing\n" * 999 + "class OrderedDict\n") * 20)
    for number in range(1, 2_000):
        os.link(original, folder / f"{number}.txt")


async def test_sources_are_searched_side_by_side(tmp_path: Path, anyio_backend_name: str) -> None:
    (tmp_path / "a.py").write_text("pass\nclass OrderedDict:\n")
    (tmp_path / "b.bin").write_bytes(b"\xff class OrderedDict")
    async with session_with("sources.py", tmp_path, anyio_backend_name) as session:
        seen = await whole_turn(session, "class OrderedDict")
        project, history, library = (
            seen.ids[f"Look for 'class OrderedDict' in the {source}"] for source in ("project", "history", "library")
        )
        assert (seen.statuses[project], seen.statuses[history]) == ("completed", "failed")
        assert seen.texts[project] == f"{tmp_path}/a.py:2: class OrderedDict:\n1 found."
        assert re.search(r"collections/__init__\.py:\d+: class OrderedDict\(dict\):\n", seen.texts[library])
        assert re.fullmatch(
            r"project: 1 found\.\nhistory: There is no (history|git) here\.\nlibrary: \d+ found\.\n", seen.said
        )


@pytest.mark.skipif(GIT is None, reason="there is no git")
async def test_sources_finds_what_the_history_says(tmp_path: Path, anyio_backend_name: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "A needle in a haystack"]):
        await anyio.run_process([str(GIT), "-C", str(tmp_path), *arguments])
    async with session_with("sources.py", tmp_path, anyio_backend_name) as session:
        seen = await whole_turn(session, "needle in a hay")
        text = seen.texts[seen.ids["Look for 'needle in a hay' in the history"]]
        assert re.fullmatch(r"[0-9a-f]+: A needle in a haystack\n1 found\.", text)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with its turn"])
async def test_a_source_that_is_stopped_keeps_what_it_found(
    tmp_path: Path, anyio_backend_name: str, alone: bool
) -> None:
    make_vast(tmp_path)
    async with session_with("sources.py", tmp_path, anyio_backend_name) as session:
        seen = Seen()
        async with session.prompt("class OrderedDict") as turn:
            async for update in turn:
                seen.see(update)
                project = seen.ids.get("Look for 'class OrderedDict' in the project")
                if project in seen.texts:
                    break
            if alone:
                params = {"sessionId": session.id, "toolCallId": project}
                await session.agent.request("_tool_call/cancel", params)
            else:
                turn.cancel()
            await seen.all(turn)
            assert turn.stop_reason == ("end_turn" if alone else "cancelled")
        assert project is not None
        assert seen.statuses[project] == "failed"
        *hits, last = seen.texts[project].splitlines()
        found = re.fullmatch(r"(\d+) found before it was stopped\.", last)
        assert found is not None
        assert 0 < int(found[1]) < 40_000
        assert hits[-1].endswith(": class OrderedDict")
        if alone:
            assert seen.said.startswith(f"project: {last}\n")
            assert re.search(r"library: \d+ found\.\n$", seen.said)


# -- batch.py


async def test_batch_says_which_files_are_the_same(tmp_path: Path, anyio_backend_name: str) -> None:
    (tmp_path / "sub").mkdir()
    for name, content in {"a": "1", "b": "2", "sub/c": "1", "sub/d": "1"}.items():
        (tmp_path / name).write_text(content)
    async with session_with("batch.py", tmp_path, anyio_backend_name) as session:
        seen = await whole_turn(session, "go")
        (call,) = seen.ids.values()
        assert (seen.titles[call], seen.statuses[call]) == ("Find files with the same content: 100 %", "completed")
        assert seen.raw[call] == {"compared": 4, "files": 4, "duplicates": 2}
        assert seen.said == "sub/c is a\nsub/d is a\n4 files were compared, 2 of them are duplicates.\n"


async def test_batch_says_how_far_it_came_when_it_is_stopped(tmp_path: Path, anyio_backend_name: str) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("1")
    for number in range(48):  # a gigabyte each, of which the disk holds nothing
        with (tmp_path / f"c{number}").open("wb") as file:
            file.truncate(2**30)
    async with session_with("batch.py", tmp_path, anyio_backend_name) as session:
        seen = Seen()
        async with session.prompt("go") as turn:
            async for update in turn:
                seen.see(update)
                if "Find files with the same content: 4 %" in seen.titles.values():
                    break
            turn.cancel()
            await seen.all(turn)
            assert turn.stop_reason == "cancelled"
        (call,) = seen.ids.values()
        assert seen.statuses[call] == "failed"
        first, last = seen.texts[call].splitlines()
        assert first == "b is a"
        stopped = re.fullmatch(r"(\d+) of 50 files were compared before it was stopped\.", last)
        assert stopped is not None
        assert 2 <= int(stopped[1]) < 50
        assert seen.raw[call]["compared"] == int(stopped[1])


# -- edit.py


@pytest.mark.parametrize(
    ("ask", "text", "said"),
    [
        (allow_once, "new = new + older\n", "Renamed.\n"),
        (reject_once, "old = old + older\n", "The user did not allow it, so it was not run.\n"),
    ],
    ids=["allowed", "rejected"],
)
async def test_edit_shows_the_change_and_makes_it_if_it_is_allowed(
    tmp_path: Path, anyio_backend_name: str, ask: Any, text: str, said: str
) -> None:
    file = tmp_path / "a.py"
    file.write_text("old = old + older\n")
    asked: list[Any] = []

    async def answer(request: Any) -> Any:
        asked.append(request)
        return await ask(request)

    handlers = Handlers(permission=answer, files=LocalFiles([tmp_path]))
    async with session_with("edit.py", tmp_path, anyio_backend_name, handlers) as session:
        seen = await whole_turn(session, "a.py old new")
        assert seen.said == said
        (request,) = [one.to_wire() for one in asked]
        assert [option["name"] for option in request["options"]][::2] == ["Rename", "Leave it"]
        diff, message = request["toolCall"]["content"]
        assert message["content"]["text"] == "2 times in a.py."
        assert (diff["oldText"], diff["newText"]) == ("old = old + older\n", "new = new + older\n")
        assert file.read_text() == text
        for prompt, why in [
            ("a.py none new", "There is no none in a.py."),
            ("b.py old new", "There is no file b.py."),
            ("a.py", "Tell me the file, the old name and the new one."),
        ]:
            assert (await whole_turn(session, prompt)).said == f"{why}\n"


async def test_edit_leaves_a_file_alone_that_was_changed_meanwhile(tmp_path: Path, anyio_backend_name: str) -> None:
    file = tmp_path / "a.py"
    file.write_text("old\n")

    async def type_and_allow(request: Any) -> Any:
        file.write_text("old, and typed\n")
        return await allow_once(request)

    handlers = Handlers(permission=type_and_allow, files=LocalFiles([tmp_path]))
    async with session_with("edit.py", tmp_path, anyio_backend_name, handlers) as session:
        seen = await whole_turn(session, "a.py old new")
        assert seen.said == "a.py was changed meanwhile, so I left it as it is.\n"
        assert file.read_text() == "old, and typed\n"


async def test_edit_withdraws_its_question_when_the_user_cancels(tmp_path: Path, anyio_backend_name: str) -> None:
    file = tmp_path / "a.py"
    file.write_text("old\n")
    asked = anyio.Event()

    async def think_it_over(_request: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    handlers = Handlers(permission=think_it_over, files=LocalFiles([tmp_path]))
    async with session_with("edit.py", tmp_path, anyio_backend_name, handlers) as session:
        async with session.prompt("a.py old new") as turn:
            await asked.wait()
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
        assert file.read_text() == "old\n"


async def test_edit_says_that_it_needs_an_editor_with_files(tmp_path: Path, anyio_backend_name: str) -> None:
    async with session_with("edit.py", tmp_path, anyio_backend_name) as session:
        assert (await whole_turn(session, "a.py old new")).said == f"{EDITOR_ONLY}\n"
