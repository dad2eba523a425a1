"""The text of one file, in blocks of whole lines and in bounded memory."""

import codecs
import os
import sys
import tracemalloc
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.apps.coder import read as module
from acp_server.apps.coder.read import BinaryFile, Block, blocks

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="files as POSIX has them")


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], list[Block]]:
    def read(content: bytes) -> list[Block]:
        (tmp_path / "file").write_bytes(content)
        return list(blocks(str(tmp_path / "file")))

    return read


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\ntwo", "one\ntwo"),
        (b"one\r\ntwo\rthree\n\n", "one\ntwo\nthree\n"),
        (b"\n", ""),
        ("ä 漢 😀\n".encode(), "ä 漢 😀"),
        (b"bad \xff\xc3 end\n", "bad �� end"),
        (b"cut \xc3", "cut �"),
        (codecs.BOM_UTF8 + b"x\n", "x"),
        (codecs.BOM_UTF16_LE + "ä\r\nb".encode("utf-16-le"), "ä\nb"),
        (codecs.BOM_UTF16_BE + "ä\nb".encode("utf-16-be"), "ä\nb"),
        (codecs.BOM_UTF32_LE + "ä\nb".encode("utf-32-le"), "ä\nb"),
        (b"x" * 9000 + b"\0", "x" * 9000 + "\0"),
        ("a\x0bb\x0cc\x85d\u2028e".encode(), "a\x0bb\x0cc\x85d\u2028e"),
    ],
)
def test_the_text_of_a_file_comes_in_lines_that_end_with_a_newline_whatever_the_file_says(
    read: Callable[[bytes], list[Block]], content: bytes, text: str
) -> None:
    found = read(content)
    assert "\n".join(block.text for block in found) == text
    assert not any(block.continues or block.unfinished for block in found)


@pytest.mark.parametrize("content", [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE])
def test_an_empty_file_has_no_block(read: Callable[[bytes], list[Block]], content: bytes) -> None:
    assert read(content) == []


@pytest.mark.parametrize("content", [b"\0", b"text\0", b"x" * 8191 + b"\0", b"\x7fELF\0"])
def test_a_nul_byte_at_the_beginning_makes_a_file_binary(read: Callable[[bytes], list[Block]], content: bytes) -> None:
    with pytest.raises(BinaryFile):
        read(content)


PIECES = st.lists(
    st.sampled_from(["\n", "\r\n", "\r", "a", "bc", "ä", "漢", "😀", "\xff", "x" * 7, "y" * 23]), max_size=60
)


@given(PIECES, st.sampled_from([1, 2, 3, 5, 8, 16]))
@settings(max_examples=300)
def test_blocks_hold_the_lines_of_the_file_wherever_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut-anywhere"
    content = b"".join(b"\xff" if piece == "\xff" else piece.encode() for piece in pieces)
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_BYTES", size)
        found = list(blocks(str(path)))
    lines: list[str] = []
    for block, following in zip_longest(found, found[1:]):
        assert block.unfinished == (following is not None and following.continues)
        if block.continues:
            assert "\n" not in block.text
            lines[-1] += block.text
        else:
            assert not (block.unfinished and "\n" in block.text)
            lines += block.text.split("\n")
    expected = content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    assert lines == (expected.removesuffix("\n").split("\n") if expected else [])
    assert sum(block.newlines for block in found) == len(lines)


@posix_only
def test_a_line_of_a_gigabyte_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.write_bytes(b"x" * 8192)
    os.truncate(path, 1 << 30)
    characters = 0
    tracemalloc.start()
    try:
        for block in blocks(str(path)):
            characters += len(block.text)
            if characters > 64 << 20:
                break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


@posix_only
def test_only_regular_files_are_opened_and_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "link", tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(OSError):  # noqa: PT011 - which one it is differs from system to system
            next(blocks(str(path)))


def test_a_file_is_closed_when_its_reader_stops(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x\n" * 1_000_000)
    reading = blocks(str(tmp_path / "file"))
    next(reading)
    reading.close()  # the guard against leaks sees whether the descriptor is closed
