"""Files below the roots: what is read, what is written, what is refused."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_server.client import LocalFiles
from acp_server.errors import InternalError, InvalidParams, ResourceNotFound, RpcError, UsageError
from acp_server.schema import ReadTextFileRequest, WriteTextFileRequest
from tests.swapping import SWAPS, World, worlds

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "three.txt").write_bytes("one\r\ntwö\nthree".encode())
    (tmp_path / "secret.txt").write_text("secret")
    return folder


async def read(files: LocalFiles, path: Path | str, line: int | None = None, limit: int | None = None) -> str:
    params = {"sessionId": "s", "path": str(path), "line": line, "limit": limit}
    request = ReadTextFileRequest.from_wire({name: value for name, value in params.items() if value is not None})
    return (await files.read_text_file(request)).content


async def write(files: LocalFiles, path: Path | str, content: str) -> None:
    request = WriteTextFileRequest.from_wire({"sessionId": "s", "path": str(path), "content": content})
    await files.write_text_file(request)


@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [
        (None, None, "one\r\ntwö\nthree"),
        (1, None, "one\r\ntwö\nthree"),
        (0, None, "one\r\ntwö\nthree"),
        (2, None, "twö\nthree"),
        (2, 1, "twö\n"),
        (None, 2, "one\r\ntwö\n"),
        (3, 5, "three"),
        (4, None, ""),
        (1, 0, ""),
    ],
)
async def test_a_file_is_read_whole_or_by_lines(root: Path, line: int | None, limit: int | None, text: str) -> None:
    assert await read(LocalFiles([root]), root / "three.txt", line, limit) == text


async def test_a_file_is_made_and_replaced_with_the_folders_it_is_in(root: Path) -> None:
    files = LocalFiles([root])
    path = root / "new" / "deep" / "file.txt"
    await write(files, path, "a\r\nb é\n")
    assert path.read_bytes() == "a\r\nb é\n".encode()
    path.chmod(0o640)
    await write(files, path, "")
    assert path.read_bytes() == b""
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "path", ["three.txt", "{root}/../secret.txt", "{root}/out/secret.txt", "/etc/hostname", "{root}\0"]
)
async def test_nothing_outside_of_the_roots_is_touched(root: Path, path: str) -> None:
    (root / "out").symlink_to(root.parent)
    files = LocalFiles([root])
    with pytest.raises(InvalidParams):
        await read(files, path.format(root=root))
    with pytest.raises(InvalidParams):
        await write(files, path.format(root=root), "overwritten")
    assert (root.parent / "secret.txt").read_text() == "secret"


async def test_a_path_that_would_take_long_to_follow_is_refused_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow(_path: Path) -> Path:
        raise AssertionError("it was followed")

    files = LocalFiles([root])
    monkeypatch.setattr(Path, "resolve", follow)
    with pytest.raises(InvalidParams) as refused:
        await read(files, f"{root}/" + "a/" * 20_000)
    assert refused.value.data == {"problems": [{"path": "path", "message": "is longer than 32768 characters"}]}


async def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "link").symlink_to(root / "three.txt")
    files = LocalFiles([root / "elsewhere", root])
    assert await read(files, root / "link", 3) == "three"
    await write(files, root / "link", "through")
    assert (root / "three.txt").read_text() == "through"
    assert (root / "link").is_symlink()


async def test_what_does_not_exist_is_not_found(root: Path) -> None:
    files = LocalFiles([root])
    with pytest.raises(ResourceNotFound):
        await read(files, root / "missing.txt")
    (root / "circle").symlink_to(root / "circle")
    with pytest.raises(RpcError):
        await read(files, root / "circle")


async def test_only_regular_files_of_text_are_read(root: Path) -> None:
    files = LocalFiles([root])
    (root / "binary").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(root / "pipe")
    for name in ("binary", "pipe", "."):
        with pytest.raises(InvalidParams):
            await read(files, root / name)
    for name in ("pipe", "."):
        with pytest.raises(InvalidParams):
            await write(files, root / name, "x")
    with pytest.raises(InvalidParams, match="Invalid params"):
        await write(files, root / "half", "\ud800")
    assert not (root / "half").exists()


async def test_more_than_may_be_read_at_once_is_refused_and_can_be_read_in_parts(root: Path) -> None:
    (root / "long.txt").write_text("0123456789\n" * 10)
    (root / "wide.txt").write_text("x" * 200 + "\nend")
    files = LocalFiles([root], most_bytes=50)
    with pytest.raises(InvalidParams):
        await read(files, root / "long.txt")
    assert await read(files, root / "long.txt", 9) == "0123456789\n" * 2
    with pytest.raises(InvalidParams):
        await read(files, root / "wide.txt", 1, 1)
    assert await read(files, root / "wide.txt", 2) == "end"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_may_not_be_read_is_an_error_without_the_path_of_the_server(root: Path) -> None:
    (root / "three.txt").chmod(0)
    with pytest.raises(InternalError, match="Permission denied"):
        await read(LocalFiles([root]), root / "three.txt")


async def test_what_cannot_be_written_is_an_error(root: Path) -> None:
    with pytest.raises(InternalError, match="cannot be written"):
        await write(LocalFiles([root]), root / "three.txt" / "below", "x")


@pytest.mark.parametrize("kind", [str, Path])
def test_one_path_is_not_taken_for_its_characters_of_which_the_first_is_the_whole_disk(kind: type) -> None:
    with pytest.raises(UsageError, match=r"a list, as in \['/project'\]"):
        LocalFiles(kind("/project"))


@pytest.mark.skipif(sys.platform == "win32", reason="what is done relative to an open folder")
@pytest.mark.parametrize("swap", SWAPS)
async def test_a_folder_that_becomes_a_link_at_any_step_leads_nothing_outside(tmp_path: Path, swap: str) -> None:
    def begin(world: World) -> Callable[[], Any]:
        files = LocalFiles([world.project])
        (world.outside / "a" / "b" / "old.txt").write_text("secret")
        path = str(world.project / "a" / "b" / "old.txt")
        world.note()

        def read_and_write() -> str:
            text = files._read(ReadTextFileRequest(session_id="s", path=path)).content
            new = str(world.project / "a" / "b" / "c" / "new.txt")
            for target in (path, new):
                files._write(WriteTextFileRequest(session_id="s", path=target, content="new"))
            return text

        return read_and_write

    for world, result in worlds(tmp_path, swap, begin):
        assert world.is_unharmed
        assert isinstance(result, RpcError) or result == "old", result
