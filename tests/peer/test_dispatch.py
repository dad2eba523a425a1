"""Requests that share a task: no handler notices what ran in it before."""

import asyncio
import gc
import math
import sys
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import sniffio

from acp_server.errors import InvalidParams
from acp_server.peer import dispatch
from acp_server.peer.call import LiveCall, Route, Routes
from acp_server.peer.inbound import Inbound
from acp_server.peer.limits import Limits
from tests.peer.ends import CANCELLED, PATIENCE, End, cancel, notification, request, result, serving, until

pytestmark = pytest.mark.anyio

INTERNAL = {"code": -32603, "message": "Internal error"}

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no other task gets a turn before a request waits."""
    monkeypatch.setattr(dispatch, "_SLICE", math.inf)


class Tasks:
    """Handlers that note in which task they run."""

    def __init__(self) -> None:
        self.of: dict[Any, Any] = {}
        self.begin = anyio.Event()

    def _note(self, call: LiveCall) -> None:
        self.of[call.id] = asyncio.current_task() if sniffio.current_async_library() == "asyncio" else None

    async def quick(self, call: LiveCall) -> str:
        self._note(call)
        return "quick"

    async def slow(self, call: LiveCall) -> str:
        self._note(call)
        await self.begin.wait()
        return "slow"

    def routes(self, **more: Callable[[LiveCall], Awaitable[Any]]) -> Routes:
        handlers = {"quick": self.quick, "slow": self.slow, **more}
        return Routes({name: Route(handler) for name, handler in handlers.items()})


@ON_ASYNCIO
@pytest.mark.usefixtures("unhurried")
async def test_requests_that_never_wait_share_a_task_also_from_chunk_to_chunk() -> None:
    tasks = Tasks()
    async with serving(tasks.routes()) as end:
        for first in (0, 3):
            end.send(*(request(first + n, "quick") for n in range(3)))
            assert [(await end.next())["id"] for _ in range(3)] == [first, first + 1, first + 2]
    assert len(set(tasks.of.values())) == 1


@ON_ASYNCIO
@pytest.mark.usefixtures("unhurried")
async def test_a_request_that_waits_keeps_its_task_and_those_behind_it_get_others() -> None:
    tasks = Tasks()
    async with serving(tasks.routes()) as end:
        end.send(request(1, "quick"), request(2, "slow"), request(3, "slow"), request(4, "quick"))
        assert [(await end.next())["id"] for _ in range(2)] == [1, 4]
        assert tasks.of[1] is tasks.of[2]
        assert len({tasks.of[2], tasks.of[3], tasks.of[4]}) == 3
        tasks.begin.set()
        assert sorted([(await end.next())["id"] for _ in range(2)]) == [2, 3]


async def test_handlers_begin_in_the_order_of_arrival_whoever_waits() -> None:
    began: list[Any] = []

    async def some_wait(call: LiveCall) -> None:
        began.append(call.id)
        if call.id in range(0, 20, 3):
            await anyio.lowlevel.checkpoint()

    async with serving(Routes({"some": Route(some_wait)})) as end:
        end.send(*(request(id, "some") for id in range(20)))
        for _ in range(20):
            await end.next()
    assert began == list(range(20))


async def test_what_a_handler_sets_in_its_context_is_not_seen_by_the_next() -> None:
    name: ContextVar[str] = ContextVar("name", default="nobody")

    async def swap(call: LiveCall) -> str:
        before = name.get()
        name.set(str(call.id))
        return before

    async with serving(Routes({"swap": Route(swap)})) as end:
        end.send(*(request(id, "swap") for id in range(3)))
        assert [(await end.next())["result"] for _ in range(3)] == ["nobody"] * 3


class Unlike:
    """A value that does not like to be compared, as arrays of numbers do not."""

    __hash__ = object.__hash__

    def __eq__(self, _other: object) -> bool:
        raise ValueError("ambiguous")


async def test_what_a_handler_sets_in_its_context_need_not_be_comparable() -> None:
    name: ContextVar[object] = ContextVar("name", default=None)
    name.set(Unlike())

    async def swap(_call: LiveCall) -> bool:
        name.set(Unlike())
        return True

    async with serving(Routes({"swap": Route(swap)})) as end:
        end.send(*(request(id, "swap") for id in range(3)))
        assert [(await end.next())["result"] for _ in range(3)] == [True] * 3


async def test_a_scope_that_a_handler_leaves_open_fails_its_request_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def leave_open(_call: LiveCall) -> str:
        anyio.CancelScope(deadline=anyio.current_time() - 1).__enter__()
        return "left"

    async def wait(_call: LiveCall) -> str:
        await anyio.lowlevel.checkpoint()
        return "waited"

    async with serving(Routes({"leave": Route(leave_open), "wait": Route(wait)})) as end:
        end.send(request(1, "leave"), request(2, "wait"), request(3, "wait"))
        answers = {answer["id"]: answer for answer in [await end.next() for _ in range(3)]}
    assert answers[1]["error"] == INTERNAL
    assert (answers[2], answers[3]) == (result(2, "waited"), result(3, "waited"))
    assert "leave failed" in caplog.text


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio a scope left open is an error in itself
async def test_an_error_of_a_handler_counts_more_than_a_scope_that_it_left_open() -> None:
    async def refuse(_call: LiveCall) -> str:
        anyio.CancelScope().__enter__()
        raise InvalidParams("no such book")

    async with serving(Routes({"refuse": Route(refuse)})) as end:
        end.send(request(1, "refuse"))
        assert (await end.next())["error"] == {"code": -32602, "message": "no such book"}


async def test_a_request_that_is_cancelled_while_it_runs_leaves_the_next_one_alone() -> None:
    async def cut_itself(call: LiveCall) -> str:
        assert call.cancel()
        return "all the same"

    async def wait(_call: LiveCall) -> str:
        await anyio.lowlevel.checkpoint()
        return "waited"

    async with serving(Routes({"cut": Route(cut_itself), "wait": Route(wait)})) as end:
        end.send(request(1, "cut"), request(2, "wait"))
        assert [await end.next() for _ in range(2)] == [result(1, "all the same"), result(2, "waited")]


@ON_ASYNCIO
async def test_a_handler_that_cancels_its_own_task_natively_leaves_the_next_one_alone() -> None:
    async def cancel_task(_call: LiveCall) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "cancelled"

    async def wait(_call: LiveCall) -> str:
        await anyio.lowlevel.checkpoint()
        return "waited"

    async with serving(Routes({"cancel": Route(cancel_task), "wait": Route(wait)})) as end:
        end.send(request(1, "cancel"), request(2, "wait"))
        assert [await end.next() for _ in range(2)] == [result(1, "cancelled"), result(2, "waited")]


@ON_ASYNCIO
async def test_a_native_cancel_that_a_handler_takes_back_leaves_the_next_one_alone() -> None:
    async def cancel_task(_call: LiveCall) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        task.uncancel()
        return "not cancelled"

    async def wait(_call: LiveCall) -> str:
        await anyio.lowlevel.checkpoint()
        return "waited"

    async with serving(Routes({"cancel": Route(cancel_task), "wait": Route(wait)})) as end:
        end.send(request(1, "cancel"), request(2, "wait"))
        assert [await end.next() for _ in range(2)] == [result(1, "not cancelled"), result(2, "waited")]


async def test_an_answer_that_fails_ends_the_connection_and_holds_up_no_other_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def quick(_call: LiveCall) -> str:
        return "quick"

    finish = Inbound._finish

    def failing(inbound: Inbound, call: LiveCall, value: Any, error: BaseException | None) -> None:
        if call.id == 1:
            raise RuntimeError("a filter of the program's log")
        finish(inbound, call, value, error)

    monkeypatch.setattr(Inbound, "_finish", failing)
    end = End(Routes({"quick": Route(quick, direct=True)}), Limits(running=1, grace=0.0, drain=0.0, flush=0.1))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.run)
            end.send(*(request(id, "quick") for id in (1, 2)))
            assert (await end.next())["id"] == 2
            await end.connection.wait_closed()


@ON_ASYNCIO
async def test_requests_behind_a_task_that_has_cancelled_itself_natively_find_tasks() -> None:
    async def cancel_task(_call: LiveCall) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "cancelled"

    left: ContextVar[Any] = ContextVar("left")

    async def leave(call: LiveCall) -> str:
        # The next request needs another task.
        left.set(call.id)
        return "left"

    async with serving(Routes({"cancel": Route(cancel_task), "leave": Route(leave)})) as end:
        end.send(request(1, "cancel"))
        assert await end.next() == result(1, "cancelled")
        end.send(request(2, "leave"), request(3, "leave"), request(4, "leave"))
        assert [await end.next() for _ in range(3)] == [result(id, "left") for id in (2, 3, 4)]


@ON_ASYNCIO
@pytest.mark.parametrize("woken", [False, True])
async def test_a_native_cancel_of_the_task_that_waits_for_requests_loses_none(woken: bool) -> None:
    tasks = Tasks()
    async with serving(tasks.routes()) as end:
        end.send(request(1, "quick"))
        assert await end.next() == result(1, "quick")
        if woken:
            end.hear(request(2, "quick"))
        tasks.of[1].cancel()
        if not woken:
            await until(tasks.of[1].done)
            end.send(request(2, "quick"))
        assert await end.next() == result(2, "quick")
        end.send(request(3, "quick"))
        assert await end.next() == result(3, "quick")
    assert tasks.of[2] is not tasks.of[1]


async def test_a_cancel_reaches_just_the_request_that_waits_in_a_shared_task() -> None:
    tasks = Tasks()
    async with serving(tasks.routes(hang=_hang)) as end:
        end.send(request(1, "quick"), request(2, "hang"), request(3, "hang"), request(4, "quick"))
        assert sorted([(await end.next())["id"] for _ in range(2)]) == [1, 4]
        end.send(cancel(1), cancel(2), request(5, "quick"))
        answers = {answer["id"]: answer for answer in [await end.next() for _ in range(2)]}
        assert answers[2]["error"] == CANCELLED
        assert answers[5] == result(5, "quick")
        end.send(cancel(3))
        assert (await end.next())["error"] == CANCELLED


@ON_ASYNCIO
async def test_requests_that_never_wait_let_others_run_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_SLICE", 0.0)
    others: list[int] = []
    served = 0

    async def count(_call: LiveCall) -> None:
        nonlocal served
        served += 1

    async def other() -> None:
        while served < 20:
            others.append(served)
            await anyio.lowlevel.checkpoint()

    async with serving(Routes({"count": Route(count)})) as end, anyio.create_task_group() as group:
        await end.barrier()
        end.hear(*(request(id, "count") for id in range(20)))
        group.start_soon(other)
        for _ in range(20):
            await end.next()
    assert len(set(others)) > 10


async def test_requests_that_begin_in_the_same_round_share_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(dispatch, "perf_counter", lambda: now)
    served = 0
    together: list[int] = []

    async def large(_call: LiveCall) -> None:
        nonlocal now, served
        now += dispatch._SLICE * 0.6
        served += 1

    async def count() -> None:
        while served < 60:
            before = served
            await anyio.lowlevel.checkpoint()
            together.append(served - before)

    async with serving(Routes({"hang": Route(_hang), "large": Route(large)}), Limits(drain=0)) as end:
        # The first one has those behind it find other tasks, many at once.
        end.hear(request(0, "hang"), *(request(id, "large") for id in range(1, 61)))
        with anyio.fail_after(PATIENCE):
            await count()
    # Two rounds, where the one that counts comes first in one of them and last in the other.
    assert max(together) <= 4


@ON_ASYNCIO
async def test_the_task_that_waits_for_requests_ends_with_the_connection() -> None:
    tasks = Tasks()
    async with serving(tasks.routes()) as end:
        end.send(request(1, "quick"))
        await end.next()
        assert end.connection.work.running == 0
    with anyio.fail_after(PATIENCE):
        await until(tasks.of[1].done)


async def test_a_request_that_arrives_as_the_connection_closes_is_answered() -> None:
    tasks = Tasks()
    async with serving(tasks.routes(), Limits(grace=1, drain=0)) as end:
        end.send(request(1, "quick"))
        await end.next()
        end.connection.close()
        end.send(request(2, "quick"), notification("note"))
        answers = await end.rest()
    assert [answer["error"] for answer in answers] == [CANCELLED]


async def _hang(_call: LiveCall) -> None:
    await anyio.sleep_forever()


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="there the frames of a traceback keep each other until the collector comes"
)
@ON_ASYNCIO
async def test_a_cancelled_request_is_gone_when_it_is_answered_without_the_garbage_collector() -> None:
    class Witness:
        pass

    kept: list[weakref.ref[Any]] = []

    async def wait(_call: LiveCall) -> None:
        witness = Witness()
        kept.append(weakref.ref(witness))
        await anyio.sleep_forever()

    gc.disable()
    try:
        async with serving(Routes({"wait": Route(wait)})) as end:
            end.send(request(1, "wait"))
            await end.barrier()
            end.send(cancel(1))
            assert (await end.next())["error"] == CANCELLED
            await end.barrier()
            assert kept[0]() is None
    finally:
        gc.enable()
