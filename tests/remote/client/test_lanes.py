"""The order in which messages go out as exchanges of their own, and how many of them wait."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from acp_server.remote.labels import Labelled, labelled
from acp_server.remote.lanes import Lanes
from acp_server.wire import codec

pytestmark = pytest.mark.anyio

MOST = 1000


def message(method: str, id: int | None = None, **params: Any) -> Labelled:
    value = {"jsonrpc": "2.0", "method": method, "params": params}
    return labelled(codec.encode(value if id is None else value | {"id": id}))


async def test_a_cancel_waits_for_its_own_room_and_is_then_sent() -> None:
    delivered: list[str] = []
    gate = anyio.Event()

    async def deliver(each: Labelled) -> None:
        if each.method == "_large":
            await gate.wait()
        delivered.append(each.method)

    async with anyio.create_task_group() as tasks:

        def spawn(work: Callable[..., Any], *args: Any) -> None:
            tasks.start_soon(work, *args)

        lanes = Lanes(deliver, spawn, MOST)
        lanes.put(message("_taken", 1))
        await anyio.wait_all_tasks_blocked()
        assert delivered == ["_taken"]
        lanes.put(message("_large", text="x" * 3 * MOST))

        async def cancel() -> None:
            await lanes.room(for_cancel=True)
            lanes.put_cancel(message("$/cancel_request", requestId=1))

        tasks.start_soon(cancel)
        await anyio.wait_all_tasks_blocked()
        assert delivered == ["_taken"]
        gate.set()
    assert delivered == ["_taken", "_large", "$/cancel_request"]


async def test_a_cancel_overtakes_messages_that_leave_no_room_for_others() -> None:
    delivered: list[str] = []
    gate = anyio.Event()

    async def deliver(each: Labelled) -> None:
        if each.method == "_large":
            await gate.wait()
        delivered.append(each.method)

    async with anyio.create_task_group() as tasks:

        def spawn(work: Callable[..., Any], *args: Any) -> None:
            tasks.start_soon(work, *args)

        lanes = Lanes(deliver, spawn, MOST)
        lanes.put(message("_large", text="x" * MOST))
        with anyio.move_on_after(0) as full:
            await lanes.room()
        assert full.cancelled_caught
        await lanes.room(for_cancel=True)
        lanes.put_cancel(message("$/cancel_request", requestId=1))
        await anyio.wait_all_tasks_blocked()
        assert delivered == ["$/cancel_request"]
        gate.set()
