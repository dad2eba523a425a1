"""Which answer a request gets that nobody cancelled."""

import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed, InvalidParams, RequestCancelled, RpcError, ToolFailed
from acp_server.peer.call import Call, Route, Routes
from tests.peer.handlers import CANCELLED, INTERNAL, answer_of, logged, raiser
from tests.tasks.stray import stray_cancellation
from tests.wire.live import request, served

FROM_INSIDE = {"code": -32800, "message": "The handler was cancelled by its own program, not by the peer"}

pytestmark = pytest.mark.anyio


# nobody cancelled it


@pytest.mark.behaviour("L8")
async def test_an_error_for_the_peer_is_the_answer_and_any_other_only_goes_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = RpcError("try later", code=-32001, data={"seconds": 3})
    assert await answer_of(raiser(error)) == {"code": -32001, "message": "try later", "data": {"seconds": 3}}
    assert logged(caplog, logging.ERROR) == []
    assert await answer_of(raiser(ValueError("secret"))) == INTERNAL
    assert logged(caplog, logging.ERROR) == ["handle failed"]
    assert "secret" in caplog.text


async def test_an_error_that_an_author_answers_with_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await answer_of(raiser(InvalidParams("no such book")))
    assert "the response to handle is the error of its handler: no such book (-32602)" in caplog.text
    assert "Traceback" not in caplog.text


async def test_the_words_of_a_tool_that_failed_are_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert await answer_of(raiser(ToolFailed("no such book\n"))) == {**INTERNAL, "message": "no such book"}
    assert "Traceback" not in caplog.text
    for error in (ToolFailed(), ToolFailed("\n")):
        assert await answer_of(raiser(error)) == INTERNAL
    assert logged(caplog, logging.ERROR) == ["handle failed"] * 2


@pytest.mark.behaviour("D4", "A1")
async def test_a_stray_cancellation_answers_its_request_alone(caplog: pytest.LogCaptureFixture) -> None:
    stray = await stray_cancellation()

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
        assert await peer.answer(1) == FROM_INSIDE
        assert await peer.ping() == []
        go.set()
        assert await peer.answer(2) == "unharmed"
    assert logged(caplog, logging.WARNING) == ["the handler of leak was cancelled by its own program, not by the peer"]


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

    assert await answer_of(handle) == FROM_INSIDE
    assert await answer_of(awaits_a_cancelled_task) == FROM_INSIDE


@pytest.mark.behaviour("D7")
@pytest.mark.parametrize("kind", ["anyio", "native", "raised"])
async def test_a_time_out_that_a_handler_lets_end_its_request_is_an_internal_cancellation(
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

    assert await answer_of(handle) == CANCELLED
    assert logged(caplog, logging.WARNING) == [
        "the handler of handle exceeded its own time limit, so the response is -32800"
    ]
    assert "Traceback" in caplog.text
    assert logged(caplog, logging.ERROR) == []


@pytest.mark.behaviour("D7")
async def test_a_request_of_ours_whose_time_is_up_ends_the_handlers_request_as_an_internal_cancellation(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = anyio.CancelScope()

    async def handle(call: Call) -> None:
        await call.request_peer("question", timeout=60)

    async with served(Routes({"handle": Route(handle)})) as peer:
        monkeypatch.setattr(anyio, "move_on_after", lambda _seconds: limit)
        peer.send(request(1, "handle"))
        question = await peer.next()
        monkeypatch.undo()
        limit.cancel()
        withdrawn = await peer.next()
        assert withdrawn["params"] == {"requestId": question["id"]}
        assert await peer.answer(1) == CANCELLED
    assert logged(caplog, logging.WARNING) == [
        "the handler of handle exceeded its own time limit, so the response is -32800"
    ]


@pytest.mark.behaviour("D7")
async def test_time_outs_in_groups_are_internal_cancellations_and_other_failures_beside_them_are_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await answer_of(raiser(TimeoutError(), BaseExceptionGroup("inner", [TimeoutError()]))) == CANCELLED
    assert await answer_of(raiser(TimeoutError(), ConnectionClosed())) == CANCELLED
    assert (
        logged(caplog, logging.WARNING)
        == ["the handler of handle exceeded its own time limit, so the response is -32800"] * 2
    )
    assert await answer_of(raiser(TimeoutError(), ValueError())) == INTERNAL
    assert await answer_of(raiser(TimeoutError(), InvalidParams("one"))) == INTERNAL
    assert logged(caplog, logging.ERROR) == ["handle failed"] * 2


@pytest.mark.behaviour("D7")
async def test_a_time_out_that_a_handler_deals_with_does_not_show() -> None:
    async def handle(_call: Call) -> str:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        return "went on"

    assert await answer_of(handle) == "went on"


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


@pytest.mark.behaviour("C12")
async def test_our_request_that_the_peer_cancelled_does_not_make_the_handlers_own_request_a_cancelled_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(call: Call) -> None:
        await call.request_peer("question")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        id = (await peer.next())["id"]
        peer.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32800, "message": "not now"}})
        assert await peer.answer(1) == INTERNAL
    (line,) = logged(caplog, logging.WARNING)
    assert line == "handle failed: the peer answered question with: not now (-32800)"
    # One that an author raises on purpose is what the author says.
    assert await answer_of(raiser(RequestCancelled())) == CANCELLED


@pytest.mark.behaviour("C14")
async def test_one_child_that_fails_answers_for_all_and_its_siblings_are_withdrawn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(call: Call) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(call.request_peer, "slow")
            group.start_soon(call.request_peer, "slow")
            await call.request_peer("failing")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        asked = {m["id"]: m["method"] for m in [await peer.next() for _ in range(3)]}
        (failing,) = (id for id, method in asked.items() if method == "failing")
        error = {"code": -32001, "message": "no such thing", "data": {"path": "/x", "token": "secret"}}
        peer.send({"jsonrpc": "2.0", "id": failing, "error": error})
        withdrawn = [(await peer.next())["params"]["requestId"] for _ in range(2)]
        assert sorted(withdrawn) == sorted(asked.keys() - {failing})
        # What is shown of the data is not in the message.
        assert await peer.answer(1) == error
    # Nobody has raised it on purpose, so its author is told.
    (line,) = logged(caplog, logging.WARNING)
    assert line == "handle failed: the peer answered failing with: no such thing (-32001) (path: /x)"


async def test_a_group_of_several_errors_is_a_failure_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    assert await answer_of(raiser(InvalidParams("one"), InvalidParams("two"))) == INTERNAL
    assert logged(caplog, logging.ERROR) == ["handle failed"]


async def test_a_handler_that_ends_because_the_connection_is_lost_makes_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for errors in ([ConnectionClosed("question")], [ConnectionClosed(), ConnectionClosed()]):
        assert await answer_of(raiser(*errors)) == CANCELLED
        assert await answer_of(raiser(*errors, when_cut=True), peer_cancels=True) == CANCELLED
    assert logged(caplog, logging.WARNING) == logged(caplog, logging.ERROR) == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_scope_that_a_handler_left_open_is_its_own_failure() -> None:
    # On trio it is the end of the whole run, as trio says itself.
    async def handle(_call: Call) -> str:
        anyio.CancelScope().__enter__()
        return "done"

    assert await answer_of(handle) == INTERNAL


async def test_a_handler_that_is_none_is_its_own_failure() -> None:
    async def generator(_call: Call) -> Any:
        yield 1

    def plain(_call: Call) -> int:
        return 1

    handlers: Any = [generator, plain]
    for handler in handlers:
        assert await answer_of(handler) == INTERNAL


# results that cannot be written


@pytest.mark.behaviour("A1", "A14")
@pytest.mark.parametrize("result", [object(), {1, 2}, {"deep": [object()]}])
async def test_a_result_that_json_cannot_express_is_a_failure_of_ours(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(_call: Call) -> Any:
        return result

    assert await answer_of(handle) == INTERNAL
    assert len(logged(caplog, logging.ERROR)) == 1
    assert "cannot be expressed in JSON" in caplog.text


@pytest.mark.behaviour("A1", "B10")
async def test_a_partial_result_that_json_cannot_express_leaves_the_request_cancelled() -> None:
    async def handle(call: Call) -> None:
        call.partial(object())
        await anyio.sleep_forever()

    assert await answer_of(handle, peer_cancels=True) == CANCELLED


@pytest.mark.behaviour("A1")
async def test_a_result_whose_own_code_fails_to_write_it_is_answered_all_the_same() -> None:
    class Broken:
        def to_wire(self) -> Any:
            raise KeyError("secret")

    async def handle(_call: Call) -> Any:
        return Broken()

    async def refuse(_call: Call) -> Any:
        raise RpcError("no", code=-32001, data=Broken())

    assert await answer_of(handle) == INTERNAL
    assert await answer_of(refuse) == {"code": -32001, "message": "no"}
