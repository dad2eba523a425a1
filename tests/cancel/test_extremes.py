"""Cancels of very many requests that all outstay their time, and of one that is nested very deep."""

import time
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from tests.peer.ends import CANCELLED, cancel, request, result, serving

pytestmark = pytest.mark.anyio

LONG = 3600.0


class Cleaning:
    """Handlers that clean up under a shield for longer than they may."""

    def __init__(self) -> None:
        self.go_on = anyio.Event()

    async def hold(self, _call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self.go_on.wait()


async def _cost_of_the_end(number: int) -> float:
    """CPU seconds to answer so many that are overdue."""
    cleaning = Cleaning()
    async with serving(Routes({"hold": Route(cleaning.hold)}), Limits(drain=0, grace=LONG)) as end:
        end.send(*(request(id, "hold") for id in range(number)))
        await end.barrier()
        end.send(*(cancel(id) for id in range(number)))
        assert await end.barrier() == []
        before = time.process_time()
        await end.connection.watchdog.finish()
        cost = time.process_time() - before
        answers = await end.barrier()
        assert [answer["id"] for answer in answers] == list(range(number))
        assert all(answer["error"] == CANCELLED for answer in answers)
        cleaning.go_on.set()
    return cost


async def test_the_end_of_the_time_for_cleaning_up_costs_as_much_for_each_of_many() -> None:
    few = min([await _cost_of_the_end(100) for _ in range(3)])
    many = min([await _cost_of_the_end(400) for _ in range(2)])
    # Four times as many. If each had to look at all of them, it would be more than twelve times as much.
    assert many < 8 * few


async def test_all_of_many_are_answered_when_the_input_ends() -> None:
    cleaning = Cleaning()
    async with serving(Routes({"hold": Route(cleaning.hold)}), Limits(drain=0, grace=0.05)) as end:
        end.send(*(request(id, "hold") for id in range(300)))
        await end.barrier()
        end.send_eof()
        assert sorted(answer["id"] for answer in await end.rest()) == list(range(300))
        cleaning.go_on.set()
        end.connection.leaked = 0
        await end.connection.work.wait_idle()


@pytest.mark.parametrize("by", ["cancel", "end of input"])
async def test_a_request_that_is_nested_ten_thousand_deep_is_cancelled_and_its_neighbour_is_not(by: str) -> None:
    waiting, go_on = anyio.Event(), anyio.Event()

    async def deep(_call: Call) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(10_000):
                stack.enter_context(anyio.CancelScope())
            waiting.set()
            await anyio.sleep_forever()

    async def neighbour(_call: Call) -> Any:
        await go_on.wait()
        return "untouched"

    async with serving(Routes({"deep": Route(deep), "neighbour": Route(neighbour)})) as end:
        end.send(request(1, "neighbour"), request(2, "deep"))
        await waiting.wait()
        if by == "cancel":
            end.send(cancel(2))
            assert (await end.next())["error"] == CANCELLED
            go_on.set()
            assert await end.next() == result(1, "untouched")
        else:
            end.send_eof()
            assert sorted(answer["id"] for answer in await end.rest()) == [1, 2]
    assert end.raised is None
