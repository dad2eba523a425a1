"""The order in which messages go out as exchanges of their own, and how many of them wait."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from acp_server.remote.labels import Labelled, labelled
from acp_server.remote.lanes import Lanes
from acp_server.wire import codec

pytestmark = pytest.mark.anyio

MOST = 1000


def message(method: str, id: int | None = None, **params: Any) -> Labelled:
    value = {"jsonrpc": "2.0", "method": method, "params": params}
    return labelled(codec.encode(value if id is None else value | {"id": id}))


class World:
    """Lanes whose large messages are delivered once the gate opens. `delivered`: the methods, in order."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.delivered: list[str] = []
        self.gate = anyio.Event()

        def spawn(work: Callable[..., Any], *args: Any) -> None:
            tasks.start_soon(work, *args)

        self.lanes = Lanes(self._deliver, spawn, MOST)

    async def _deliver(self, each: Labelled) -> None:
        if each.method == "_large":
            await self.gate.wait()
        self.delivered.append(each.method)

    async def cancel(self) -> None:
        await self.lanes.room(for_cancel=True)
        self.lanes.put_cancel(message("$/cancel_request", requestId=1))


async def test_a_cancel_waits_for_its_own_room_and_is_then_sent() -> None:
    async with anyio.create_task_group() as tasks:
        world = World(tasks)
        world.lanes.put(message("_taken", 1))
        await anyio.wait_all_tasks_blocked()
        assert world.delivered == ["_taken"]
        world.lanes.put(message("_large", text="x" * 3 * MOST))
        tasks.start_soon(world.cancel)
        await anyio.wait_all_tasks_blocked()
        assert world.delivered == ["_taken"]
        world.gate.set()
    assert world.delivered == ["_taken", "_large", "$/cancel_request"]


async def test_a_cancel_overtakes_messages_that_leave_no_room_for_others() -> None:
    async with anyio.create_task_group() as tasks:
        world = World(tasks)
        world.lanes.put(message("_large", text="x" * MOST))
        with anyio.move_on_after(0) as full:
            await world.lanes.room()
        assert full.cancelled_caught
        await world.cancel()
        await anyio.wait_all_tasks_blocked()
        assert world.delivered == ["$/cancel_request"]
        world.gate.set()
