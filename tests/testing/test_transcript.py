"""The wire as text, and recordings read back."""

from pathlib import Path

import pytest

from acp_server.agent.record import Recorder
from acp_server.errors import UsageError
from acp_server.testing import Entry, Transcript, read_recording


def test_each_line_shows_its_direction_its_id_and_what_it_is() -> None:
    entries = [
        Entry(100.0, "in", {"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"a": "é"}}),
        Entry(100.5, "out", {"jsonrpc": "2.0", "method": "session/update"}),
        Entry(101.25, "out", {"jsonrpc": "2.0", "id": "7", "error": {"code": -1}}),
        Entry(101.25, "out", {"jsonrpc": "2.0", "id": 7, "result": {}}),
        Entry(102.0, "in", [1, "\ud800"]),
        Entry(103.0, "in", raw="not json"),
        Entry(104.0, "out", skipped=99),
    ]
    assert str(Transcript(entries)).splitlines() == [
        '   0.000 -> 7 session/prompt {"a":"é"}',
        "   0.500 <- session/update",
        '   1.250 <- "7" error {"code":-1}',
        "   1.250 <- 7 result {}",
        '   2.000 -> [1,"\\ud800"]',
        "   3.000 -> not JSON: 'not json'",
        "   4.000 <- a line of more than 99 bytes",
    ]
    assert max(map(len, Transcript(entries).lines(width=20))) == 20
    assert str(Transcript()) == "(nothing was sent or received)"


def test_lines_are_added_as_they_pass() -> None:
    transcript = Transcript()
    assert transcript.add("in", b'{"id": 1}') == {"id": 1}
    assert transcript.add("out", b"\xff{") is None
    assert [(entry.dir, entry.msg, entry.raw) for entry in transcript.entries] == [
        ("in", {"id": 1}, None),
        ("out", None, "\udcff{"),
    ]


def test_what_the_recorder_writes_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "talk.ndjson"
    recorder = Recorder(path)
    recorder.add("in", b'{"id": 1, "method": "x"}\n{"half')
    recorder.add("out", b'{"id": 1, "result": 2.50}\n')
    recorder.add("in", b'": \xff}\n')
    recorder.close()
    transcript = read_recording(path)
    assert [(entry.dir, entry.msg, entry.raw) for entry in transcript.entries] == [
        ("in", {"id": 1, "method": "x"}, None),
        ("out", {"id": 1, "result": 2.5}, None),
        ("in", None, '{"half": \udcff}'),
    ]
    times = [entry.t for entry in transcript.entries]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "line",
    ["{\n{}", "[]", '{"t": 1, "dir": "up", "msg": 1}', '{"t": "1", "dir": "in", "msg": 1}', '{"t": 1, "dir": "in"}'],
)
def test_what_is_no_recording_is_refused_with_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "talk.ndjson"
    path.write_text('{"t": 1, "dir": "in", "msg": null}\n\n' + line)
    with pytest.raises(UsageError, match="line 3"):
        read_recording(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_recording(tmp_path / "nothing")


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_a_last_line_that_was_cut_off_is_left_out_and_numbered(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "talk.ndjson"
    entry = '{"t": 1, "dir": "in", "msg": "\N{SNOWMAN}"}'.encode()
    for length in range(1, len(entry)):
        path.write_bytes(b"%s\n\n%s%s" % (entry, entry[:length], end))
        transcript = read_recording(path)
        assert (len(transcript.entries), transcript.left_out) == (1, 3)
    path.write_bytes(entry + b"\n" + bytes(9) + end)
    assert read_recording(path).left_out == 2
    path.write_bytes(entry)
    transcript = read_recording(path)
    assert (len(transcript.entries), transcript.left_out) == (1, None)
