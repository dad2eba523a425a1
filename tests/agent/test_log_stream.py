"""The log never waits for its reader, whoever that is."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_server.agent import log as log_stream
from acp_server.agent.log import LONGEST_ENTRY, MOST_WAITING, LogStream, entry

LOST = re.compile(rb"\((\d+) log entries were lost: they could not be written\)\n")
BOUND = 20.0


class Pipe:
    """A pipe with a log at its one end."""

    def __init__(self) -> None:
        self.source, self.sink = os.pipe()
        self.log = LogStream(self.sink)

    def read(self, until: bytes) -> bytes:
        """All up to and with these bytes."""
        seen = bytearray()
        while until not in seen:
            seen += os.read(self.source, 1 << 20)
        return bytes(seen)

    def fill(self) -> int:
        """Write 1 kB at a time until entries are lost; how many were written."""
        number = 0
        while not self.log._lost:
            self.log.write(f"entry {number} {'x' * 1000}\n")
            number += 1
        return number


@contextmanager
def pipe() -> Iterator[Pipe]:
    it = Pipe()
    try:
        yield it
    finally:
        # Whatever the thread waits for, it now fails.
        os.close(it.source)
        it.log.close()
        os.close(it.sink)


def test_entries_are_written_in_order() -> None:
    with pipe() as it:
        for number in range(100):
            it.log.write(f"{number}\n")
        assert it.read(b"99\n").split() == [str(number).encode() for number in range(100)]


def test_nothing_waits_for_a_reader_and_each_entry_that_is_lost_is_counted_where_it_is_missing() -> None:
    with pipe() as it:
        for number in range(5_000):
            it.log.write(f"entry {number} {'x' * 1000}\n")
        reader = threading.Thread(target=lambda: seen.append(it.read(b"the end\n")))
        seen: list[bytes] = []
        reader.start()
        assert it.log.drain(BOUND)
        it.log.write("the end\n")
        reader.join(BOUND)
    written = counted = 0
    for line in seen[0].splitlines(keepends=True):
        if lost := LOST.search(line):
            counted += int(lost[1])
        elif line != b"the end\n":
            assert line.startswith(b"entry %d " % (written + counted))
            written += 1
    assert written + counted == 5_000
    assert MOST_WAITING < written * 1000 < MOST_WAITING + 200_000


def test_that_entries_were_lost_is_said_even_if_nothing_more_is_logged() -> None:
    with pipe() as it:
        it.fill()
        assert LOST.search(it.read(b"be written)\n"))


def test_a_drain_is_bounded() -> None:
    with pipe() as it:
        it.fill()
        assert not it.log.drain(0.01)


def test_a_descriptor_that_does_not_wait_is_waited_for() -> None:
    with pipe() as it:
        os.set_blocking(it.sink, False)
        written = it.fill() - 1
        seen = it.read(b"be written)\n")
        assert seen.count(b"entry ") == written


def test_a_full_disk_loses_entries_and_the_log_says_how_many_once_there_is_room(tmp_path: Path) -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    log = LogStream(fd)
    try:
        for number in range(3):
            log.write(f"{number}\n")
            assert log.drain(BOUND)
        with open(tmp_path / "log", "wb") as file:
            os.dup2(file.fileno(), fd)
        log.write("there is room\n")
        assert log.drain(BOUND)
    finally:
        log.close()
        os.close(fd)
    said = (tmp_path / "log").read_bytes()
    assert LOST.findall(said) == [b"3"]
    assert said.endswith(b"written)\nthere is room\n")


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_was_forked_off_writes_what_there_is_room_for_and_waits_for_nothing() -> None:
    with pipe() as it:
        it.fill()
        first = os.fork()
        if first == 0:
            for _ in range(1000):
                it.log.write("lost\n")
            os._exit(0)
        assert os.waitpid(first, 0)[1] == 0
        it.read(b"be written)\n")
        second = os.fork()
        if second == 0:
            it.log.write("from the child\n")
            os._exit(0)
        assert os.waitpid(second, 0)[1] == 0
        it.log.write("from the parent\n")
        assert it.read(b"from the parent\n") == b"from the child\nfrom the parent\n"


def test_where_no_thread_can_be_started_the_caller_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pipe() as it:
        it.log.write("one\n")
        it.log.write("two\n")
        assert it.read(b"two\n") == b"one\ntwo\n"


def test_all_streams_are_drained_together_within_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    now = iter([0.0, 0.0, 5.0, 5.0, 5.0])
    monkeypatch.setattr(log_stream.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(LogStream, "drain", lambda _, seconds: asked.append(seconds))
    with pipe(), pipe():
        monkeypatch.setattr(log_stream, "_streams", [object.__new__(LogStream), object.__new__(LogStream)])
        log_stream.drain(2.0)
        monkeypatch.undo()
    assert asked == [2.0, 0.0]


# What an entry looks like


def test_lines_of_an_entry_but_the_first_are_indented() -> None:
    assert entry("one\ntwo\r\n\nthree\n") == "one\n    two\n    \n    three\n"


@pytest.mark.parametrize(
    "character", ["\x00", "\x07", "\x08", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u2029"]
)
def test_control_characters_are_escaped(character: str) -> None:
    assert entry(f"a{character}b\n") == f"a{character.encode('unicode_escape').decode()}b\n"


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\ufeff", "\ud800", "\U000e0041"])
def test_what_turns_text_around_or_hides_it_is_escaped(character: str) -> None:
    assert entry(f"a{character}b\n") == f"a{character.encode('unicode_escape').decode()}b\n"


@pytest.mark.parametrize("text", ["ä\tb", "\N{ZERO WIDTH JOINER}", "日本", "\N{GRINNING FACE}", "שלום"])
def test_all_other_text_stays_as_it_is(text: str) -> None:
    assert entry(text) == f"{text}\n"


def test_of_a_long_entry_the_beginning_and_the_end_are_written() -> None:
    said = entry("a" * LONGEST_ENTRY + "b" * LONGEST_ENTRY)
    assert said.startswith("aaa")
    assert said.endswith("bbb\n")
    assert "\n    ... 16,000 characters omitted ...\n    " in said
    assert len(said) < LONGEST_ENTRY + 100
    assert entry("a" * LONGEST_ENTRY) == "a" * LONGEST_ENTRY + "\n"
