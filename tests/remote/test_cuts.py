"""Connections that are cut at every place of a conversation: nothing is lost, nothing comes twice, each prompt is
answered once. `ALL_CUTS=1` tries each place, and `python -m tests.remote.cuts` says which ones fail."""

import os
from typing import Any

import pytest

from acp_server.errors import ConnectionClosed

from .cuts import Cut, Frames, converse, cuts_of, hosting

pytestmark = pytest.mark.anyio

IN_THE_ANSWER = Cut("down", 3, torn=True)
"""That to `session/new`, behind the answers to the upgrade and to `initialize`."""
STEP = 1 if os.environ.get("ALL_CUTS") else 5
"""Each how many-th place is tried. It has no divisor in common with the two places of a frame."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ["http", "ws"])
async def test_a_conversation_survives_a_cut_of_its_line(kind: str, version: Any) -> None:
    async with hosting() as host:
        cuts = await cuts_of(kind, host, version)
        assert {(cut.direction, cut.torn) for cut in cuts[::STEP]} == {(d, t) for d in ("up", "down") for t in (0, 1)}
        reached = 0
        for cut in cuts[::STEP]:
            reached += (await converse(kind, host, cut, version)).is_cut
        # How many messages go out together differs a little.
        assert reached > len(cuts[::STEP]) * 0.8


@pytest.mark.parametrize(
    ("limits", "said"), [({"kept": 0}, "messages are lost"), ({"grace": 0.0}, "unknown connection")]
)
async def test_a_client_is_told_where_the_server_does_not_keep_what_it_missed(limits: Any, said: str) -> None:
    async with hosting(**limits) as host:
        with pytest.raises(ConnectionClosed, match=f"messages are lost .{said}"):
            await converse("ws", host, IN_THE_ANSWER)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_proxy_knows_frames_in_any_chunking(size: int) -> None:
    frames = [
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
        b"12345",
        b"GET / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: x\r\n\r\n",
        b"\x81\x02ab",
        b"\x81\xfe\x00\x803210" + b"x" * 128,
    ]
    data, parser = b"".join(frames), Frames()
    assert [each for at in range(0, len(data), size) for each in parser.feed(data[at : at + size])] == frames
