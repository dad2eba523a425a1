"""What a handler gets to know about its request."""

from typing import Any

import anyio
import pytest

from acp_server.errors import ConnectionClosed, RequestTimeout
from acp_server.peer.call import Follower, LiveCall, Notice, Route, Routes
from acp_server.peer.limits import Limits
from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import NOTHING
from tests.peer.ends import cancel, result, serving
from tests.wire.live import notification, request, served

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("params", "shown", "meta"),
    [
        (None, {}, {}),
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "_meta": {"b": 2}}, {"a": 1, "_meta": {"b": 2}}, {"b": 2}),
        ({"_meta": None}, {"_meta": None}, {}),
        ({"_meta": [1]}, {"_meta": [1]}, {}),
    ],
)
async def test_a_call_shows_its_request(params: Any, shown: Any, meta: Any) -> None:
    async def handle(call: LiveCall) -> Any:
        assert (call.method, call.is_cancelled, call.cause, call.offered) == ("handle", False, None, NOTHING)
        return {"id": call.id, "params": call.params, "meta": call.meta}

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request("seven", "handle", params))
        assert await peer.answer("seven") == {"id": "seven", "params": shown, "meta": meta}


async def test_positional_parameters_show_as_none_where_they_are_admitted() -> None:
    seen: list[Any] = []

    async def add(a: int) -> Any:
        from jsonrpcserver import Success

        return Success(a)

    route = Route(foreign=add, register=lambda call: seen.append((call.params, call.meta)))
    async with served(Routes({"add": route})) as peer:
        peer.send(request(1, "add", [1]))
        assert await peer.answer(1) == 1
    assert seen == [({}, {})]


async def test_a_call_asks_and_tells_the_peer() -> None:
    late: list[Any] = []

    async def handle(call: LiveCall) -> Any:
        call.notify_peer("told", {"n": 1})
        with pytest.raises(RequestTimeout):
            await call.request_peer("slow", timeout=0, on_late=late.append)
        return await call.request_peer("asked", {"n": 2})

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        assert await peer.next() == notification("told", {"n": 1})
        message = await peer.next()
        while message["method"] != "asked":
            message = await peer.next()
        assert message["params"] == {"n": 2}
        peer.send({"jsonrpc": "2.0", "id": message["id"], "result": "yes"})
        assert await peer.answer(1) == "yes"


async def test_what_admission_prepared_reaches_the_handler() -> None:
    class Prepared(Follower):
        words = "prepared"

    def register(call: LiveCall) -> None:
        call.follower = Prepared()

    async def handle(call: LiveCall) -> Any:
        return call.follower.words

    async with served(Routes({"handle": Route(handle, register=register)})) as peer:
        peer.send(request(1, "handle"))
        assert await peer.answer(1) == "prepared"


async def test_the_cause_of_a_lost_connection_can_be_read() -> None:
    seen: list[Cause | None] = []

    async def handle(call: LiveCall) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(call.cause)
            with pytest.raises(ConnectionClosed):
                with anyio.CancelScope(shield=True):
                    await call.request_peer("anybody?")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        peer.send_eof()
        assert (await peer.answer(1))["code"] == -32800
    assert seen == [Cause.CLOSED]


async def test_a_cancel_from_outside_of_the_handler_says_whether_it_is_the_one_that_counts() -> None:
    said: list[bool] = []
    calls: list[LiveCall] = []

    async def cut(call: LiveCall) -> None:
        calls.append(call)
        said.extend(call.cancel() for _ in range(2))

    async def through(call: LiveCall) -> None:
        calls.append(call)

    async with served(Routes({"cut": Route(cut), "through": Route(through)})) as peer:
        for id, method in enumerate(("cut", "through")):
            peer.send(request(id, method))
            await peer.answer(id)
        assert [call.cancel() for call in calls] == [False, False]
    assert said == [True, False]


class Noting(Follower):
    """Notes what it hears; the partial result is its own."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def partial(self) -> Any:
        return "so far"

    def answered(self) -> None:
        self._log.append("answered")

    def left(self) -> None:
        self._log.append("left")


@pytest.mark.parametrize("how", ["returns", "gives in", "outlasts"])
async def test_a_follower_hears_how_its_request_fares_and_its_partial_result_counts(how: str) -> None:
    log: list[str] = []
    go_on = anyio.Event()

    def register(call: LiveCall) -> None:
        call.follower = Noting(log)

    async def handle(call: LiveCall) -> Any:
        call.partial("not this")
        if how == "returns":
            return "all"
        try:
            await anyio.sleep_forever()
        finally:
            if how == "outlasts":
                with anyio.CancelScope(shield=True):
                    await go_on.wait()
            log.append("through")

    grace = 0.0 if how == "outlasts" else 3600.0
    async with serving(Routes({"handle": Route(handle, register)}), Limits(drain=0, grace=grace)) as end:
        end.send(request(1, "handle"))
        if how != "returns":
            await end.barrier()
            end.send(cancel(1))
        assert await end.next() == result(1, "all" if how == "returns" else "so far")
        go_on.set()
        await anyio.wait_all_tasks_blocked()
        assert (
            log
            == {
                "returns": ["answered", "left"],
                "gives in": ["through", "answered", "left"],
                "outlasts": ["answered", "through", "left"],
            }[how]
        )


@pytest.mark.parametrize("follows", [True, False])
async def test_a_request_that_outlasts_a_cancel_of_our_own_is_answered_as_its_follower_knows_or_not_in_part(
    follows: bool,
) -> None:
    calls: list[LiveCall] = []
    go_on = anyio.Event()

    async def outlasts(call: LiveCall) -> None:
        if follows:
            call.follower = Noting([])
        call.partial("not this")
        calls.append(call)
        with anyio.CancelScope(shield=True):
            await go_on.wait()

    async with serving(Routes({"outlasts": Route(outlasts)}), Limits(drain=0, grace=0)) as end:
        end.send(request(1, "outlasts"))
        await end.barrier()
        assert calls[0].cancel(Cause.TIMEOUT)
        answer = await end.next()
        go_on.set()
        await anyio.wait_all_tasks_blocked()
    if follows:
        assert answer == result(1, "so far")
    else:
        assert answer["error"]["code"] == -32800


async def test_several_can_listen_to_one_notification_in_the_order_of_joining() -> None:
    heard: list[str] = []
    routes = Routes()
    for name in "abc":
        routes.on_notice("note", Notice(lambda _connection, _params, name=name: heard.append(name)))
    async with served(routes) as peer:
        peer.send(notification("note"))
        await peer.ping()
    assert heard == ["a", "b", "c"]
