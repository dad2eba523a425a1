"""Recordings of a conversation."""

import json
import logging
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.agent import record as module
from acp_server.agent.record import RecordedStream, Recorder
from acp_server.errors import UsageError
from acp_server.testing import read_recording
from acp_server.testing.streams import memory_pair
from tests.agent.processes.driver import plain


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_bytes().splitlines()]


def contents(path: Path) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for entry in entries(path):
        assert set(entry) - {"msg", "raw", "skipped"} == {"t", "dir"}
        (content,) = (value for key, value in entry.items() if key not in ("t", "dir"))
        found.append((entry["dir"], content))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conversation.ndjson"


def test_both_directions_are_recorded_line_by_line_with_their_times(file: Path) -> None:
    before = time.time()
    recorder = Recorder(file)
    recorder.add("in", b'{"id":1}\n{"id":2}\n')
    recorder.add("out", b'{"result":1}\n')
    # Each is on the disk at once, for whoever watches, or in case the process is killed.
    assert contents(file) == [("in", {"id": 1}), ("in", {"id": 2}), ("out", {"result": 1})]
    recorder.close()
    recorder.close()
    assert all(before - 0.001 <= entry["t"] <= time.time() + 0.001 for entry in entries(file))
    assert b'"t":' in file.read_bytes()
    assert len(file.read_bytes().split(b".")[1].split(b",")[0]) == 6  # microseconds


def test_a_recording_of_a_bounded_size_goes_on_in_a_new_file_and_keeps_some_older_ones(file: Path) -> None:
    recorder = Recorder(file, most=150, keep=2)
    for id in range(10):
        recorder.add("in", b'{"id":%d,"x":"%b"}\n' % (id, b"x" * 40))
    recorder.close()
    kept = [Path(f"{file}.2"), Path(f"{file}.1"), file]
    ids = [content["id"] for path in kept for _, content in contents(path)]
    assert ids == list(range(10))[-len(ids) :]
    assert all(path.stat().st_size <= 150 for path in kept)
    assert [path.name for path in sorted(file.parent.iterdir())] == [file.name, f"{file.name}.1", f"{file.name}.2"]
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_a_bounded_recording_continues_a_file_and_keeps_an_entry_that_is_too_large(file: Path) -> None:
    for keep in (1, 0):
        recorder = Recorder(file, most=60, keep=keep)
        recorder.add("out", b'{"id":1}\n')
        recorder.add("out", b'{"text":"%b"}\n' % (b"x" * 100))
        recorder.close()
        assert contents(file) == [("out", {"text": "x" * 100})]
        assert Path(f"{file}.1").exists()
    assert contents(Path(f"{file}.1")) == [("out", {"id": 1})]


def test_a_bounded_recording_that_cannot_be_turned_over_ends_and_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(file, most=10, keep=1)
    recorder.add("out", b'{"id":1}\n')

    def refused(*_: Any) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refused)
    recorder.add("out", b'{"id":2}\n')
    recorder.add("out", b'{"id":3}\n')
    recorder.close()
    assert contents(file) == [("out", {"id": 1})]
    assert [record.getMessage() for record in caplog.records] == [f"recording to {file} ends: Permission denied"]


def test_torn_lines_are_put_together_in_each_direction_for_itself(file: Path) -> None:
    recorder = Recorder(file)
    recorder.add("in", b'{"a"')
    recorder.add("out", b"[1,")
    recorder.add("in", b":1}\n\n  \r\n{")
    recorder.add("out", b"2]\n")
    assert contents(file) == [("in", {"a": 1}), ("out", [1, 2])]
    recorder.add("in", b'"last":1}')
    recorder.close()
    assert contents(file)[2:] == [("in", {"last": 1})]


@pytest.mark.parametrize("line", [b"not JSON", b"\xff\xfe\x00", b'{"a":NaN}', b'"torn', b"caf\xc3\xa9 \xc3"])
def test_what_is_no_json_is_kept_without_loss(file: Path, line: bytes) -> None:
    recorder = Recorder(file)
    recorder.add("in", line + b"\n")
    recorder.close()
    (entry,) = entries(file)
    assert entry["raw"].encode("utf-8", "surrogateescape") == line
    (read,) = read_recording(file).entries
    assert read.raw == entry["raw"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"big":12345678901234567890123,"a":1,"a":2}',
        b'{"half":"\\ud83d","sep":"\xe2\x80\xa8","nul":"\\u0000"}',
        b'{"float":1.10,"exp":1E5}',
    ],
)
def test_a_message_is_recorded_as_it_was_written(file: Path, line: bytes) -> None:
    recorder = Recorder(file)
    recorder.add("out", line + b"\n")
    recorder.close()
    assert file.read_bytes().endswith(b'"msg":' + line + b"}\n")


def test_a_byte_order_mark_and_carriage_returns_do_not_break_the_lines_of_the_file(file: Path) -> None:
    recorder = Recorder(file)
    recorder.add("in", b'\xef\xbb\xbf{"a":\r1}\r\n')
    recorder.close()
    assert contents(file) == [("in", {"a": 1})]


def test_a_line_beyond_the_limit_is_only_mentioned(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 100)
    recorder = Recorder(file)
    recorder.add("in", b'"' + b"x" * 200 + b'"\n[]\n')
    recorder.close()
    assert contents(file) == [("in", 100), ("in", [])]
    assert entries(file)[0]["skipped"] == 100


def test_a_new_file_is_for_its_owner_only_and_an_old_one_is_continued(file: Path) -> None:
    for _ in range(2):
        recorder = Recorder(file)
        recorder.add("in", b"[]\n")
        recorder.close()
    assert contents(file) == [("in", []), ("in", [])]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_old_file_that_others_may_read_is_said_in_the_log(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.touch()
    file.chmod(0o644)
    Recorder(file).close()
    assert caplog.messages == [f"other users may be able to read the recording {file}: its permissions are 644"]


def test_a_file_that_cannot_be_opened_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot record to .*: No such file"):
        Recorder(tmp_path / "no" / "such")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.anyio
async def test_a_failing_disk_is_logged_once_and_disturbs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    near, far = memory_pair()
    stream = RecordedStream(near, Recorder(Path("/dev/full")))
    with anyio.fail_after(5), caplog.at_level(logging.ERROR):
        for _ in range(3):
            await stream.send(b"[]\n")
            assert await far.receive() == b"[]\n"
            await far.send(b"{}\n")
            assert await stream.receive() == b"{}\n"
        await stream.aclose()
        assert await far.receive() == b""
    assert [entry.getMessage() for entry in caplog.records] == ["recording to /dev/full ends: No space left on device"]


@pytest.mark.anyio
async def test_a_recorded_stream_passes_everything_on_unchanged(file: Path) -> None:
    near, far = memory_pair()
    stream = RecordedStream(near, Recorder(file))
    with anyio.fail_after(5):
        for data in (b"\xff", b"\n{}", b"\n\n", b"x"):
            await stream.send(data)
            assert await far.receive() == data
            await far.send(data)
            assert await stream.receive() == data
        await stream.aclose()
    assert contents(file) == [(d, c) for c in ("\udcff", {}) for d in ("out", "in")] + [("in", "x"), ("out", "x")]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_records_what_it_is_asked_and_what_it_answers(backend: str, file: Path) -> None:
    with plain(backend, str(file)) as agent:
        agent.send(b"what?\n")
        assert agent.next()["error"]["code"] == -32700
        agent.call(1, "echo", a=1)
        assert agent.finish() == 0
    found = contents(file)
    assert found[0] == ("in", "what?")
    assert found[1][0] == "out"
    assert found[2:] == [
        ("in", {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": 1}}),
        ("out", {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}),
    ]


def test_a_program_that_cannot_record_says_so_and_serves_nobody(tmp_path: Path) -> None:
    with plain("asyncio", str(tmp_path / "no" / "such")) as agent:
        assert agent.rest() == []
        assert agent.exit_code() == 1
        assert agent.stderr.splitlines()[-1].startswith("acp_server.errors.UsageError: cannot record to ")


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes as POSIX has them")
@pytest.mark.parametrize("read", [False, True], ids=["nothing reads it", "it is read"])
def test_what_is_not_a_file_is_not_recorded_to(tmp_path: Path, read: bool) -> None:
    target = tmp_path / "theirs"
    target.write_text("theirs")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK) if read else None
    try:
        for name in ("link", "dangling", "pipe"):
            with pytest.raises(UsageError, match="cannot record to"):
                Recorder(tmp_path / name)
    finally:
        if reader is not None:
            os.close(reader)
    assert target.read_text() == "theirs"
    assert not (tmp_path / "new").exists()
