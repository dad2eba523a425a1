"""The peer ends its input: waiters fail, handlers are stopped within a bound, what is ready gets out."""

from functools import partial
from operator import itemgetter
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from tests.peer.ends import (
    CANCELLED,
    PATIENCE,
    Answers,
    End,
    Handlers,
    assert_over,
    cancel,
    hang,
    listen,
    notification,
    ping,
    request,
    result,
    serving,
    until,
)
from tests.storm.jumping import run

pytestmark = pytest.mark.anyio


# Our requests


@pytest.mark.behaviour("G1", "G16")
async def test_the_end_of_input_fails_all_that_waits_by_name_and_at_once() -> None:
    async with serving(limits=Limits(drain=5)) as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        for name in "abc":
            group.start_soon(answers.ask, name, f"ask/{name}")
        for _ in range(3):
            await end.next()
        end.send_eof()
        await until(lambda: len(answers.of) == 3)
        for name in "abc":
            assert isinstance(answers.of[name], ConnectionClosed)
            assert answers.of[name].method == f"ask/{name}"
            assert not answers.scopes[name].cancel_called


async def test_a_connection_is_lost_as_soon_as_its_input_has_ended_though_handlers_go_on() -> None:
    async with serving(Routes({"hang": Route(hang)}), Limits(drain=5, grace=0)) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        assert not end.connection.is_lost
        end.send_eof()
        await until(lambda: end.connection.is_lost)
        assert end.connection.tree.cause is None
        end.connection.close()


@pytest.mark.behaviour("G1", "G13")
async def test_what_the_lost_peer_was_asked_is_not_withdrawn() -> None:
    async with serving(Handlers().routes()) as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        await end.next()
        end.send(request(1, "nested"))
        await end.next()
        end.send_eof()
        assert [message.get("method") for message in await end.rest()] == [None]
        answers.cancel("a")


@pytest.mark.behaviour("G2")
async def test_after_the_end_of_input_nothing_is_asked_any_more_but_the_peer_is_still_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    async def work(call: Call) -> str:
        try:
            await call.request_peer("ask")
        except ConnectionClosed:
            told.append("lost")
        with pytest.raises(ConnectionClosed):
            await call.request_peer("ask again")
        with grace(), pytest.raises(ConnectionClosed):
            await call.request_peer("ask under a shield")
        call.notify_peer("progress")
        return "done"

    async with serving(Routes({"work": Route(work)}), Limits()) as end:
        end.send(request(1, "work"))
        await end.next()
        end.send_eof()
        assert await end.rest() == [notification("progress"), result(1, "done")]
    with pytest.raises(ConnectionClosed):
        await end.connection.request("ask")
    with pytest.raises(ConnectionClosed):
        end.connection.notify("say")
    assert told == ["lost"]
    assert not caplog.records


@pytest.mark.behaviour("G3")
async def test_a_request_that_is_not_yet_written_at_the_end_of_input_fails_too() -> None:
    async with serving(limits=Limits(flush=0)) as end, anyio.create_task_group() as group:
        end.faults.stall_sending()
        answers = Answers(end.connection)
        over: list[str] = []
        for name in ("half written", "queued"):
            group.start_soon(partial(answers.ask, name, on_over=partial(over.append, name)))
            await end.faults.stalled.wait()
        await until(lambda: end.connection.endpoint.ledger.outgoing == 2)
        end.send_eof()
        await until(lambda: len(answers.of) == 2)
        assert all(isinstance(outcome, ConnectionClosed) for outcome in answers.of.values())
        # Their callers are still there and know it from the error.
        assert over == []


@pytest.mark.behaviour("G4")
@pytest.mark.parametrize("waits_behind", ["nothing", "a notification"])
async def test_an_answer_right_before_the_end_of_input_is_delivered(waits_behind: str) -> None:
    async def slow(_params: Any) -> None:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()

    routes = Handlers().routes()
    listen(routes, "slow", slow)
    async with serving(routes, Limits()) as end:
        end.send(request(1, "nested"))
        await end.next()
        before = [notification("slow")] if waits_behind == "a notification" else []
        end.send(*before, result(0, "in time"))
        end.send_eof()
        assert await end.rest() == [result(1, "in time")]


# Handlers


@pytest.mark.behaviour("G5", "G6")
async def test_what_runs_at_the_end_of_input_may_finish_if_it_does_so_soon() -> None:
    handlers = Handlers()
    async with serving(handlers.routes(), Limits(drain=5)) as end:
        end.send(request(1, "wait"), request(2, "wait"), request(3, "ping"))
        end.send_eof()
        assert await end.next() == result(3, "pong")
        handlers.go.set()
        came = await end.rest()
        done = [message for message in came if "id" in message]
        assert sorted(done, key=lambda answer: answer["id"]) == [result(1, "done"), result(2, "done")]
        assert [message for message in came if "id" not in message] == [notification("progress")] * 2


@pytest.mark.behaviour("G5", "I2")
async def test_notifications_before_the_end_of_input_are_handled_like_requests() -> None:
    heard: list[Any] = []

    async def slow(params: Any) -> None:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        heard.append(params)

    routes = Routes()
    listen(routes, "slow", slow)
    async with serving(routes, Limits()) as end:
        end.send(notification("slow", [1]), notification("slow", [2]))
        end.send_eof()
        await end.connection.wait_closed()
    assert heard == [[1], [2]]


@pytest.mark.behaviour("G6")
async def test_what_does_not_finish_is_cancelled_cleaned_up_and_answered() -> None:
    handlers = Handlers()
    cut: list[str] = []

    async def hangs(_params: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cut.append("notification")

    routes = handlers.routes()
    listen(routes, "hangs", hangs)
    async with serving(routes, Limits(drain=0.01)) as end:
        end.send(request(1, "hang"), request(2, "nested"), notification("hangs"), notification("hangs"))
        assert (await end.next())["method"] == "ask"
        end.send_eof()
        assert sorted((m["id"], m["error"]["code"]) for m in await end.rest()) == [(1, -32800), (2, -32800)]
    assert handlers.log == ["ask", Cause.CLOSED, "clean"]
    assert cut == ["notification"]


@pytest.mark.behaviour("G6")
@pytest.mark.parametrize("where", ["request", "notification", "background", "callback"])
async def test_what_refuses_to_end_is_counted_and_left_behind(where: str, caplog: pytest.LogCaptureFixture) -> None:
    go_on = anyio.Event()
    cuts = 0

    async def stubborn() -> None:
        nonlocal cuts
        while not go_on.is_set():
            try:
                await go_on.wait()
            except anyio.get_cancelled_exc_class():
                cuts += 1

    async def handler(_call: Any) -> None:
        await stubborn()

    routes = Routes({"ping": Route(hang), "stubborn": Route(handler)})
    listen(routes, "stubborn", handler)
    end = End(routes, Limits(drain=0, grace=0.01, flush=0.01))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(end.run)
            match where:
                case "request":
                    end.send(request(1, "stubborn"))
                case "notification":
                    end.send(notification("stubborn"))
                case "background":
                    end.connection.background(stubborn)
                case _:
                    end.connection.on_close(stubborn)
            await anyio.wait_all_tasks_blocked()
            end.send_eof()
            await end.connection.wait_closed()
        assert end.raised is None
        assert "1 tasks did not end after their cancel" in caplog.text
        # Trying to cut it again and again would take all of the processor.
        assert cuts
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        before = cuts
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert cuts == before
        go_on.set()
        await until(lambda: not end.connection.work.running and not end.connection._cleaning.running)
    assert_over(end.connection, leaked=1)


@pytest.mark.behaviour("G6")
async def test_what_outlives_its_request_is_waited_for_and_then_cut() -> None:
    log: list[str] = []

    async def quick() -> None:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        log.append("quick")

    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
            log.append("cut")

    async with serving(limits=Limits(drain=0.01, grace=0.01)) as end:
        end.connection.background(quick)
        end.connection.background(slow)
    assert log == ["quick", "cut"]
    assert end.connection.leaked == 0
    # Too late to begin.
    end.connection.background(slow)
    await until(lambda: not end.connection._cleaning.running)
    assert log == ["quick", "cut"]


@pytest.mark.behaviour("G1", "E11")
async def test_a_cancel_and_the_end_of_input_in_one_read_have_one_outcome(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers()
    async with serving(handlers.routes()) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        end.send(cancel(1))
        end.send_eof()
        assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert handlers.log == [Cause.PEER, "clean"]
    assert not caplog.records


@pytest.mark.behaviour("G5")
async def test_answers_that_are_ready_are_written_whole_even_if_the_peer_is_slow_to_take_them() -> None:
    async def big(_call: Call) -> str:
        return "x" * 1_000_000

    async with serving(Routes({"big": Route(big)}), Limits()) as end:
        end.faults.stall_sending(after=1000)
        end.send(request(1, "big"), request(2, "big"))
        end.send_eof()
        await end.faults.stalled.wait()
        end.faults.release()
        assert [len(message["result"]) for message in await end.rest()] == [1_000_000] * 2


@pytest.mark.behaviour("G15")
async def test_a_peer_that_takes_nothing_holds_up_the_end_for_so_long_and_no_longer() -> None:
    end = End(Routes({"ping": Route(ping)}), Limits(flush=0.01))
    end.faults.stall_sending()
    end.send(request(1, "ping"))
    end.send_eof()
    with anyio.fail_after(PATIENCE):
        await end.connection.run()
    assert_over(end.connection)
    assert end.faults.sent == 0


@pytest.mark.behaviour("G5")
async def test_the_time_for_what_runs_begins_when_all_that_was_read_has_begun() -> None:
    async def echo(call: Call) -> Any:
        return call.params

    async with serving(Routes({"echo": Route(echo)}), Limits(drain=0)) as end:
        end.send(*(request(id, "echo", {"n": id}) for id in range(500)))
        end.send_eof()
        answers = await end.rest()
    assert [(answer["id"], answer.get("result")) for answer in answers] == [(id, {"n": id}) for id in range(500)]


@pytest.mark.behaviour("G5")
def test_requests_that_wait_for_a_place_begin_before_that_time_does(anyio_backend: str) -> None:
    async def work(call: Call) -> Any:
        await anyio.sleep(call.params["seconds"])

    async def answered(*seconds: float, close_after: float | None = None) -> list[bool]:
        async with serving(Routes({"work": Route(work)}), Limits(running=1, drain=1, grace=0)) as end:
            end.send(*(request(id, "work", {"seconds": each}) for id, each in enumerate(seconds)))
            end.send_eof()
            if close_after is not None:
                await anyio.sleep(close_after)
                end.connection.close()
            answers = await end.rest()
        return ["result" in answer for answer in sorted(answers, key=itemgetter("id"))]

    async def all_of_it() -> None:
        assert await answered(0.7, 0.7, 0.7, 0.7) == [True] * 4
        # It is not waited for one that holds up the others.
        began = anyio.current_time()
        assert await answered(0.7, 60, 0.7) == [True, False, False]
        assert anyio.current_time() - began < 2
        # Nor is any that a close of the connection answers.
        began = anyio.current_time()
        assert await answered(60, 60, close_after=0.1) == [False, False]
        assert anyio.current_time() - began < 0.5

    run(anyio_backend, 0, all_of_it)


@pytest.mark.behaviour("A1")
@pytest.mark.parametrize("running", [None, 3])
async def test_hundreds_of_requests_are_answered_at_the_end_also_without_any_patience(
    running: int | None,
) -> None:
    limits = Limits(running=running, drain=0, grace=0)
    async with serving(Routes({"hang": Route(hang)}), limits) as end:
        end.send(*(request(id, "hang") for id in range(700)))
        await until(lambda: end.connection.tree.size >= 700)
        end.send_eof()
        answers = await end.rest()
    assert sorted(answer["id"] for answer in answers) == list(range(700))
    assert all(answer["error"] == CANCELLED for answer in answers)
