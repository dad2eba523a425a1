"""Requests of the peer: registered in the reader, cut at any time, answered exactly once."""

from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import InvalidParams
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.context import Call
from acp_server.peer.route import Notice, Route, Routes
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from tests.wire.live import cancel, notification, request, served

pytestmark = pytest.mark.anyio

CANCELLED = {"code": -32800, "message": "Request cancelled"}
NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


class Handlers:
    """Handlers that note what happens to them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.go = anyio.Event()

    def routes(self, **more: Route) -> Routes:
        return Routes({"wait": Route(self.wait), "never": Route(self.never), "quick": Route(self.quick), **more})

    async def wait(self, call: Call) -> Any:
        """Wait until it is told to go, or cut."""
        self.log.append(f"begin {call.id}")
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.log.append(f"cut {call.id}")
            raise
        self.log.append(f"end {call.id}")
        return call.id

    async def never(self, call: Call) -> None:
        pytest.fail(f"{call.method} ran")

    async def quick(self, call: Call) -> Any:
        self.log.append(f"quick {call.id}")
        return call.params


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
@pytest.mark.parametrize("handshake", [True, False])
async def test_a_cancel_in_the_same_chunk_as_its_request_takes_effect(handshake: bool) -> None:
    handlers = Handlers()
    async with served(handlers.routes(hello=Route(handlers.never, handshake=handshake))) as peer:
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
async def test_a_request_that_is_cut_before_it_began_can_answer_with_what_was_offered_on_admission() -> None:
    handlers = Handlers()
    route = Route(handlers.never, admit=lambda call: call.partial("nothing yet"))
    async with served(handlers.routes(admitted=route)) as peer:
        peer.send(request(1, "admitted"), cancel(1))
        assert await peer.answer(1) == "nothing yet"


@pytest.mark.behaviour("B18")
async def test_a_cancelled_handshake_can_be_tried_again() -> None:
    handlers = Handlers()
    async with served(handlers.routes(initialize=Route(handlers.wait, handshake=True))) as peer:
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


async def test_the_queue_moves_on_past_a_request_that_was_cut_before_its_first_step() -> None:
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


# cancels that mean nothing


@pytest.mark.behaviour("B7", "K3")
async def test_a_cancel_of_an_unknown_or_answered_id_means_nothing_and_is_not_remembered() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(cancel(1), cancel("1"), cancel(None))
        assert await peer.ping() == []
        for id in (1, "1", None):
            peer.send(request(id, "quick", {"n": id}))
            assert await peer.answer(id) == {"n": id}
        peer.send(cancel(1), cancel("1"), cancel(None))
        assert await peer.ping() == []


@pytest.mark.behaviour("B12", "C16")
async def test_the_ids_of_both_directions_do_not_mix() -> None:
    handlers = Handlers()

    async def ask(call: Call) -> Any:
        return await call.request_peer("question")

    async with served(handlers.routes(ask=Route(ask))) as peer:
        peer.send(request("asker", "ask"))
        id = (await peer.next())["id"]
        peer.send(request(id, "wait"))
        await peer.ping()
        peer.send(cancel(id))
        assert await peer.next() == {"jsonrpc": "2.0", "id": id, "error": CANCELLED}
        assert await peer.ping() == []
        # Our request is still waiting, and cannot be cancelled by those who did not ask it.
        peer.send(cancel(id))
        assert await peer.ping() == []
        peer.send({"jsonrpc": "2.0", "id": id, "result": "answer"})
        assert await peer.answer("asker") == "answer"


@pytest.mark.behaviour("B13", "L3")
@pytest.mark.parametrize(
    "params",
    [
        None, {}, [], [1], {"id": 1}, {"requestId": True}, {"requestId": 1.0}, {"requestId": 1.5},
        {"requestId": [1]}, {"requestId": {"id": 1}}, {"requestId": "1"}, {"requestId": None}, {"requestId": 2**70},
    ],
)  # fmt: skip
async def test_a_malformed_cancel_has_no_effect_and_no_answer(params: Any) -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(request(1, "wait"), notification("$/cancel_request", params))
        assert await peer.ping() == []
        peer.send(notification("$/cancel_request", {"requestId": 1, "_meta": 7, "more": []}))
        assert await peer.answer(1) == CANCELLED


@pytest.mark.behaviour("A15", "L1", "L2")
async def test_only_the_notification_of_the_right_name_cancels() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(request(1, "wait"), notification("$/cancelRequest", {"requestId": 1, "id": 1}))
        peer.send(request(2, "$/cancel_request", {"requestId": 1}))
        assert (await peer.answer(2))["code"] == -32601
        assert await peer.ping() == []
        handlers.go.set()
        assert await peer.answer(1) == 1


# those who want to know


@pytest.mark.behaviour("B14", "D11")
async def test_all_that_is_said_of_a_cancel_agrees_also_to_those_who_ask_late() -> None:
    seen: list[tuple[bool, Cause | None]] = []

    async def handle(call: Call) -> None:
        seen.append((call.is_cancelled, call.cause))
        try:
            await anyio.sleep_forever()
        finally:
            seen.append((call.is_cancelled, call.cause))
            call.connection.close()
            seen.append((call.is_cancelled, call.cause))

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
    assert seen == [(False, None), (True, Cause.PEER), (True, Cause.PEER)]


@pytest.mark.behaviour("B15")
async def test_a_listener_to_cancels_comes_after_their_effect_and_cannot_prevent_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = Handlers()
    routes = handlers.routes()
    calls: list[Call] = []
    seen: list[tuple[Any, bool]] = []
    routes.requests["note"] = Route(handlers.wait, admit=calls.append)

    def listen(_connection: Connection, params: Any) -> None:
        seen.append((params, calls[0].is_cancelled))
        raise ValueError("I claim this")

    routes.on_notice("$/cancel_request", Notice(listen, inline=True))
    async with served(routes) as peer:
        peer.send(request(1, "note"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
    assert seen == [({"requestId": 1}, True)]
    assert "I claim this" in caplog.text


# admission


async def test_admission_happens_in_the_order_of_arrival_before_anything_behind_is_looked_at() -> None:
    handlers = Handlers()
    routes = handlers.routes()
    routes.requests["admitted"] = Route(handlers.quick, admit=lambda call: handlers.log.append(f"admit {call.id}"))
    routes.on_notice("note", Notice(lambda _connection, _params: handlers.log.append("note"), inline=True))
    async with served(routes) as peer:
        peer.send(request(1, "admitted"), notification("note"), request(2, "admitted"))
        await peer.next()
        await peer.next()
    assert handlers.log[:3] == ["admit 1", "note", "admit 2"]
    assert sorted(handlers.log[3:]) == ["quick 1", "quick 2"]


async def test_what_admission_raises_is_the_answer_and_the_handler_does_not_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = Handlers()

    def refuse(call: Call) -> None:
        raise InvalidParams("not like this") if call.params else ValueError("secret")

    async with served(handlers.routes(admitted=Route(handlers.never, admit=refuse))) as peer:
        peer.send(request(1, "admitted", {"n": 1}), request(2, "admitted"))
        assert await peer.answer(1) == {"code": -32602, "message": "not like this"}
        assert await peer.answer(2) == {"code": -32603, "message": "Internal error"}
    assert "secret" in caplog.text


@pytest.mark.parametrize("running", [None, 1])
async def test_a_request_that_is_answered_or_cut_on_admission_never_runs(running: int | None) -> None:
    handlers = Handlers()
    routes = handlers.routes(
        answered=Route(handlers.never, admit=lambda call: call.give_up("no need")),
        cut=Route(handlers.never, admit=lambda call: _ignore(call.node.cut(Cause.TIMEOUT))),
    )
    async with served(routes, Limits(running=running, drain=0)) as peer:
        peer.send(request(0, "wait"), request(1, "answered"), request(2, "cut"))
        assert await peer.answer(1) == "no need"
        assert await peer.answer(2) == CANCELLED
        handlers.go.set()
        assert await peer.answer(0) == 0
        assert await peer.ping() == []


async def test_a_connection_that_is_closed_on_admission_answers_that_request_too() -> None:
    handlers = Handlers()
    route = Route(handlers.never, admit=lambda call: call.connection.close())
    async with served(handlers.routes(closing=route)) as peer:
        peer.send(request(1, "closing"), request(2, "closing"))
        assert await peer.answer(1) == CANCELLED
        assert await peer.answer(2) == CANCELLED


# giving up


@pytest.mark.behaviour("E4")
async def test_an_id_is_free_again_as_soon_as_its_answer_is_out() -> None:
    handlers = Handlers()
    calls: list[Call] = []
    stubborn = anyio.Event()

    async def handle(call: Call) -> str:
        calls.append(call)
        with anyio.CancelScope(shield=True):
            await stubborn.wait()
        return "too late"

    async with served(handlers.routes(stubborn=Route(handle))) as peer:
        peer.send(request(1, "stubborn"))
        await peer.ping()
        calls[0].give_up("enough")
        assert await peer.answer(1) == "enough"
        peer.raw = b""
        peer.send(request(1, "wait"))
        await peer.ping()
        # The first one ends now, and must neither answer for the second nor take its place in the table.
        stubborn.set()
        assert await peer.ping() == []
        while peer.connection.tree.size > 1:
            await anyio.lowlevel.checkpoint()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
        peer.raw = b""
        peer.send(request(1, "quick", {"n": 1}))
        assert await peer.answer(1) == {"n": 1}
    assert handlers.log == ["begin 1", "cut 1", "quick 1"]


@pytest.mark.behaviour("E5")
async def test_a_second_request_with_an_id_in_flight_is_refused_and_the_first_goes_on() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(request(1, "wait"), request(1, "never"))
        refused = await peer.answer(None)
        assert (refused["code"], refused["data"]) == (-32600, {"duplicateId": 1})
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED


async def test_giving_up_twice_or_too_late_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Call] = []

    async def handle(call: Call) -> str:
        calls.append(call)
        call.give_up("first")
        call.give_up("second")
        raise ValueError("nobody hears this, but the log")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        assert await peer.answer(1) == "first"
        await peer.ping()
        calls[0].give_up("third")
        assert await peer.ping() == []
    assert "nobody hears this" in caplog.text
    assert calls[0].node.closed


@pytest.mark.behaviour("D1")
@pytest.mark.parametrize("cause", list(Cause))
async def test_a_request_that_we_cut_ourselves_is_answered_like_any_cancelled_one(cause: Cause) -> None:
    calls: list[Call] = []

    async def handle(call: Call) -> None:
        call.partial("part")
        await anyio.sleep_forever()

    async with served(Routes({"handle": Route(handle, admit=calls.append)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        calls[0].node.cut(cause)
        # What is there so far is the answer only to those who asked for the cancel.
        assert await peer.answer(1) == ("part" if cause.asked_for else CANCELLED)


async def test_a_handler_can_cancel_its_own_request_through_the_peer() -> None:
    async def handle(call: Call) -> str:
        call.notify_peer("cancel me", {"requestId": call.id})
        await anyio.sleep_forever()
        return "never"

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        peer.send(notification("$/cancel_request", (await peer.next())["params"]))
        assert await peer.answer(1) == CANCELLED


async def test_callbacks_come_behind_the_answer_and_when_the_handler_has_left() -> None:
    log: list[str] = []

    async def handle(call: Call) -> str:
        call.after_answer(lambda: (call.notify_peer("behind"), log.append("after"))[1])
        call.after_answer(lambda: log.append("after too"))
        call.on_left(lambda: log.append("left"))
        call.on_left(lambda: log.append("left too"))
        call.give_up("early")
        await anyio.lowlevel.checkpoint()
        log.append("handler")
        return "late"

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        assert await peer.answer(1) == "early"
        assert await peer.next() == notification("behind")
        await peer.ping()
    assert log == ["after", "after too", "handler", "left", "left too"]


@pytest.mark.behaviour("H5", "H6")
async def test_in_a_batch_a_cancelled_member_has_its_place_in_the_answer() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send([request(1, "quick", {"n": 1}), request(2, "wait"), request(3, "never"), cancel(3)])
        await peer.ping()
        peer.send(cancel(2))
        answers = await peer.next()
        assert [a.get("result", a.get("error")) for a in answers] == [{"n": 1}, CANCELLED, CANCELLED]


def _ignore(_value: object) -> None:
    """For a callback that must return nothing."""
