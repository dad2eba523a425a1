"""Which answer a request gets: decided by the recorded cause, not by the type of an exception."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed, InvalidParams, RequestCancelled, RpcError
from acp_server.peer.connection import Connection
from acp_server.peer.context import Call
from acp_server.peer.outcome import program_end
from acp_server.peer.route import Route, Routes
from acp_server.tasks.cause import Cause
from acp_server.testing.memory import memory_pair
from tests.wire.live import Peer, cancel, request, served

pytestmark = pytest.mark.anyio

CANCELLED = {"code": -32800, "message": "Request cancelled"}
INTERNAL = {"code": -32603, "message": "Internal error"}


async def _leaked() -> BaseException:
    """A cancellation that has left its own scope."""
    kept: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except BaseException as error:
            kept.append(error)
            raise
    return kept[0]


async def _answer(handler: Callable[[Call], Awaitable[Any]], peer_cancels: bool = False) -> Any:
    """What the peer gets for one request; the next one works."""
    async with served(Routes({"handle": Route(handler)})) as peer:
        peer.send(request(1, "handle"))
        if peer_cancels:
            await peer.ping()
            peer.send(cancel(1))
        answer = await peer.answer(1)
        assert await peer.ping() == []
    return answer


def _raiser(*errors: BaseException, when_cut: bool = False) -> Callable[[Call], Awaitable[Any]]:
    """A handler that raises one error, or a group of several; at once, or instead of giving in to its cut."""
    error = errors[0] if len(errors) == 1 else BaseExceptionGroup("several", errors)

    async def handle(_call: Call) -> None:
        try:
            if when_cut:
                await anyio.sleep_forever()
        finally:
            raise error

    return handle


def _logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == level]


# nobody cancelled it


@pytest.mark.behaviour("L8")
async def test_an_error_for_the_peer_is_the_answer_and_any_other_only_goes_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = RpcError("try later", code=-32001, data={"seconds": 3})
    assert await _answer(_raiser(error)) == {"code": -32001, "message": "try later", "data": {"seconds": 3}}
    assert _logged(caplog, logging.ERROR) == []
    assert await _answer(_raiser(ValueError("secret"))) == INTERNAL
    assert _logged(caplog, logging.ERROR) == ["handle failed"]
    assert "secret" in caplog.text


@pytest.mark.behaviour("D4", "A1")
async def test_a_stray_cancellation_answers_its_request_alone(caplog: pytest.LogCaptureFixture) -> None:
    stray = await _leaked()

    async def leak(_call: Call) -> None:
        raise stray

    go = anyio.Event()

    async def sibling(_call: Call) -> str:
        await go.wait()
        return "unharmed"

    async with served(Routes({"leak": Route(leak), "sibling": Route(sibling)})) as peer:
        peer.send(request(2, "sibling"))
        await peer.ping()
        peer.send(request(1, "leak"))
        assert await peer.answer(1) == CANCELLED
        assert await peer.ping() == []
        go.set()
        assert await peer.answer(2) == "unharmed"
    assert _logged(caplog, logging.WARNING) == ["leak was cancelled from inside, though nobody asked for it"]


@pytest.mark.behaviour("D4")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_handler_that_cancels_its_task_natively_answers_its_request_alone() -> None:
    import asyncio

    async def handle(_call: Call) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        pytest.fail("it went on")

    async def awaits_a_cancelled_task(_call: Call) -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    assert await _answer(handle) == CANCELLED
    assert await _answer(awaits_a_cancelled_task) == CANCELLED


@pytest.mark.behaviour("D7")
@pytest.mark.parametrize("kind", ["anyio", "native", "raised"])
async def test_a_time_out_inside_a_handler_is_a_failure_and_not_a_cancel(
    kind: str, anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(_call: Call) -> None:
        if kind == "anyio":
            with anyio.fail_after(0):
                await anyio.sleep_forever()
        elif kind == "native" and anyio_backend_name == "asyncio":
            import asyncio

            async with asyncio.timeout(0):
                await asyncio.sleep(60)
        elif kind == "native":
            import trio

            with trio.fail_after(0):
                await trio.sleep_forever()
        raise TimeoutError

    assert await _answer(handle) == INTERNAL
    assert _logged(caplog, logging.ERROR) == ["handle failed"]


@pytest.mark.behaviour("D7")
async def test_a_time_out_that_a_handler_deals_with_does_not_show() -> None:
    async def handle(_call: Call) -> str:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        return "went on"

    assert await _answer(handle) == "went on"


@pytest.mark.behaviour("C12")
async def test_our_request_that_the_peer_cancelled_is_an_ordinary_error_to_the_handler() -> None:
    seen: list[str] = []

    async def handle(call: Call) -> str:
        try:
            await call.request_peer("question")
        except RequestCancelled as error:
            seen.append(error.message)
        await anyio.lowlevel.checkpoint()
        return "went on"

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        id = (await peer.next())["id"]
        peer.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32800, "message": "not now"}})
        assert await peer.answer(1) == "went on"
    assert seen == ["not now"]


@pytest.mark.behaviour("C14")
async def test_one_child_that_fails_answers_for_all_and_its_siblings_are_withdrawn() -> None:
    async def handle(call: Call) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(call.request_peer, "slow")
            group.start_soon(call.request_peer, "slow")
            await call.request_peer("failing")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        asked = {m["id"]: m["method"] for m in [await peer.next() for _ in range(3)]}
        (failing,) = (id for id, method in asked.items() if method == "failing")
        peer.send({"jsonrpc": "2.0", "id": failing, "error": {"code": -32001, "message": "no such thing"}})
        withdrawn = [(await peer.next())["params"]["requestId"] for _ in range(2)]
        assert sorted(withdrawn) == sorted(asked.keys() - {failing})
        assert await peer.answer(1) == {"code": -32001, "message": "no such thing"}


async def test_a_group_of_several_errors_is_a_failure_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    assert await _answer(_raiser(InvalidParams("one"), InvalidParams("two"))) == INTERNAL
    assert _logged(caplog, logging.ERROR) == ["handle failed"]


async def test_a_handler_that_ends_because_the_connection_is_lost_makes_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for errors in ([ConnectionClosed("question")], [ConnectionClosed(), ConnectionClosed()]):
        assert await _answer(_raiser(*errors)) == CANCELLED
        assert await _answer(_raiser(*errors, when_cut=True), peer_cancels=True) == CANCELLED
    assert _logged(caplog, logging.WARNING) == _logged(caplog, logging.ERROR) == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_scope_that_a_handler_left_open_is_its_own_failure() -> None:
    # On trio it is the end of the whole run, as trio says itself.
    async def handle(_call: Call) -> str:
        anyio.CancelScope().__enter__()
        return "done"

    assert await _answer(handle) == INTERNAL


async def test_a_handler_that_is_none_is_its_own_failure() -> None:
    async def generator(_call: Call) -> Any:
        yield 1

    def plain(_call: Call) -> int:
        return 1

    handlers: Any = [generator, plain]
    for handler in handlers:
        assert await _answer(handler) == INTERNAL


# cancelled


@pytest.mark.behaviour("B10")
@pytest.mark.parametrize("error", [ValueError("cleanup"), InvalidParams("cleanup"), TimeoutError("cleanup")])
async def test_a_cleanup_that_fails_is_logged_and_the_answer_is_that_of_a_cancelled_request(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert await _answer(_raiser(error, when_cut=True), peer_cancels=True) == CANCELLED
    assert _logged(caplog, logging.WARNING) == ["handle failed while it was being cancelled (peer)"]
    assert "cleanup" in caplog.text


@pytest.mark.behaviour("B10")
async def test_a_cleanup_that_fails_does_not_lose_the_partial_result() -> None:
    async def handle(call: Call) -> None:
        call.partial("part")
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    assert await _answer(handle, peer_cancels=True) == "part"


@pytest.mark.behaviour("B11")
async def test_a_cancel_that_arrives_in_a_group_is_a_cancel(caplog: pytest.LogCaptureFixture) -> None:
    stray = await _leaked()
    handler = _raiser(stray, BaseExceptionGroup("inner", [stray]), when_cut=True)
    assert await _answer(handler, peer_cancels=True) == CANCELLED
    assert _logged(caplog, logging.WARNING) == []


@pytest.mark.behaviour("B11")
async def test_a_cancel_mixed_with_failures_is_a_cancel_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("in a child")

    async def handle(_call: Call) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(child)
            group.start_soon(anyio.sleep_forever)

    assert await _answer(handle, peer_cancels=True) == CANCELLED
    assert _logged(caplog, logging.WARNING) == ["handle failed while it was being cancelled (peer)"]
    assert "in a child" in caplog.text


@pytest.mark.behaviour("C13")
async def test_a_cancelled_request_whose_child_is_cancelled_too_is_answered_once_by_its_own_rule() -> None:
    async def handle(call: Call) -> None:
        call.partial("part")
        await call.request_peer("question")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        id = (await peer.next())["id"]
        peer.send(cancel(1), {"jsonrpc": "2.0", "id": id, "error": CANCELLED})
        answer = await peer.next()
        if "method" in answer:
            answer = await peer.next()
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": "part"}
        assert await peer.ping() == []


# results that cannot be written


@pytest.mark.behaviour("A1", "A14")
@pytest.mark.parametrize("result", [object(), {1, 2}, {"deep": [object()]}])
async def test_a_result_that_json_cannot_express_is_a_failure_of_ours(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(_call: Call) -> Any:
        return result

    assert await _answer(handle) == INTERNAL
    assert len(_logged(caplog, logging.ERROR)) == 1
    assert "cannot be written as JSON" in caplog.text


@pytest.mark.behaviour("A1", "B10")
async def test_a_partial_result_that_json_cannot_express_leaves_the_request_cancelled() -> None:
    async def handle(call: Call) -> None:
        call.partial(object())
        await anyio.sleep_forever()

    assert await _answer(handle, peer_cancels=True) == CANCELLED


@pytest.mark.behaviour("A1")
async def test_a_result_whose_own_code_fails_to_write_it_is_answered_all_the_same() -> None:
    class Broken:
        def to_wire(self) -> Any:
            raise KeyError("secret")

    async def handle(_call: Call) -> Any:
        return Broken()

    async def refuse(_call: Call) -> Any:
        raise RpcError("no", code=-32001, data=Broken())

    assert await _answer(handle) == INTERNAL
    assert await _answer(refuse) == {"code": -32001, "message": "no"}


# the end of the program


@pytest.mark.behaviour("D5")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("when_cut", [False, True])
async def test_a_handler_that_ends_the_program_is_answered_like_all_others_and_then_it_ends(
    error: BaseException, wrapped: bool, when_cut: bool
) -> None:
    errors = [ValueError("x"), BaseExceptionGroup("inner", [error])] if wrapped else [error]

    async def wait(_call: Call) -> None:
        await anyio.sleep_forever()

    routes = Routes({"end": Route(_raiser(*errors, when_cut=when_cut)), "wait": Route(wait)})
    here, there = memory_pair()
    peer = Peer(Connection(here, routes), there)
    peer.send(request(2, "wait"), request(1, "end"))
    raised: list[BaseException] = []

    async def run() -> None:
        try:
            await peer.connection.run()
        except BaseException as problem:
            raised.append(problem)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        if when_cut:
            peer.send(cancel(1))
        answers = {answer["id"]: answer["error"] for answer in [await peer.next(), await peer.next()]}
    assert answers == {1: CANCELLED if when_cut else INTERNAL, 2: CANCELLED}
    assert raised == [error]


async def test_the_end_of_a_program_is_found_in_any_group() -> None:
    end = SystemExit(1)
    assert program_end(BaseExceptionGroup("a", [ValueError(), BaseExceptionGroup("b", [end])])) is end
    assert program_end(ValueError()) is None


@pytest.mark.behaviour("D5")
async def test_what_handlers_raise_never_reaches_each_other_or_the_connection() -> None:
    async def fail_in_cleanup(_call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    go = anyio.Event()

    async def sibling(_call: Call) -> str:
        await go.wait()
        return "unharmed"

    async with served(Routes({"fail": Route(fail_in_cleanup), "sibling": Route(sibling)})) as peer:
        peer.send(request(0, "sibling"), *(request(id, "fail") for id in (1, 2, 3)))
        await peer.ping()
        for id in (1, 2, 3):
            peer.send(cancel(id))
            assert await peer.answer(id) == CANCELLED
        go.set()
        assert await peer.answer(0) == "unharmed"


@pytest.mark.parametrize("cause", [cause for cause in Cause if not cause.asked_for])
@pytest.mark.behaviour("D1", "D2")
async def test_a_request_that_the_agent_gave_up_on_is_not_passed_off_as_what_was_asked_for(cause: Cause) -> None:
    async def handle(call: Call) -> None:
        call.partial({"stopReason": "cancelled"})
        call.node.cut(cause)
        await anyio.lowlevel.checkpoint()

    assert await _answer(handle) == CANCELLED
