"""Server-sent events, in any chunking and within their bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.remote.events import Event, EventReader, EventTooLong


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: a\n\n", [(b"a", None)]),
        (b"\xef\xbb\xbfdata:a\r\n\r\n", [(b"a", None)]),
        (b"id: 1\rdata: a\r\r", [(b"a", "1")]),
        (b'data: {"a":\ndata: 1}\n\n', [(b'{"a": 1}', None)]),
        (b": comment\n\nretry: 5\n\nunknown\n\n", []),
        (b"id: 1\n\n", [(b"", "1")]),
        (b"id: a\0b\ndata: c\n\n", [(b"c", None)]),
        (b"data: a\n", []),
        (b"data\n\n", [(b"", None)]),
    ],
)
def test_events_are_what_the_standard_says(text: bytes, events: list[tuple[bytes, str | None]]) -> None:
    assert [(event.data, event.id) for event in EventReader(100).feed(text)] == events


PIECES = [b"data: a", b"data:", b"id: 1", b"event: x", b":", b"", b"\n", b"\r\n", b"\r"]


@given(st.lists(st.sampled_from(PIECES)), st.data())
def test_how_the_bytes_are_cut_makes_no_difference(pieces: list[bytes], data: st.DataObject) -> None:
    text = b"".join(pieces)
    reader, events = EventReader(1000), list[Event]()
    while text:
        size = data.draw(st.integers(1, len(text)))
        events += reader.feed(text[:size])
        text = text[size:]
    assert events == EventReader(1000).feed(b"".join(pieces))


@pytest.mark.parametrize("piece", [b"data: x\n", b"data\n", b"unknown\n", b"x", b"id: 1\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_that_does_not_end_takes_no_more_than_its_bound(piece: bytes, size: int) -> None:
    reader, text, read = EventReader(1000), piece * 1200, list[Event]()

    def feed() -> None:
        for start in range(0, len(text), size):
            read.extend(reader.feed(text[start : start + size]))

    with pytest.raises(EventTooLong):
        feed()
    assert not read


def test_comments_may_come_without_end() -> None:
    reader = EventReader(100)
    for _ in range(1000):
        assert reader.feed(b": alive\n") == []
    assert reader.feed(b"data: a\n\n") == [Event(b"a", None, b"")]
