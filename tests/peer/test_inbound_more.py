"""Requests of the peer: cancels that mean nothing, admission, giving up."""

import asyncio
import logging
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import InvalidParams
from acp_server.peer.call import Follower, LiveCall, Notice, Route, Routes
from acp_server.peer.connection import Limits
from acp_server.peer.peer import Peer
from acp_server.tasks.cause import Cause
from acp_server.wire.messages import Notification
from tests.peer.handlers import CANCELLED, Handlers, logged
from tests.wire.live import cancel, notification, request, served

pytestmark = pytest.mark.anyio

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


# cancels that mean nothing


async def test_another_notification_that_names_a_request_cancels_nothing() -> None:
    handlers = Handlers()
    async with served(handlers.routes()) as peer:
        peer.send(request(1, "wait"), notification("session/cancel", {"requestId": 1}))
        assert await peer.ping() == []
        # Nor where it is looked at ahead of its turn.
        peer.connection._hurry(Notification("session/cancel", {"requestId": 1}))
        assert await peer.ping() == []
        handlers.go.set()
        assert await peer.answer(1) == 1
    assert handlers.log == ["begin 1", "end 1"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_cancel_of_an_internal_task_is_no_failure() -> None:
    async with served(Handlers().routes()) as peer:
        peer.connection._crashed(asyncio.CancelledError())
        assert await peer.ping() == []


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

    async def ask(call: LiveCall) -> Any:
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

    async def handle(call: LiveCall) -> None:
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
    calls: list[LiveCall] = []
    seen: list[tuple[Any, bool]] = []
    routes.requests["note"] = Route(handlers.wait, register=calls.append)

    def listen(_connection: Peer, params: Any) -> None:
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
    routes.requests["registered"] = Route(
        handlers.quick, register=lambda call: handlers.log.append(f"register {call.id}")
    )
    routes.on_notice("note", Notice(lambda _connection, _params: handlers.log.append("note"), inline=True))
    async with served(routes) as peer:
        peer.send(request(1, "registered"), notification("note"), request(2, "registered"))
        await peer.next()
        await peer.next()
    assert handlers.log[:3] == ["register 1", "note", "register 2"]
    assert sorted(handlers.log[3:]) == ["quick 1", "quick 2"]


async def test_what_admission_raises_is_the_answer_and_the_handler_does_not_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = Handlers()

    def refuse(call: LiveCall) -> None:
        raise InvalidParams("not like this") if call.params else ValueError("secret")

    async with served(handlers.routes(registered=Route(handlers.never, register=refuse))) as peer:
        peer.send(request(1, "registered", {"n": 1}), request(2, "registered"))
        assert await peer.answer(1) == {"code": -32602, "message": "not like this"}
        assert await peer.answer(2) == {"code": -32603, "message": "Internal error"}
    assert "secret" in caplog.text


def _answer_at_once(call: LiveCall) -> None:
    call.partial("no need")
    call.node.cancel(Cause.USER)


@pytest.mark.parametrize("running", [None, 1])
async def test_a_request_that_is_answered_or_cut_on_admission_never_runs(running: int | None) -> None:
    handlers = Handlers()
    routes = handlers.routes(
        answered=Route(handlers.never, register=_answer_at_once),
        cut=Route(handlers.never, register=lambda call: _ignore(call.node.cancel(Cause.TIMEOUT))),
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
    route = Route(handlers.never, register=lambda call: call.connection.close())
    async with served(handlers.routes(closing=route)) as peer:
        peer.send(request(1, "closing"), request(2, "closing"))
        assert await peer.answer(1) == CANCELLED
        assert await peer.answer(2) == CANCELLED


# giving up


def _give_up(call: LiveCall, answer: str) -> None:
    call.partial(answer)
    call.node.cancel(Cause.USER)
    call.give_up()


@pytest.mark.behaviour("E4")
async def test_an_id_is_free_again_as_soon_as_its_answer_is_out() -> None:
    handlers = Handlers()
    calls: list[LiveCall] = []
    stubborn = anyio.Event()

    async def handle(call: LiveCall) -> str:
        calls.append(call)
        with anyio.CancelScope(shield=True):
            await stubborn.wait()
        return "too late"

    async with served(handlers.routes(stubborn=Route(handle))) as peer:
        peer.send(request(1, "stubborn"))
        await peer.ping()
        _give_up(calls[0], "enough")
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
    calls: list[LiveCall] = []

    async def handle(call: LiveCall) -> str:
        calls.append(call)
        _give_up(call, "first")
        _give_up(call, "second")
        raise ValueError("nobody hears this, but the log")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        assert await peer.answer(1) == "first"
        await peer.ping()
        _give_up(calls[0], "third")
        assert await peer.ping() == []
    assert logged(caplog, logging.WARNING) == [
        "the handler of handle does not end although it was cancelled; the response was sent without it",
        "handle failed while it was being cancelled (user)",
    ]
    assert "nobody hears this" in caplog.text
    assert calls[0].node.closed


async def test_what_goes_along_with_a_request_hears_once_that_it_is_answered_and_once_that_it_is_through() -> None:
    heard: list[str] = []

    class Listener(Follower):
        def __init__(self, call: LiveCall) -> None:
            self._call = call

        def partial(self) -> str:
            return "early"

        def answered(self) -> None:
            heard.append("answered")
            self._call.notify_peer("behind")

        def left(self) -> None:
            heard.append("left")

    def register(call: LiveCall) -> None:
        call.follower = Listener(call)

    async def handle(call: LiveCall) -> str:
        call.node.cancel(Cause.SHUTDOWN)
        call.give_up()
        heard.append("goes on")
        return "late"

    async with served(Routes({"handle": Route(handle, register)})) as peer:
        peer.send(request(1, "handle"))
        assert await peer.answer(1) == "early"
        assert await peer.next() == notification("behind")
        assert await peer.ping() == []
    assert heard == ["answered", "goes on", "left"]


@pytest.mark.behaviour("D1")
@pytest.mark.parametrize("cause", list(Cause))
async def test_a_request_that_we_cancelled_ourselves_is_answered_like_any_cancelled_one(cause: Cause) -> None:
    calls: list[LiveCall] = []

    async def handle(call: LiveCall) -> None:
        call.partial("part")
        await anyio.sleep_forever()

    async with served(Routes({"handle": Route(handle, register=calls.append)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        calls[0].node.cancel(cause)
        # What is there so far is the answer only to those who asked for the cancel.
        assert await peer.answer(1) == ("part" if cause.asked_for else CANCELLED)


async def test_a_handler_can_cancel_its_own_request_through_the_peer() -> None:
    async def handle(call: LiveCall) -> str:
        call.notify_peer("cancel me", {"requestId": call.id})
        await anyio.sleep_forever()
        return "never"

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        peer.send(notification("$/cancel_request", (await peer.next())["params"]))
        assert await peer.answer(1) == CANCELLED


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
