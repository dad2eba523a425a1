"""Lines come out of the stream as they were put in, however it is cut, and no line can fill the memory."""

import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.wire.framing import DEFAULT_LINE_LIMIT, LineFramer, TooLong

KIB = 1024


def feed(framer: LineFramer, *chunks: bytes) -> list[bytes | TooLong]:
    found: list[bytes | TooLong] = []
    for chunk in chunks:
        found += [line if isinstance(line, TooLong) else bytes(line) for line in framer.feed(chunk)]
    return found


def test_a_line_comes_out_when_its_newline_has_arrived() -> None:
    framer = LineFramer()
    assert feed(framer, b'{"a":') == []
    assert framer.held == 5
    assert feed(framer, b'1}\n{"b":2}\n{"c"') == [b'{"a":1}', b'{"b":2}']
    assert feed(framer, b":3}", b"\n") == [b'{"c":3}']
    assert framer.held == 0


@pytest.mark.behaviour("L7")
@pytest.mark.parametrize("blank", [b"", b" ", b"\r", b"\t \r"])
def test_blank_lines_are_no_lines(blank: bytes) -> None:
    assert feed(LineFramer(), blank + b"\n1\n" + blank + b"\n", blank[:1], blank[1:] + b"\n2\n") == [b"1", b"2"]


@pytest.mark.behaviour("G11")
def test_the_last_line_needs_no_newline() -> None:
    framer = LineFramer()
    assert feed(framer, b"1\n2") == [b"1"]
    assert framer.finish() == b"2"
    assert framer.finish() is None


@pytest.mark.parametrize("rest", [b"", b" \r", b"1\n"])
def test_an_end_with_nothing_left_yields_nothing(rest: bytes) -> None:
    framer = LineFramer()
    framer.feed(rest)
    assert framer.finish() is None


def test_the_limit_is_the_length_of_the_longest_line() -> None:
    for chunks in ([b"12345\n123456\n1\n"], [b"123", b"45", b"\n12345", b"6", b"\n1\n"]):
        assert feed(LineFramer(5), *chunks) == [b"12345", TooLong(b"123456"), b"1"]


def test_the_default_limit_is_32_mib() -> None:
    assert DEFAULT_LINE_LIMIT == 32 * KIB * KIB
    assert feed(LineFramer(), b"1" * DEFAULT_LINE_LIMIT, b"\n") == [b"1" * DEFAULT_LINE_LIMIT]


@pytest.mark.behaviour("L4")
def test_a_line_over_the_limit_is_reported_as_soon_as_it_is_known_and_once() -> None:
    framer = LineFramer(5)
    assert feed(framer, b"123456") == [TooLong(b"123456")]
    assert feed(framer, b"7", b"8" * 100, b"9\n", b"1\n") == [b"1"]


def test_a_line_over_the_limit_keeps_its_head() -> None:
    assert feed(LineFramer(2000), b"a" * 700, b"b" * 2000, b"c") == [TooLong(b"a" * 700 + b"b" * 324)]


def test_an_end_within_a_line_over_the_limit_yields_no_second_line() -> None:
    framer = LineFramer(5)
    assert feed(framer, b"1234567") == [TooLong(b"1234567")]
    assert framer.finish() is None


@pytest.mark.behaviour("L4")
def test_an_endless_line_is_held_up_to_the_limit_only() -> None:
    limit, chunk = 1024 * KIB, b"x" * (64 * KIB)
    framer = LineFramer(limit)
    tracemalloc.start()
    try:
        found: list[bytes | TooLong] = []
        for _ in range(100 * KIB * KIB // len(chunk)):
            found += feed(framer, chunk)
            assert framer.held <= limit
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [TooLong(b"x" * KIB)]
    assert framer.held == 0
    assert peak < 2 * limit
    assert feed(framer, b"\n1\n") == [b"1"]


def test_a_line_of_tiny_chunks_costs_no_more_than_its_bytes() -> None:
    framer = LineFramer()
    tracemalloc.start()
    try:
        for _ in range(100 * KIB):
            framer.feed(b"xy")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert framer.held == 200 * KIB
    assert peak < 2 * framer.held


# Lines of few different bytes, so that newlines, blanks and the limit are hit often.
STREAMS = st.lists(st.sampled_from([b"\n", b"\r\n", b" ", b"ab", b'{"a":1}', b"\xef\xbb\xbf", b"x" * 30]), max_size=20)


@given(STREAMS.map(b"".join), st.lists(st.integers(0, 200), max_size=8), st.integers(1, 40))
@settings(max_examples=300)
def test_any_chunking_gives_the_same_lines(stream: bytes, cuts: list[int], limit: int) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    framer = LineFramer(limit)
    lines: list[bytes | TooLong] = []
    for start, end in itertools.pairwise(edges):
        lines += feed(framer, stream[start:end])
        assert framer.held <= limit
    if last := framer.finish():
        lines.append(bytes(last))
    assert [None if isinstance(line, TooLong) else line for line in lines] == [
        None if len(line) > limit else line for line in stream.split(b"\n") if line.strip() or len(line) > limit
    ]


def test_a_large_chunk_comes_in_blocks_of_whole_lines_and_bounded_size() -> None:
    framer = LineFramer()
    framer.feed(b"he")
    stream = b"ld\n" + b"x\n" * 100_000 + b"y" * 50_000 + b"\n" + b"z\n" * 10
    blocks = framer.blocks(stream + b"rest")
    assert len(blocks) > 10
    assert blocks[0] == b"held"
    assert all(isinstance(block, bytes) and block.endswith(b"\n") for block in blocks[1:])
    assert b"".join(bytes(block) for block in blocks[1:] if not isinstance(block, TooLong)) == stream[3:]
    assert [len(block) for block in blocks if len(block) > 17 * KIB] == [max(map(len, blocks))]
    assert framer.held == 4
