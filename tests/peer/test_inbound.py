"""Requests of the peer that are cancelled: running, not begun, waiting."""

from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import InvalidParams
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from acp_server.tasks.grace import grace
from tests.peer.handlers import CANCELLED, Handlers
from tests.wire.live import cancel, notification, request, served

pytestmark = pytest.mark.anyio

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


# cancels of running requests


@pytest.mark.behaviour("B1", "I10")
async def test_a_cancelled_handler_is_interrupted_and_its_request_answered_once() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(request(1, "wait"))
        assert await peer.ping() == []
        peer.send(cancel(1))
        assert await peer.ping() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert handlers.log == ["begin 1", "cut 1"]


@pytest.mark.behaviour("B2")
@pytest.mark.parametrize("answer", [None, 0, {"partial": True}])
async def test_what_a_cancelled_handler_returns_is_its_answer(answer: Any) -> None:
    async def handle(_call: Call) -> Any:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return answer

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == answer


@pytest.mark.behaviour("B2")
async def test_the_last_partial_result_that_was_offered_is_the_answer_of_a_cancelled_request() -> None:
    async def handle(call: Call) -> str:
        call.partial({"done": 1})
        call.partial({"done": 2})
        await anyio.sleep_forever()
        return "all"

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == {"done": 2}


async def test_a_partial_result_is_not_the_answer_of_a_request_that_nobody_cancelled() -> None:
    async def handle(call: Call) -> str:
        call.partial({"done": 1})
        return "all"

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        assert await peer.answer(1) == "all"


@pytest.mark.behaviour("B8")
async def test_further_cancels_do_not_disturb_the_cleanup() -> None:
    go = anyio.Event()
    log: list[str] = []

    async def handle(_call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await go.wait()
                await anyio.lowlevel.checkpoint()
                log.append("clean")

    async with served(Routes({"handle": Route(handle)}), Limits()) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        for _ in range(3):
            peer.send(cancel(1), cancel(1))
            assert await peer.ping() == []
        peer.connection.close()
        peer.send(cancel(1))
        await anyio.lowlevel.checkpoint()
        go.set()
        assert await peer.answer(1) == CANCELLED
        assert log == ["clean"]


@pytest.mark.behaviour("B6", "I6")
async def test_a_cancel_does_not_queue_behind_handlers() -> None:
    handlers = Handlers()
    async with served(handlers.routes(), Limits(running=1, drain=0)) as peer:
        peer.send(request(1, "wait"), request(2, "never"))
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
        peer.send(cancel(2))
        assert (await peer.next())["id"] == 2


@pytest.mark.behaviour("B9")
async def test_the_others_go_on_when_one_is_cancelled() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(*(request(id, "wait") for id in (1, 2, 3)))
        await peer.ping()
        peer.send(cancel(2))
        assert await peer.answer(2) == CANCELLED
        assert await peer.ping() == []
        handlers.go.set()
        assert sorted([(await peer.next())["result"] for _ in range(2)]) == [1, 3]


@pytest.mark.behaviour("B17", "C11")
async def test_what_a_handler_started_is_stopped_before_its_answer() -> None:
    log: list[str] = []

    async def child(call: Call, name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await anyio.lowlevel.checkpoint()
                call.notify_peer("said", {"by": name})
                log.append(name)

    async def handle(call: Call) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(child, call, "a")
            group.start_soon(child, call, "b")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        peer.send(cancel(1))
        said = sorted([(await peer.next())["params"]["by"] for _ in range(2)])
        assert said == ["a", "b"]
        assert await peer.answer(1) == CANCELLED
        assert await peer.ping() == []
    assert sorted(log) == ["a", "b"]


@pytest.mark.behaviour("B16")
async def test_all_that_a_cancelled_handler_has_to_say_comes_before_its_answer() -> None:
    async def handle(call: Call) -> None:
        call.notify_peer("said", ["before"])
        try:
            await anyio.sleep_forever()
        finally:
            call.notify_peer("said", ["unwinding"])
            with grace():
                await anyio.lowlevel.checkpoint()
            call.notify_peer("said", ["at the end"])

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"), cancel(2))
        assert await peer.next() == notification("said", ["before"])
        peer.send(cancel(1))
        assert await peer.next() == notification("said", ["unwinding"])
        assert await peer.next() == notification("said", ["at the end"])
        assert await peer.answer(1) == CANCELLED


# cancels of requests that have not begun


@pytest.mark.behaviour("B3", "B4")
@pytest.mark.parametrize("direct", [True, False])
async def test_a_cancel_in_the_same_chunk_as_its_request_takes_effect(direct: bool) -> None:
    handlers = Handlers()
    async with served(handlers.routes(hello=Route(handlers.never, direct=direct))) as peer:
        peer.send(request(1, "hello"), cancel(1))
        assert await peer.answer(1) == CANCELLED
        assert await peer.ping() == []


@pytest.mark.behaviour("B3", "I9")
async def test_a_cancel_in_the_same_chunk_finds_the_one_request_that_it_names() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(request(1, "quick", {"n": 1}), request(2, "never"), cancel(2), request(3, "quick", {"n": 3}))
        assert await peer.answer(2) == CANCELLED
        assert sorted([(await peer.next())["result"]["n"] for _ in range(2)]) == [1, 3]


@pytest.mark.behaviour("B4")
async def test_a_request_that_is_cancelled_before_it_began_can_answer_with_what_was_offered_on_admission() -> None:
    handlers = Handlers()
    route = Route(handlers.never, register=lambda call: call.partial("nothing yet"))
    async with served(handlers.routes(registered=route)) as peer:
        peer.send(request(1, "registered"), cancel(1))
        assert await peer.answer(1) == "nothing yet"


@pytest.mark.behaviour("B18")
async def test_a_cancelled_handshake_can_be_tried_again() -> None:
    handlers = Handlers()
    async with served(handlers.routes(initialize=Route(handlers.wait, direct=True))) as peer:
        peer.send(request(1, "initialize"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
        handlers.go.set()
        peer.send(request(2, "initialize"))
        assert await peer.answer(2) == 2


# the queue


@pytest.mark.behaviour("B5")
async def test_a_queued_request_that_is_cancelled_is_answered_at_once_and_never_runs() -> None:
    handlers = Handlers()
    async with served(handlers.routes(), Limits(running=1, drain=0)) as peer:
        peer.send(request(1, "wait"), request(2, "never"), request(3, "quick", {"n": 3}), cancel(2))
        assert await peer.answer(2) == CANCELLED
        handlers.go.set()
        assert await peer.answer(1) == 1
        assert await peer.answer(3) == {"n": 3}
    assert handlers.log == ["begin 1", "end 1", "quick 3"]


async def test_no_more_requests_run_at_once_than_allowed() -> None:
    handlers = Handlers()
    async with served(handlers.routes(), Limits(running=2, drain=0)) as peer:
        peer.send(*(request(id, "wait") for id in range(1, 6)))
        await anyio.wait_all_tasks_blocked()
        assert sorted(handlers.log) == ["begin 1", "begin 2"]
        handlers.go.set()
        answers = [(await peer.next())["result"] for _ in range(5)]
        assert sorted(answers) == [1, 2, 3, 4, 5]


async def test_those_that_wait_start_in_the_order_of_arrival() -> None:
    handlers = Handlers()
    async with served(handlers.routes(), Limits(running=1, drain=0)) as peer:
        peer.send(request(0, "wait"), *(request(id, "quick", {"n": id}) for id in range(1, 6)))
        handlers.go.set()
        for id in range(6):
            assert (await peer.next())["id"] == id


async def test_the_queue_moves_on_when_a_running_request_is_cancelled_or_fails() -> None:
    handlers = Handlers()

    async def fail(_call: Call) -> None:
        raise InvalidParams("no")

    async with served(handlers.routes(fail=Route(fail)), Limits(running=1, drain=0)) as peer:
        peer.send(request(1, "wait"), request(2, "fail"), request(3, "quick", {"n": 3}), cancel(1))
        assert await peer.answer(1) == CANCELLED
        assert (await peer.answer(2))["code"] == -32602
        assert await peer.answer(3) == {"n": 3}


async def test_the_queue_moves_on_past_a_request_that_was_cancelled_before_its_first_step() -> None:
    handlers = Handlers()
    async with served(handlers.routes(), Limits(running=1, drain=0)) as peer:
        peer.send(request(1, "never"), request(2, "quick", {"n": 2}), cancel(1))
        assert await peer.answer(1) == CANCELLED
        assert await peer.answer(2) == {"n": 2}


@pytest.mark.behaviour("D3", "D12")
async def test_closing_answers_what_is_queued_at_once_and_in_order() -> None:
    handlers = Handlers()
    go = anyio.Event()

    async def slow(_call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await go.wait()

    async with served(handlers.routes(slow=Route(slow)), Limits(running=1)) as peer:
        peer.send(request(1, "slow"), *(request(id, "never") for id in (2, 3, 4)))
        await anyio.wait_all_tasks_blocked()
        peer.connection.close()
        # What still comes is refused as well, though the queue is as full as before.
        peer.send(request(5, "never"), request(6, "unknown"))
        for id in (2, 3, 4, 5):
            assert await peer.answer(id) == CANCELLED
        assert (await peer.answer(6))["code"] == -32601
        go.set()
        assert await peer.answer(1) == CANCELLED


async def test_a_queued_request_does_not_inherit_the_context_of_the_one_it_waited_for() -> None:
    async def set_name(call: Call) -> str:
        before = NAME.get()
        NAME.set(f"request {call.id}")
        await anyio.lowlevel.checkpoint()
        return before

    async with served(Routes({"name": Route(set_name)}), Limits(running=1, drain=0)) as peer:
        peer.send(*(request(id, "name") for id in (1, 2, 3)))
        for id in (1, 2, 3):
            assert await peer.answer(id) == "nobody"
