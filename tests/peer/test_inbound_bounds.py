"""How much the peer may have under way at once, and what begins while it leaves answers unread."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.limits import Limits
from acp_server.tasks.running import Spawner
from tests.peer.ends import CANCELLED, End, cancel, hang, line, ping, request, result, serving, until

pytestmark = pytest.mark.anyio

EACH = 8 * 1024
"""What a request counts beside its text."""

TOO_MANY = {"code": -32603, "message": "Too many requests are in flight", "data": {"limit": "requests"}}


class Large:
    """A handler with a large answer; who has begun."""

    def __init__(self) -> None:
        self.began: list[Any] = []

    async def answer(self, call: Call) -> str:
        self.began.append(call.id)
        return "x" * 1000

    def routes(self) -> Routes:
        return Routes({"large": Route(self.answer), "urgent": Route(ping, urgent=True)})


@pytest.mark.behaviour("K3", "I6")
async def test_requests_beyond_the_bound_are_refused_until_one_of_them_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING", "acp_server.peer")
    async with serving(Routes({"hang": Route(hang)}), Limits(requests=5 * (EACH + 100), drain=0)) as end:
        end.send(*(request(id, "hang") for id in range(7)))
        assert [(await end.next())["id"] for _ in range(2)] == [5, 6]
        end.send(request("one more", "hang"))
        assert (await end.next())["error"] == TOO_MANY
        end.send(cancel(0))
        assert (await end.next())["error"] == CANCELLED
        await until(lambda: end.connection.tree.size == 4)
        assert await end.barrier() == []
    assert len(caplog.records) == 1


async def test_a_single_request_may_be_larger_than_the_bound() -> None:
    async with serving(Routes({"echo": Route(ping)}), Limits(requests=10_000, drain=0)) as end:
        end.send(request(1, "echo", {"text": "x" * 100_000}))
        assert await end.next() == result(1, "pong")


async def test_requests_that_are_cancelled_before_they_begin_make_no_more_room_than_they_took() -> None:
    async with serving(Routes({"hang": Route(hang)}), Limits(requests=2 * (EACH + 100), drain=0)) as end:
        for id in range(5):
            end.send(request(id, "hang"), cancel(id))
            assert (await end.next())["error"] == CANCELLED
            assert await end.barrier() == []
        end.send(*(request(id, "hang") for id in "abc"), request("d", "ping"))
        refused = await end.next()
        assert (refused["id"], refused.get("error")) == ("c", TOO_MANY)


async def test_nothing_looks_after_a_cancelled_request_that_has_ended() -> None:
    async with serving(Routes({"hang": Route(hang)})) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        end.send(cancel(1))
        assert (await end.next())["error"] == CANCELLED
        assert not end.connection.watchdog._entries


async def test_large_requests_count_with_their_text() -> None:
    async with serving(Routes({"hang": Route(hang)}), Limits(requests=10 * EACH, drain=0)) as end:
        end.send(request(1, "hang", {"text": "x" * 9 * EACH}), request(2, "hang"))
        assert (await end.next())["error"] == TOO_MANY


async def test_requests_may_take_all_of_the_bound_to_its_last_byte() -> None:
    size = len(line(request(1, "hang"))) - 1
    for short, refused in ((0, False), (1, True)):
        async with serving(Routes({"hang": Route(hang)}), Limits(requests=2 * (EACH + size) - short, drain=0)) as end:
            end.send(request(1, "hang"), request(2, "hang"))
            assert len(await end.barrier()) == refused


@pytest.mark.behaviour("K3")
async def test_one_that_ends_work_makes_no_room_for_another_where_all_places_are_taken() -> None:
    begun: list[Any] = []
    go_on = anyio.Event()

    async def wait(call: Call) -> None:
        begun.append(call.id)
        await (go_on.wait() if call.id == "urgent" else anyio.sleep_forever())

    routes = Routes({"wait": Route(wait), "urgent": Route(wait, urgent=True)})
    async with serving(routes, Limits(running=1, drain=0)) as end:
        end.send(request("first", "wait"), request("urgent", "urgent"), request("second", "wait"))
        await until(lambda: "urgent" in begun)
        go_on.set()
        assert await end.next() == result("urgent", None)
        await anyio.wait_all_tasks_blocked()
        assert begun == ["first", "urgent"]
        end.send(cancel("first"))
        await until(lambda: begun == ["first", "urgent", "second"])


@pytest.mark.behaviour("A1")
async def test_members_of_a_batch_that_are_refused_wait_for_the_others() -> None:
    async with serving(Routes({"hang": Route(hang)}), Limits(requests=EACH + 1000, drain=0)) as end:
        members = [request(1, "hang"), request(2, "unknown"), request(3, "hang")]
        end.send(members)
        await anyio.wait_all_tasks_blocked()
        end.send(cancel(1))
        answers = await end.next()
    assert [answer["error"]["code"] for answer in answers] == [-32800, -32601, -32603]


@pytest.mark.behaviour("I6")
async def test_a_request_that_ends_work_has_a_place_when_all_are_taken() -> None:
    routes = Routes({"hang": Route(hang), "urgent": Route(ping, urgent=True)})
    limits = Limits(requests=3 * (EACH + 100), running=1, drain=0)
    async with serving(routes, limits) as end:
        end.send(*(request(id, "hang") for id in range(3)), request("refused", "hang"), request("urgent", "urgent"))
        assert (await end.next())["error"] == TOO_MANY
        assert await end.next() == result("urgent", "pong")


@pytest.mark.behaviour("K7")
async def test_requests_begin_only_while_the_peer_takes_the_answers_before_them() -> None:
    large = Large()
    async with serving(large.routes(), Limits(unread=5_000, drain=0)) as end:
        end.faults.stall_sending()
        end.send(*(request(id, "large") for id in range(50)), request("urgent", "urgent"))
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        assert 5 <= len(large.began) <= 7
        # One task waits for all of them.
        assert end.connection.work.running == 1
        end.faults.release()
        ids = [(await end.next())["id"] for _ in range(51)]
        assert sorted(id for id in ids if id != "urgent") == list(range(50))
        assert large.began == list(range(50))
        # What began out of turn: the one that waits for nothing.
        assert ids.index("urgent") < 10


@pytest.mark.behaviour("K7")
async def test_requests_wait_for_the_peer_to_read_and_go_on_each_time_that_it_stops() -> None:
    large = Large()
    async with serving(large.routes(), Limits(unread=5_000, drain=0)) as end:
        for ids in (range(20), range(20, 40)):
            end.faults.stall_sending()
            end.send(*(request(id, "large") for id in ids))
            await end.faults.stalled.wait()
            await anyio.wait_all_tasks_blocked()
            assert len(large.began) < ids.stop - 10
            end.faults.release()
            await until(lambda ids=ids: len(large.began) == ids.stop)
            assert [(await end.next())["id"] for _ in ids] == list(ids)


@pytest.mark.behaviour("B5", "K7")
async def test_a_request_that_waits_for_the_peer_to_read_never_begins_if_it_is_cancelled() -> None:
    large = Large()
    async with serving(large.routes(), Limits(unread=5_000, drain=0)) as end:
        end.faults.stall_sending()
        end.send(*(request(id, "large") for id in range(50)))
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        # The reader hears cancels although it acts on nothing else.
        end.send(cancel(40))
        await anyio.wait_all_tasks_blocked()
        end.faults.release()
        answers = {(message := await end.next())["id"]: message for _ in range(50)}
    assert answers[40]["error"] == CANCELLED
    assert 40 not in large.began


@pytest.mark.behaviour("G5", "K7")
async def test_requests_that_wait_for_the_peer_to_read_are_answered_behind_the_end_of_the_input() -> None:
    large = Large()
    end = End(large.routes(), Limits(unread=5_000, drain=10))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            end.faults.stall_sending()
            end.send(b"".join(line(request(id, "large")) for id in range(50)))
            end.send_eof()
            tasks.start_soon(end.run)
            await end.faults.stalled.wait()
            await anyio.wait_all_tasks_blocked()
            end.faults.release()
            answers = await end.rest()
    assert [len(message["result"]) for message in answers] == [1000] * 50


@pytest.mark.behaviour("K7")
async def test_requests_that_wait_for_the_peer_to_read_take_no_tasks_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = Large()
    spawned = 0
    spawn = Spawner.spawn

    def count(spawner: Spawner, function: Any, *args: Any, **options: Any) -> None:
        nonlocal spawned
        spawned += 1
        spawn(spawner, function, *args, **options)

    async with serving(large.routes(), Limits(unread=5_000, drain=0)) as end:
        end.faults.stall_sending()
        end.send(*(request(id, "large") for id in range(1000)))
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(Spawner, "spawn", count)
        end.faults.release()
        for _ in range(1000):
            await end.next()
    assert large.began == list(range(1000))
    assert spawned <= 2100


@pytest.mark.behaviour("K3")
async def test_of_thousands_that_wait_a_few_begin_in_each_round_of_the_loop() -> None:
    begun = 0
    together: list[int] = []

    async def wait(_call: Call) -> None:
        nonlocal begun
        begun += 1
        await anyio.sleep_forever()

    async def count() -> None:
        while begun < 2000:
            before = begun
            await anyio.lowlevel.checkpoint()
            together.append(begun - before)

    async with serving(Routes({"wait": Route(wait)}), Limits(drain=0)) as end:
        end.send(*(request(id, "wait") for id in range(2000)))
        await count()
    assert max(together) <= 200


@pytest.mark.behaviour("G8", "A1")
async def test_a_close_answers_those_that_wait_for_the_peer_to_read() -> None:
    large = Large()
    async with serving(large.routes(), Limits(unread=5_000, drain=0)) as end:
        end.faults.stall_sending()
        end.send(*(request(id, "large") for id in range(50)))
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        end.connection.close()
        await anyio.wait_all_tasks_blocked()
        end.faults.release()
        answers = [message["id"] for message in await end.rest()]
    assert sorted(answers) == list(range(50))
    assert len(large.began) <= 7
