"""Ten thousand requests and cancels leave tables, tasks, file descriptors and memory where they began."""

import gc
import json.decoder
import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from tests.cancel.stepper import tasks
from tests.peer.handlers import CANCELLED
from tests.wire.live import Peer, cancel, request, served

pytestmark = pytest.mark.anyio

ROUNDS = 1_000
"""Of each of the five kinds, on each backend."""
LONG = 40.0
"""Seconds for all rounds, on a machine that does something else as well."""
CHUNK = 250
"""Rounds that are under way at once."""
OBJECTS = ROUNDS // 10
"""More objects at the end than after the first rounds, which the interpreter and the backend may keep for themselves. A
leak is one for each round at least."""
SLACK = 100 * ROUNDS
"""The same in bytes. Tables take nearly all of it: how large they are depends on how much of a chunk was under way at
once, and not on the number of rounds."""

Kind = Callable[[Peer, range], Any]


async def _wait(call: Call) -> None:
    await anyio.sleep_forever()


async def _ask(call: Call) -> None:
    """Has a request of its own under way when it is cancelled."""
    await call.request_peer("never answered", on_late=lambda result: None)


async def _quick(call: Call) -> int:
    return call.params["n"]


async def _answers(peer: Peer, ids: range) -> list[Any]:
    """The answers to these ids, in order."""
    got: dict[Any, Any] = {}
    while len(got) < len(ids):
        message = await peer.next()
        if "method" not in message:
            assert message["id"] not in got
            got[message["id"]] = message.get("result", message.get("error"))
    assert sorted(got) == list(ids)
    return [got[id] for id in ids]


async def before_start(peer: Peer, ids: range) -> None:
    peer.send(*(m for id in ids for m in (request(id, "wait", {"text": "x" * 100}), cancel(id))))
    assert await _answers(peer, ids) == [CANCELLED] * len(ids)


async def while_running(peer: Peer, ids: range) -> None:
    peer.send(*(request(id, "ask") for id in ids), request("barrier", "quick", {"n": 0}))
    while (await peer.next()).get("id") != "barrier":
        pass
    peer.send(*(cancel(id) for id in ids))
    assert await _answers(peer, ids) == [CANCELLED] * len(ids)
    ledger = peer.connection.endpoint.ledger
    assert ledger.outgoing == 0
    # What we took back is remembered for the sake of a late answer, within bounds; here it comes.
    peer.send(*({"jsonrpc": "2.0", "id": ledger.next_id - n, "result": {}} for n in range(1, len(ids) + 1)))
    await peer.ping()
    assert ledger.withdrawn == 0


async def after_finish(peer: Peer, ids: range) -> None:
    peer.send(*(m for id in ids for m in (request(id, "quick", {"n": id}),)))
    assert await _answers(peer, ids) == list(ids)
    peer.send(*(cancel(id) for id in ids))
    assert await peer.ping() == []


async def of_unknown_ids(peer: Peer, ids: range) -> None:
    peer.send(*(cancel(id) for id in ids), *(cancel(f"{id}") for id in ids))
    assert await peer.ping() == []


@pytest.mark.behaviour("K1", "K3", "K4")
@pytest.mark.parametrize("kind", [before_start, while_running, after_finish, of_unknown_ids])
async def test_thousands_of_rounds_leave_nothing(kind: Kind, anyio_backend_name: str) -> None:
    routes = Routes({"wait": Route(_wait), "ask": Route(_ask), "quick": Route(_quick)})
    async with served(routes, patience=LONG) as peer:
        await _rounds(kind, peer, anyio_backend_name)


@pytest.mark.behaviour("K1", "B5", "I6")
async def test_thousands_of_rounds_in_the_queue_leave_nothing(anyio_backend_name: str) -> None:
    routes = Routes({"wait": Route(_wait), "quick": Route(_quick)})
    async with served(routes, Limits(running=1, drain=0), LONG) as peer:

        async def queued(peer: Peer, ids: range) -> None:
            peer.send(request("first", "wait"), *(request(id, "wait") for id in ids))
            # From both ends of the queue.
            peer.send(*(cancel(id) for id in sorted(ids, key=lambda id: min(id - ids[0], ids[-1] - id))))
            assert await _answers(peer, ids) == [CANCELLED] * len(ids)
            assert not peer.connection._inbound._queue
            peer.send(cancel("first"))
            assert await peer.answer("first") == CANCELLED

        await _rounds(queued, peer, anyio_backend_name)


async def _rounds(kind: Kind, peer: Peer, backend: str) -> None:
    """Make them, the first ones to warm up, and compare before and after."""
    connection = peer.connection
    # From before the first ones on: a table that is only replaced must count on both sides.
    tracemalloc.start()
    try:
        await kind(peer, range(CHUNK))
        await _quiet(peer)
        before = len(tasks(backend)) - connection.watchdog._running, _descriptors()
        objects, size = _memory()
        for first in range(CHUNK, ROUNDS, CHUNK):
            await kind(peer, range(first, first + CHUNK))
            await _quiet(peer)
        more_objects, more_size = _memory()
    finally:
        tracemalloc.stop()
    assert more_objects - objects < OBJECTS
    assert more_size - size < SLACK
    ledger = connection.endpoint.ledger
    assert (len(connection.endpoint.incoming), ledger.outgoing, ledger.withdrawn) == (0, 0, 0)
    assert connection.tree.size == 0
    # The watch's own task sleeps until the time of the first one that was cancelled is up.
    assert (len(tasks(backend)) - connection.watchdog._running, _descriptors()) == before
    assert connection._inbound._running == 0
    assert not connection._inbound._queue
    assert not connection.watchdog._entries


async def _quiet(peer: Peer) -> None:
    """Until every task of the last round has gone, and what was read and written is forgotten."""
    await peer.ping()
    while peer.connection.tree.size or peer.connection.work.running:
        await anyio.lowlevel.checkpoint()
    peer.raw = b""


def _memory() -> tuple[int, int]:
    """How many objects there are, but for those of the other end, which reads with the standard library; and all the
    bytes that they take."""
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, json.decoder.__file__)])
    return len(snapshot.traces), size


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
