"""On a live connection: however a handler ends, its request is answered once and everything else goes on."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from acp_server.errors import InvalidParams, RpcError
from acp_server.peer.call import Call, Notice, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.peer import Peer as OtherSide
from acp_server.tasks.cause import Cause
from acp_server.testing.streams import memory_pair
from tests.wire.live import PATIENCE, Peer, cancel, notification, request, served

pytestmark = pytest.mark.anyio

SECRET = "hunter2"


class Unwritable:
    def to_wire(self) -> Any:
        raise LookupError(SECRET)


async def stray_cancellation() -> None:
    """Let a cancellation out of the scope that it belongs to."""
    stray: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except BaseException as error:
            stray = error
            raise
    assert stray is not None
    raise stray


async def returns(_call: Call) -> Any:
    return {"a": 1}


async def returns_nothing(_call: Call) -> Any:
    return None


async def raises(_call: Call) -> Any:
    raise ValueError(f'{{"{SECRET}": 1}}')


async def raises_rpc_error(_call: Call) -> Any:
    raise RpcError("mine", code=77, data=[1])


async def raises_group(_call: Call) -> Any:
    raise ExceptionGroup(SECRET, [ValueError(SECRET), KeyError(SECRET)])


async def raises_stray_cancellation(_call: Call) -> Any:
    await stray_cancellation()


async def raises_with_stray_cancellation(_call: Call) -> Any:
    try:
        await stray_cancellation()
    except BaseException as stray:
        raise BaseExceptionGroup(SECRET, [stray, ValueError(SECRET)]) from None


async def unwritable_object(_call: Call) -> Any:
    return {"a": [object()]}


async def unwritable_to_wire(_call: Call) -> Any:
    return Unwritable()


async def unwritable_circle(_call: Call) -> Any:
    circle: list[Any] = []
    circle.append(circle)
    return circle


async def unwritable_error_data(_call: Call) -> Any:
    raise RpcError("mine", code=77, data=Unwritable())


async def unwritable_partial(call: Call) -> Any:
    call.partial(Unwritable())
    call.node.cancel(Cause.PEER)
    await anyio.sleep_forever()


async def times_out(_call: Call) -> Any:
    with anyio.fail_after(0):
        await anyio.sleep_forever()


async def is_given_up(call: Call) -> Any:
    call.node.cancel(Cause.TIMEOUT)
    await anyio.sleep_forever()


async def is_cut_but_returns(call: Call) -> Any:
    call.node.cancel(Cause.PEER)
    return "what I have"


ENDINGS: list[tuple[Callable[[Call], Awaitable[Any]], Any]] = [
    (returns, {"result": {"a": 1}}),
    (returns_nothing, {"result": None}),
    (raises, -32603),
    (raises_rpc_error, {"error": {"code": 77, "message": "mine", "data": [1]}}),
    (raises_group, -32603),
    (raises_stray_cancellation, -32800),
    (raises_with_stray_cancellation, -32603),
    (unwritable_object, -32603),
    (unwritable_to_wire, -32603),
    (unwritable_circle, -32603),
    (unwritable_error_data, {"error": {"code": 77, "message": "mine"}}),
    (unwritable_partial, -32800),
    (times_out, -32800),
    (is_given_up, -32800),
    (is_cut_but_returns, {"result": "what I have"}),
]


@pytest.mark.behaviour("A1", "A14", "D4", "D7", "L8")
@pytest.mark.parametrize(("handler", "expected"), ENDINGS, ids=lambda value: getattr(value, "__name__", ""))
async def test_whatever_way_a_handler_ends_its_request_is_answered_once(
    handler: Callable[[Call], Awaitable[Any]], expected: Any
) -> None:
    bystander = anyio.Event()

    async def waits(_call: Call) -> str:
        await bystander.wait()
        return "unharmed"

    async with served(Routes({"it": Route(handler), "waits": Route(waits)})) as peer:
        peer.send(request("bystander", "waits"), request(1, "it"))
        answer = await peer.next()
        assert answer.pop("id") == 1
        if isinstance(expected, int):
            assert answer["error"].keys() == {"code", "message"}
            assert answer["error"]["code"] == expected
        else:
            assert answer == {"jsonrpc": "2.0"} | expected
        assert await peer.ping() == []
        bystander.set()
        assert await peer.answer("bystander") == "unharmed"
    assert SECRET.encode() not in peer.raw


async def hangs(_call: Call) -> None:
    await anyio.sleep_forever()


@pytest.mark.behaviour("A1", "B1")
async def test_a_cancelled_request_is_answered_once_however_often_it_is_cancelled() -> None:
    async with served(Routes({"hangs": Route(hangs)})) as peer:
        peer.send(request(1, "hangs"))
        assert await peer.ping() == []
        peer.send(cancel(1), cancel(1))
        assert await peer.answer(1) == {"code": -32800, "message": "Request cancelled"}
        peer.send(cancel(1))
        assert await peer.ping() == []


@pytest.mark.behaviour("A1", "D3")
async def test_closing_answers_what_still_runs() -> None:
    async with served(Routes({"hangs": Route(hangs)})) as peer:
        peer.send(request(1, "hangs"), request("1", "hangs"))
        assert await peer.ping() == []
        peer.connection.close()
        answers = await peer.rest()
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] in (
        [(1, -32800), ("1", -32800)],
        [("1", -32800), (1, -32800)],
    )


@pytest.mark.behaviour("A1")
async def test_the_end_of_input_answers_what_does_not_end() -> None:
    async with served(Routes({"hangs": Route(hangs)})) as peer:
        peer.send(request(1, "hangs"))
        assert await peer.ping() == []
        peer.send_eof()
        assert (await peer.answer(1))["code"] == -32800


@pytest.mark.behaviour("A1", "G11")
async def test_a_last_request_without_its_newline_is_answered() -> None:
    async with served(limits=Limits()) as peer:
        peer.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        peer.send_eof()
        assert await peer.answer(1) == "pong"


@pytest.mark.behaviour("A1", "D6")
async def test_a_handler_that_ignores_its_cancel_is_answered_for_and_its_late_value_dropped() -> None:
    go_on = anyio.Event()

    async def stubborn(_call: Call) -> str:
        with anyio.CancelScope(shield=True):
            await go_on.wait()
        return "late"

    async with served(Routes({"stubborn": Route(stubborn)}), Limits(grace=0.01, drain=0)) as peer:
        peer.send(request(1, "stubborn"))
        assert await peer.ping() == []
        peer.send(cancel(1))
        assert (await peer.answer(1))["code"] == -32800
        go_on.set()
        assert await peer.ping() == []


@pytest.mark.behaviour("A1", "D5")
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_a_handler_that_ends_the_program_is_answered_first(kind: type[BaseException]) -> None:
    async def ends(_call: Call) -> None:
        raise kind(SECRET)

    here, there = memory_pair()
    connection = Connection(here, Routes({"ends": Route(ends), "hangs": Route(hangs)}))
    peer = Peer(connection, there)
    peer.send(request(1, "hangs"), request(2, "ends"))
    with anyio.fail_after(PATIENCE), pytest.raises(kind):
        await connection.run()
    assert sorted(answer["id"] for answer in await peer.rest()) == [1, 2]
    peer.assert_whole()
    assert SECRET.encode() not in peer.raw


# Notifications, unknown methods, parameters


@pytest.mark.behaviour("A5", "A15", "L2")
async def test_no_notification_is_answered() -> None:
    seen: list[Any] = []

    def notes(_connection: OtherSide, params: Any) -> None:
        seen.append(params)
        raise ValueError(SECRET)

    async def waits_and_fails(_connection: OtherSide, _params: Any) -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError(SECRET)

    routes = Routes({"hangs": Route(hangs)})
    routes.on_notice("sync", Notice(notes))
    routes.on_notice("inline", Notice(notes, inline=True))
    routes.on_notice("async", Notice(waits_and_fails))
    async with served(routes) as peer:
        peer.send(request(1, "hangs"))
        peer.send(
            *(notification(name, {"n": name}) for name in ("inline", "sync", "async", "unknown", "$/unknown", "ping")),
            notification("sync", 5),
            # Other spellings of a cancel, as in the language server protocol, and cancels that make no sense.
            notification("$/cancelRequest", {"id": 1}),
            notification("$/cancelRequest", {"requestId": 1}),
            notification("$/cancel_request", {"id": 1}),
            notification("$/cancel_request", {"request_id": 1}),
            notification("$/Cancel_Request", {"requestId": 1}),
            *(notification("$/cancel_request", params) for params in (None, [], [1], {}, 1, "1")),
            *(cancel(id) for id in ("1", True, 1.0, 1.5, None, [1], {"id": 1}, 2**70, 99)),
        )
        assert await peer.ping() == []
        assert seen == [{"n": "inline"}, {"n": "sync"}]
        peer.send(cancel(1))
        assert (await peer.answer(1))["code"] == -32800


@pytest.mark.behaviour("A6", "L1")
async def test_an_unknown_method_is_not_found_and_the_connection_goes_on() -> None:
    async with served(Routes({"hangs": Route(hangs)})) as peer:
        peer.send(request(1, "hangs"))
        for id, method in enumerate(("nope", "", "$/nope", "$/cancelRequest", "rpc.discover", "\ud800"), start=2):
            peer.send(request(id, method))
            told = method if method.isascii() else "\ufffd"
            assert await peer.answer(id) == {"code": -32601, "message": "Method not found", "data": {"method": told}}
        # A cancel with an id is a request like any other, and cancels nothing, be it for another or for itself.
        for id, target in (("b", 1), ("c", "c")):
            peer.send(request(id, "$/cancel_request", {"requestId": target}))
            assert (await peer.answer(id))["code"] == -32601
        assert await peer.ping() == []


@pytest.mark.behaviour("A7")
async def test_parameters_that_do_not_fit_are_refused_for_that_request_alone() -> None:
    async def typed(*, path: str) -> Any:
        raise AssertionError(path)

    async def checks(_call: Call) -> Any:
        raise InvalidParams(data={"path": "missing"})

    routes = Routes({"typed": Route(foreign=typed), "checks": Route(checks), "hangs": Route(hangs)})
    async with served(routes) as peer:
        peer.send(request("other", "hangs"))
        for id, params in enumerate((None, {}, {"nope": 1}, {"path": "x", "nope": 1}, [1, 2])):
            peer.send(request(id, "typed", params))
            assert await peer.answer(id) == {"code": -32602, "message": "Invalid params"}
        peer.send(request("checked", "checks"))
        assert await peer.answer("checked") == {
            "code": -32602,
            "message": "Invalid params",
            "data": {"path": "missing"},
        }
        assert await peer.ping() == []


@pytest.mark.behaviour("L3")
@pytest.mark.parametrize("extra", [{"reason": "x"}, {"_meta": None}, {"_meta": 5}, {"_meta": [[]], "id": 2}], ids=repr)
async def test_what_else_a_cancel_says_does_not_disturb_it(extra: dict[str, Any]) -> None:
    async with served(Routes({"hangs": Route(hangs)})) as peer:
        peer.send(request(1, "hangs"), request(2, "hangs"))
        peer.send(notification("$/cancel_request", {"requestId": 1} | extra))
        assert (await peer.answer(1))["code"] == -32800
        assert await peer.ping() == []


# Batches


@pytest.mark.behaviour("H1", "H4")
async def test_a_slow_member_holds_back_its_array_while_everything_else_is_answered() -> None:
    """Batches are accepted; the one that is refused, for its emptiness, costs one error and not the connection."""
    go_on = anyio.Event()

    async def slow(_call: Call) -> str:
        await go_on.wait()
        return "slow"

    async with served(Routes({"slow": Route(slow)})) as peer:
        peer.send([request(1, "slow"), request(2, "ping"), notification("n"), 17], [])
        refused = await peer.next()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        peer.send([request(3, "ping")])
        assert await peer.next() == [{"jsonrpc": "2.0", "id": 3, "result": "pong"}]
        assert await peer.ping() == []
        go_on.set()
        array = await peer.next()
        assert [(answer["id"], answer.get("result")) for answer in array] == [(1, "slow"), (2, "pong"), (None, None)]


@pytest.mark.behaviour("H5", "H6", "B9")
@pytest.mark.parametrize("within", [True, False], ids=["in the batch itself", "behind it"])
async def test_a_cancelled_member_fills_its_place_and_its_siblings_go_on(within: bool) -> None:
    go_on = anyio.Event()

    async def waits(_call: Call) -> str:
        await go_on.wait()
        return "done"

    async with served(Routes({"hangs": Route(hangs), "waits": Route(waits)})) as peer:
        batch = [request(1, "waits"), request(2, "hangs")]
        peer.send([*batch, cancel(2)]) if within else peer.send(batch, cancel(2))
        assert await peer.ping() == []
        go_on.set()
        array = await peer.next()
        assert array[0] == {"jsonrpc": "2.0", "id": 1, "result": "done"}
        assert (array[1]["id"], array[1]["error"]["code"]) == (2, -32800)


@pytest.mark.behaviour("H7")
async def test_a_member_that_never_answers_does_not_strand_the_others() -> None:
    go_on = anyio.Event()

    async def stubborn(_call: Call) -> str:
        with anyio.CancelScope(shield=True):
            await go_on.wait()
        return "late"

    routes = Routes({"stubborn": Route(stubborn), "stray": Route(raises_stray_cancellation)})
    async with served(routes, Limits(grace=0.01, drain=0)) as peer:
        peer.send([request(1, "stubborn"), request(2, "stray"), request(3, "ping")])
        assert await peer.ping() == []
        peer.send(cancel(1))
        array = await peer.next()
        assert [(a["id"], a.get("error", {}).get("code")) for a in array] == [(1, -32800), (2, -32800), (3, None)]
        go_on.set()
        assert await peer.ping() == []
