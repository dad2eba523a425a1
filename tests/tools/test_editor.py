"""The files of a session as its client has them: what is asked of the client, and what is not."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from acp_server import Agent, InvalidParams, RpcError, Turn, schema
from acp_server.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    UsageError,
)
from acp_server.tasks.threads import Threads
from acp_server.tools.editor import BlockingEditor, Editor, EditResult, FileOperation, ReplaceInstruction
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio

Work = Callable[[Editor], Awaitable[Any]]

READ, WRITE = "fs/read_text_file", "fs/write_text_file"


class Disk:
    """What the client has, unsaved changes included, and which requests it got. `refuses`: the code of its errors."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.asked: list[dict[str, Any]] = []
        self.missing = RESOURCE_NOT_FOUND
        self.refuses: int | None = None

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        params = message["params"]
        self.asked.append({key: value for key, value in params.items() if key != "sessionId"})
        code = self.refuses
        if code is None and message["method"] == READ and params["path"] not in self.files:
            code = self.missing
        if code is not None:
            return {"error": {"code": code, "message": "the client says no"}}
        if message["method"] == WRITE:
            self.files[params["path"]] = params["content"]
            return {"result": {}}
        lines = self.files[params["path"]].splitlines(keepends=True)
        return {"result": {"content": "".join(lines[: params.get("limit")])}}


async def work(
    job: Work, disk: Disk | dict[str, str], *, cwd: str = "/project", may_write: bool = True, **params: Any
) -> Any:
    """What `job` comes to, with the editor of a session of a client that has `disk`. Raises what it raises."""
    files = disk if isinstance(disk, Disk) else Disk(disk)
    agent = Agent("test")
    came: list[Any] = []

    @agent.prompt
    async def handler(turn: Turn) -> None:
        editor = Editor.of(turn.session, may_write=may_write)
        assert editor is not None
        try:
            came.append(await job(editor))
        except Exception as error:
            came.append(error)

    async with editing(agent) as client:
        session = await client.open(cwd, **params)
        asked = await client.prompt(session)
        done = client.client.response

        def next_one(message: dict[str, Any]) -> bool:
            return message.get("method") in (READ, WRITE) or (message.get("id") == asked and "method" not in message)

        while "method" in (message := await client.client.expect(next_one)):
            await client.client.send({"jsonrpc": "2.0", "id": message["id"], **files.answer(message)})
        assert (await done(asked))["result"] == END_TURN
    (result,) = came
    if isinstance(result, Exception):
        raise result
    return result


# -- whether there is one


@pytest.mark.parametrize(
    ("fs", "there"),
    [
        ({"readTextFile": True, "writeTextFile": True}, True),
        ({"readTextFile": True, "writeTextFile": False}, False),
        ({"writeTextFile": True}, False),
        ({}, False),
        (None, False),
    ],
)
async def test_there_is_an_editor_if_the_client_reads_and_writes_files(fs: Any, there: bool):
    agent = Agent("test")
    found: list[Editor | None] = []

    @agent.prompt
    async def handler(turn: Turn) -> None:
        found.append(Editor.of(turn.session))

    async with editing(agent, capabilities={} if fs is None else {"fs": fs}) as client:
        assert await client.ask(await client.open()) == END_TURN
    assert [editor is not None for editor in found] == [there]


async def test_the_project_is_named_by_its_directory():
    async def job(editor: Editor) -> str:
        return editor.script_name

    assert await work(job, {}, cwd="/home/me/project/") == "project"


# -- reading


async def test_the_text_of_a_file_is_what_the_client_has():
    disk = Disk({"/project/src/a.py": "unsaved\n"})
    assert await work(lambda editor: editor.get_file_content("src/a.py"), disk) == "unsaved\n"
    assert disk.asked == [{"path": "/project/src/a.py"}]


async def test_an_empty_file_is_there():
    disk = Disk({"/project/a": ""})
    assert await work(lambda editor: editor.get_file_content("a"), disk) == ""
    assert await work(lambda editor: editor.exists("a"), disk) is True


@pytest.mark.parametrize("code", [RESOURCE_NOT_FOUND, INTERNAL_ERROR, INVALID_PARAMS, -1])
async def test_a_file_that_is_neither_in_the_client_nor_on_the_disk_is_missing(code: int):
    disk = Disk({})
    disk.missing = code
    assert await work(lambda editor: editor.get_file_content("a"), disk) is None
    assert await work(lambda editor: editor.exists("a"), disk) is False


@pytest.mark.parametrize("code", [INTERNAL_ERROR, INVALID_PARAMS])
async def test_a_file_that_the_client_does_not_read_is_no_missing_one(tmp_path: Path, code: int):
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    disk = Disk({})
    disk.missing = code
    with pytest.raises(RpcError, match="the client says no"):
        await work(lambda editor: editor.get_file_content("a.png"), disk, cwd=str(tmp_path))
    assert await work(lambda editor: editor.exists("a.png"), disk, cwd=str(tmp_path)) is True


async def test_a_directory_is_no_file(tmp_path: Path):
    (tmp_path / "src").mkdir()
    disk = Disk({})
    disk.missing = INTERNAL_ERROR
    assert await work(lambda editor: editor.get_file_content("src"), disk, cwd=str(tmp_path)) is None
    assert await work(lambda editor: editor.exists("src"), disk, cwd=str(tmp_path)) is False


@pytest.mark.parametrize("code", [REQUEST_CANCELLED, METHOD_NOT_FOUND])
async def test_a_client_that_says_nothing_about_the_file_does_not_make_it_missing(code: int):
    disk = Disk({"/project/a": ""})
    disk.refuses = code
    for job in (lambda editor: editor.get_file_content("a"), lambda editor: editor.exists("a")):
        with pytest.raises(RpcError, match="the client says no") as caught:
            await work(job, disk)
        assert caught.value.code == code


async def test_whether_a_file_exists_is_asked_with_one_line_of_it():
    disk = Disk({"/project/a": "1\n2\n"})
    assert await work(lambda editor: editor.exists("a"), disk) is True
    assert disk.asked == [{"path": "/project/a", "limit": 1}]


# -- where


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a", "/project/a"),
        ("./src/../a", "/project/a"),
        ("/project/a", "/project/a"),
        ("/other/lib/a", "/other/lib/a"),
        ("../other/a", "/other/a"),
        ("~", "/project/~"),
    ],
)
async def test_paths_are_relative_to_the_working_directory_or_inside_of_the_others(path: str, target: str):
    disk = Disk({target: "here"})
    read = await work(lambda editor: editor.get_file_content(path), disk, additionalDirectories=["/other"])
    assert read == "here"


OUTSIDE = ["..", "../x", "src/../../x", "/etc/passwd", "/projectile/a", "/", "", "a\0b"]
JOBS: dict[str, Callable[[Editor, str], Awaitable[Any]]] = {
    "exists": lambda editor, path: editor.exists(path),
    "read": lambda editor, path: editor.get_file_content(path),
    "update": lambda editor, path: editor.update_file_content(path, "x"),
    "write": lambda editor, path: editor.write_to_file(path, "x"),
    "insert": lambda editor, path: editor.insert_content(path, [FileOperation(1, "x")]),
    "replace": lambda editor, path: editor.replace_in_file(path, [ReplaceInstruction("x", "y")]),
}


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("job", JOBS)
async def test_a_path_that_leads_out_of_the_project_asks_the_client_for_nothing(job: str, path: str):
    disk = Disk({"/etc/passwd": "secret", "/x": "x"})
    with pytest.raises(InvalidParams, match=r"Outside the session's directories|Not a path"):
        await work(lambda editor: JOBS[job](editor, path), disk)
    assert disk.asked == []


async def test_a_link_that_leads_out_of_the_project_is_not_followed(tmp_path: Path):
    project, secret = tmp_path / "project", tmp_path / "secret"
    project.mkdir()
    secret.mkdir()
    (project / "out").symlink_to(secret)
    (project / "file").symlink_to(secret / "key")
    (project / "in").symlink_to(project)
    disk = Disk({})
    for path in ("out/key", "file"):
        with pytest.raises(InvalidParams, match="Outside the session's directories"):
            await work(lambda editor, path=path: editor.write_to_file(path, "x"), disk, cwd=str(project))
    assert disk.asked == []
    assert await work(lambda editor: editor.write_to_file("in/a", "x"), disk, cwd=str(project))
    assert disk.files == {str(project / "in" / "a"): "x"}


async def test_a_project_that_is_reached_by_a_link_is_a_project(tmp_path: Path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    disk = Disk({str(link / "a"): "here"})
    assert await work(lambda editor: editor.get_file_content("a"), disk, cwd=str(link)) == "here"


# -- writing


async def test_writing_replaces_a_file_or_makes_it():
    disk = Disk({"/project/a": "old"})
    assert await work(lambda editor: editor.write_to_file("a", "new"), disk) == EditResult()
    assert await work(lambda editor: editor.write_to_file("src/b", "more"), disk) == EditResult()
    assert disk.files == {"/project/a": "new", "/project/src/b": "more"}


async def test_updating_replaces_a_file_and_makes_none():
    disk = Disk({"/project/a": "old"})
    assert await work(lambda editor: editor.update_file_content("a", "new"), disk)
    result = await work(lambda editor: editor.update_file_content("b", "more"), disk)
    assert not result
    assert result.reason == "b does not exist"
    assert disk.files == {"/project/a": "new"}


async def test_lines_are_put_in_with_one_read_and_one_write():
    disk = Disk({"/project/a": "one\nthree\n"})
    operations = [FileOperation(2, "two"), FileOperation(3, "four")]
    assert await work(lambda editor: editor.insert_content("a", operations), disk)
    assert disk.files == {"/project/a": "one\ntwo\nthree\nfour\n"}
    assert disk.asked == [{"path": "/project/a"}, {"path": "/project/a", "content": "one\ntwo\nthree\nfour\n"}]


async def test_blocks_are_replaced_with_one_read_and_one_write():
    disk = Disk({"/project/a": "one\ntwo\n"})
    instructions = [ReplaceInstruction("one", "1"), ReplaceInstruction("two", "2")]
    assert await work(lambda editor: editor.replace_in_file("a", instructions), disk)
    assert disk.files == {"/project/a": "1\n2\n"}
    assert len(disk.asked) == 2


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (lambda editor: editor.insert_content("a", [FileOperation(1, "x"), FileOperation(9, "x")]), "a: there is no"),
        (
            lambda editor: editor.replace_in_file("a", [ReplaceInstruction("one", "1"), ReplaceInstruction("x", "y")]),
            "a: the block to replace is not in the file",
        ),
        (lambda editor: editor.insert_content("b", [FileOperation(1, "x")]), "b does not exist"),
        (lambda editor: editor.replace_in_file("b", [ReplaceInstruction("x", "y")]), "b does not exist"),
    ],
)
async def test_a_change_that_does_not_fit_is_false_with_the_reason_and_nothing_is_written(job: Work, reason: str):
    disk = Disk({"/project/a": "one\n"})
    result = await work(job, disk)
    assert not result
    assert result.reason.startswith(reason)
    assert disk.files == {"/project/a": "one\n"}
    assert not [asked for asked in disk.asked if "content" in asked]


async def test_a_change_that_changes_nothing_is_not_written():
    disk = Disk({"/project/a": "one\n"})
    assert await work(lambda editor: editor.replace_in_file("a", [ReplaceInstruction("one", "one")]), disk)
    assert len(disk.asked) == 1


async def test_a_write_that_the_client_refuses_is_its_error():
    disk = Disk({"/project/a": "one\n"})
    disk.refuses = INTERNAL_ERROR
    with pytest.raises(RpcError, match="the client says no"):
        await work(lambda editor: editor.write_to_file("a", "x"), disk)


@pytest.mark.parametrize("job", ["update", "write", "insert", "replace"])
async def test_nothing_is_written_where_only_a_question_is_prepared(job: str):
    disk = Disk({"/project/a": "x"})
    with pytest.raises(UsageError, match="must not write files"):
        await work(lambda editor: JOBS[job](editor, "a"), disk, may_write=False)
    assert disk.asked == []
    assert await work(lambda editor: editor.get_file_content("a"), disk, may_write=False) == "x"


# -- diffs


async def test_an_opened_diff_is_shown_against_what_is_in_the_file_and_changes_nothing():
    disk = Disk({"/project/a": "old", "/project/b": "b"})

    async def job(editor: Editor) -> list[schema.Diff]:
        editor.open_diff_editor("a", "first")
        editor.open_diff_editor("new", "made")
        editor.open_diff_editor("./a", "second")
        diffs = await editor.take_diffs()
        assert await editor.take_diffs() == []
        return diffs

    assert await work(job, disk, may_write=False) == [
        schema.Diff(path="/project/a", old_text="old", new_text="second"),
        schema.Diff(path="/project/new", old_text=None, new_text="made"),
    ]
    assert disk.files == {"/project/a": "old", "/project/b": "b"}


async def test_a_diff_of_a_file_outside_of_the_project_is_refused_at_once():
    async def job(editor: Editor) -> None:
        editor.open_diff_editor("../a", "x")

    disk = Disk({})
    with pytest.raises(InvalidParams, match="Outside the session's directories"):
        await work(job, disk)
    assert disk.asked == []


# -- from threads


async def test_a_plain_function_does_the_same_from_its_thread():
    disk = Disk({"/project/a": "one\n"})

    def plain(editor: BlockingEditor) -> list[Any]:
        editor.open_diff_editor("a", "diff")
        return [
            editor.script_name,
            editor.exists("b"),
            editor.get_file_content("a"),
            bool(editor.write_to_file("b", "x\n")),
            bool(editor.update_file_content("b", "two\n")),
            bool(editor.insert_content("b", [FileOperation(1, "one")])),
            bool(editor.replace_in_file("b", [ReplaceInstruction("two", "2")])),
            editor.update_file_content("c", "").reason,
        ]

    async def job(editor: Editor) -> Any:
        results = await Threads.current().run("plain", plain, BlockingEditor(editor))
        return results, [diff.new_text for diff in await editor.take_diffs()]

    results, diffs = await work(job, disk)
    assert results == ["project", False, "one\n", True, True, True, True, "c does not exist"]
    assert diffs == ["diff"]
    assert disk.files == {"/project/a": "one\n", "/project/b": "one\n2\n"}


async def test_both_kinds_of_editor_have_the_same_methods():
    async def job(editor: Editor) -> set[str]:
        return {name for name in dir(editor) if not name.startswith("_")}

    blocking = {name for name in vars(BlockingEditor) if not name.startswith("_")}
    assert await work(job, {}) - blocking == {"of", "take_diffs", "absolute"}


async def test_a_folder_that_becomes_a_link_while_a_file_is_read_is_not_written_through(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    disk = Disk({str(project / "src" / "a.py"): "one\n"})

    class Swapped(Disk):
        def answer(self, message: dict[str, Any]) -> dict[str, Any]:
            if message["method"] == READ and not (project / "src").is_symlink():
                (project / "src").rename(project / "source")
                (project / "src").symlink_to(tmp_path / "outside")
            return super().answer(message)

    async def job(editor: Editor) -> Any:
        with pytest.raises(InvalidParams, match="Outside"):
            await editor.replace_in_file("src/a.py", [ReplaceInstruction("one", "two")])

    swapped = Swapped(disk.files)
    await work(job, swapped, cwd=str(project))
    assert swapped.files == {str(project / "src" / "a.py"): "one\n"}
