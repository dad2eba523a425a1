"""What comes after what on a live connection, and who waits for whom when one side is slow."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed
from acp_server.peer import reader as reader_module
from acp_server.peer.call import Call, Notice, Route, Routes
from acp_server.peer.connection import Limits
from acp_server.peer.peer import Peer
from acp_server.peer.writer import HIGH_WATER
from tests.peer.ends import CANCELLED, Answers, End, cancel, hang, listen, notification, request, result, serving, until

pytestmark = pytest.mark.anyio


# Notifications and answers


@pytest.mark.behaviour("I2")
@pytest.mark.parametrize("chunks", [1, 6])
async def test_notifications_are_handled_one_after_another_in_the_order_of_arrival(chunks: int) -> None:
    log: list[str] = []

    async def slow(params: Any) -> None:
        log.append(f"{params} begins")
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        log.append(f"{params} ends")

    routes = Routes()
    listen(routes, "slow", slow)
    listen(routes, "quick", lambda params: log.append(params))
    async with serving(routes) as end:
        messages = [notification(method, [name]) for method, name in zip(["slow", "quick"] * 3, "abcdef", strict=True)]
        if chunks == 1:
            end.send(*messages)
        else:
            for message in messages:
                end.send(message)
        await until(lambda: len(log) == 9)
    a, b, c, d, e, f = ([name] for name in "abcdef")
    assert log == [
        *(f"{a} begins", f"{a} ends", b, f"{c} begins", f"{c} ends", d, f"{e} begins", f"{e} ends", f),
    ]


@pytest.mark.behaviour("I3")
async def test_whoever_waits_for_an_answer_goes_on_behind_the_notifications_before_it() -> None:
    log: list[Any] = []
    gate = anyio.Event()

    async def slow(params: Any) -> None:
        await gate.wait()
        log.append(params)

    routes = Routes()
    listen(routes, "slow", slow)
    listen(routes, "quick", log.append)
    async with serving(routes) as end, anyio.create_task_group() as group:

        async def ask() -> None:
            log.append(await end.connection.request("ask"))

        group.start_soon(ask)
        await end.next()
        end.send(notification("slow", [1]), notification("quick", [2]), result(0, "answer"), notification("quick", [3]))
        assert await end.barrier() == []
        assert log == []
        gate.set()
        await until(lambda: len(log) == 4)
    # The one who waited is woken in its turn, and runs when its task does.
    assert log.index("answer") > log.index([2])
    assert [entry for entry in log if entry != "answer"] == [[1], [2], [3]]


@pytest.mark.behaviour("I4", "I5")
@pytest.mark.parametrize("how", ["itself", "in a task", "in the background", "queued"])
async def test_a_notification_handler_may_wait_for_an_answer(how: str) -> None:
    got: list[Any] = []
    routes = Routes()

    async with serving(routes) as end:

        async def asks(_params: Any) -> None:
            if how == "in a task":
                async with anyio.create_task_group() as group:
                    group.start_soon(ask)
            elif how == "in the background":
                end.connection.background(ask)
                await until(lambda: got)
            else:
                await ask()

        async def ask() -> None:
            got.append(await end.connection.request("ask"))

        async def yields(_params: Any) -> None:
            await anyio.lowlevel.checkpoint()

        listen(routes, "asks", asks)
        listen(routes, "yields", yields)
        end.send(*([notification("yields")] if how == "queued" else []), notification("asks"))
        await end.next()
        end.send(result(0, "answer"))
        await until(lambda: got)
    assert got == ["answer"]


@pytest.mark.behaviour("I4")
async def test_a_connection_that_a_notification_started_keeps_its_own_order() -> None:
    log: list[Any] = []
    routes = Routes()

    async def slow(params: Any) -> None:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        log.append(params)

    async def work(call: Call) -> None:
        log.append(await call.request_peer("ask"))

    listen(routes, "slow", slow)
    routes.requests["work"] = Route(work)

    async def start(_params: Any) -> None:
        async with serving(routes) as inner:
            inner.send(request(1, "work"))
            await inner.next()
            inner.send(notification("slow", ["before"]), result(0, "answer"))
            assert (await inner.next())["id"] == 1
        log.append("over")

    outer = Routes()
    listen(outer, "start", start)
    async with serving(outer) as end:
        end.send(notification("start"))
        await until(lambda: "over" in log)
    assert log == [["before"], "answer", "over"]


@pytest.mark.behaviour("I4")
async def test_a_notification_handler_that_has_served_a_connection_may_still_wait_for_an_answer() -> None:
    got: list[Any] = []
    routes = Routes()
    async with serving(routes) as end:

        async def serve_and_ask(_params: Any) -> None:
            inner = End(Routes(), None)
            inner.send_eof()
            await inner.connection.run()
            got.append(await end.connection.request("ask"))

        listen(routes, "go", serve_and_ask)
        end.send(notification("go"))
        await end.next()
        end.send(result(0, "answer"))
        await until(lambda: got)
    assert got == ["answer"]


# Cancels


@pytest.mark.behaviour("I10")
async def test_an_answer_says_that_every_cancel_before_its_request_was_applied() -> None:
    calls: list[Call] = []
    seen: list[bool] = []

    async def hangs(call: Call) -> None:
        calls.append(call)
        await anyio.sleep_forever()

    async def look(_call: Call) -> None:
        seen.append(calls[0].is_cancelled)

    async with serving(Routes({"hangs": Route(hangs), "look": Route(look)})) as end:
        end.send(request(1, "hangs"))
        await end.barrier()
        end.send(request(2, "look"), cancel(1), request(3, "look"))
        await until(lambda: len(seen) == 2)
        answers = [await end.next() for _ in range(3)]
    assert seen == [True, True]
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3]


@pytest.mark.behaviour("I10")
async def test_a_cancel_is_not_queued_behind_a_notification_that_is_being_handled() -> None:
    gate = anyio.Event()
    routes = Routes({"hang": Route(hang)})
    listen(routes, "slow", lambda _params: gate.wait())
    noticed: list[Any] = []
    listen(routes, "inline", noticed.append, inline=True)
    async with serving(routes) as end:
        end.send(notification("slow"), request(1, "hang"), notification("inline", [1]), cancel(1))
        assert await end.next() == {"jsonrpc": "2.0", "id": 1, "error": CANCELLED}
        assert noticed == [[1]]
        gate.set()


@pytest.mark.behaviour("I6")
async def test_when_no_more_requests_may_run_cancels_answers_and_notifications_are_still_heard() -> None:
    async def nested(call: Call) -> Any:
        return await call.request_peer("ask")

    heard: list[Any] = []
    routes = Routes({"nested": Route(nested), "hang": Route(hang)})
    listen(routes, "note", heard.append)
    async with serving(routes, Limits(drain=0, running=1)) as end:
        end.send(request(1, "nested"), request(2, "hang"), request(3, "nested"), request(4, "hang"))
        asked = await end.next()
        end.send(cancel(4), notification("note", [1]))
        assert await end.next() == {"jsonrpc": "2.0", "id": 4, "error": CANCELLED}
        assert heard == [[1]]
        end.send(result(asked["id"], "one"))
        assert await end.next() == result(1, "one")
        end.send(cancel(2))
        assert (await end.next())["id"] == 2
        asked = await end.next()
        end.send(result(asked["id"], "three"))
        assert await end.next() == result(3, "three")


# A peer that is slow


@pytest.mark.behaviour("G15", "K7")
async def test_a_peer_that_does_not_read_bounds_what_is_produced_for_it_and_nothing_else() -> None:
    produced = 0
    largest = 0

    async def produce(call: Call) -> None:
        nonlocal produced, largest
        while True:
            await call.connection.send_room()
            call.notify_peer("update", "x" * 1000)
            produced += 1
            largest = max(largest, call.connection.writer.size)

    async with serving(Routes({"produce": Route(produce), "hang": Route(hang)})) as end:
        end.faults.stall_sending()
        end.send(request(1, "produce"), request(2, "hang"))
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        assert 0 < produced < 2 * HIGH_WATER / 1000
        assert largest < HIGH_WATER + 1100
        # It is heard all the same, and its answers wait for nobody but it.
        end.send(request(3, "ping"), cancel(2), cancel(1), b"garbage\n")
        await until(lambda: end.connection.tree.size == 0)
        end.faults.release()
        came = [await end.next() for _ in range(produced + 4)]
        assert [message.get("id") for message in came[:produced]] == [None] * produced
        assert {message["id"] for message in came[produced:]} == {1, 2, 3, None}


@pytest.mark.behaviour("K7")
async def test_producers_go_on_when_the_peer_reads_again_and_stop_when_it_is_gone() -> None:
    states: list[str] = []

    async with serving() as end, anyio.create_task_group() as group:

        async def produce() -> None:
            for _ in range(2):
                end.connection.notify("update", "x" * 2 * HIGH_WATER)
                try:
                    await end.connection.send_room()
                    states.append("room")
                except ConnectionClosed:
                    states.append("closed")

        end.faults.stall_sending(after=3 * HIGH_WATER)
        group.start_soon(produce)
        await end.faults.stalled.wait()
        assert states == ["room"]
        end.faults.break_sending()
        await end.connection.wait_closed()
        await until(lambda: len(states) == 2)
    assert states == ["room", "closed"]


@pytest.mark.behaviour("G15", "L4")
async def test_of_a_peer_that_sends_garbage_and_reads_nothing_only_cancels_are_heard_until_it_reads() -> None:
    async with serving(Routes({"hang": Route(hang)}), Limits(unread=10_000)) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        end.faults.stall_sending()
        for _ in range(1000):
            end.send(b"garbage\n" * 10)
        end.send(cancel(1))
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        assert 10_000 < end.connection.writer.size < 12_000
        assert end.connection.tree.size == 0
        # It reads again: all is answered.
        end.faults.release()
        came = [await end.next() for _ in range(10_001)]
        assert sorted(message["error"]["code"] for message in came) == [-32800] + [-32700] * 10_000


@pytest.mark.behaviour("G8", "G15")
@pytest.mark.parametrize("way", ["gone", "closed"])
async def test_a_connection_that_does_not_read_for_now_ends_like_any_other(way: str) -> None:
    limits = Limits(drain=0, grace=0, flush=0, unread=1000)
    async with serving(limits=limits) as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        await end.next()
        end.faults.stall_sending()
        end.send(b"garbage\n" * 100)
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        if way == "gone":
            end.faults.break_sending()
        else:
            end.connection.close()
        await end.connection.wait_closed()
        await until(lambda: answers.of)
        assert isinstance(answers.of["a"], ConnectionClosed)
    assert end.raised is None


# Handlers of notifications that fail in the reader


@pytest.mark.behaviour("D4", "D5")
@pytest.mark.parametrize("inline", [True, False])
async def test_a_handler_that_fails_in_the_reader_costs_nobody_else_anything(
    inline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_connection: Peer, params: Any) -> None:
        raise ValueError("boom") if params == [0] else BaseExceptionGroup("stray", [GeneratorExit()])

    heard: list[Any] = []
    routes = Routes()
    routes.on_notice("note", Notice(fail, inline))
    listen(routes, "note", heard.append, inline=inline)
    async with serving(routes) as end:
        end.send(notification("note", [0]), notification("note", [1]))
        assert await end.barrier() == []
    assert heard == [[0], [1]]
    assert [record.getMessage() for record in caplog.records] == ["the handler of note failed"] * 2


async def test_a_cancel_at_the_end_of_much_that_comes_at_once_goes_before_all_of_it() -> None:
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "said", heard.append)
    listen(routes, "session/cancel", heard.append, inline=True)
    async with serving(routes) as end:
        # In one slice, however long that takes: the second half would begin another block.
        end.send(*(notification("said", ["x" * 100]) for _ in range(200)), notification("session/cancel", ["now"]))
        assert await end.barrier() == []
    assert heard[0] == heard[-1] == ["now"]


@pytest.mark.parametrize("other", [False, True])
async def test_cancels_that_nothing_else_is_before_are_not_applied_ahead_of_their_turn(
    other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "perf_counter", lambda: 0.0)  # one slice will do
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "session/cancel", heard.append, inline=True)
    before = [notification("note", ["x" * 1000])] if other else []
    async with serving(routes) as end:
        end.send(*before, *(notification("session/cancel", [number]) for number in range(1000)))
        assert await end.barrier() == []
    assert heard == [[number] for number in range(1000)] * (2 if other else 1)
