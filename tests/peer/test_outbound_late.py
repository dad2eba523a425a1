"""Answers that come when nobody waits for them any more: what they created is released, and somebody may be told."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer.call import Routes
from tests.peer.ends import Answers, cancel, error, listen, notification, result, serving, until

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("C4")
@pytest.mark.parametrize("way", ["cut", "time-out"])
async def test_a_result_that_comes_after_the_withdrawal_is_released_once(way: str) -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        late: list[Any] = []
        timeout = 0.01 if way == "time-out" else None
        group.start_soon(lambda: answers.ask("a", on_late=late.append, timeout=timeout))
        asked = await end.next()
        if way == "cut":
            answers.cancel("a")
        assert await end.next() == cancel(asked["id"])
        assert end.connection.endpoint.ledger.withdrawn == 1
        end.send(result(asked["id"], "created"), result(asked["id"], "once more"))
        assert await end.barrier() == []
        assert late == ["created"]
        assert end.connection.endpoint.ledger.withdrawn == 0


@pytest.mark.behaviour("C4", "C5")
@pytest.mark.parametrize(
    "answer", [error(0, -32800), {"jsonrpc": "2.0", "id": 0}, b'{"jsonrpc":"2.0","id":0,"result":\n']
)
async def test_a_late_answer_that_created_nothing_has_nothing_to_release(answer: Any) -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        late: list[Any] = []
        group.start_soon(lambda: answers.ask("a", on_late=late.append))
        await end.next()
        answers.cancel("a")
        await end.next()
        end.send(answer)
        assert await end.barrier() == []
        assert late == []


@pytest.mark.behaviour("C4", "C5")
@pytest.mark.parametrize("answer", [error(0, -32800), result(0, "done"), {"jsonrpc": "2.0", "id": 0}])
async def test_that_a_withdrawn_request_is_over_is_told_once_whatever_the_answer(answer: Any) -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        over: list[str] = []
        group.start_soon(lambda: answers.ask("a", on_over=lambda: over.append("over")))
        await end.next()
        answers.cancel("a")
        await end.next()
        assert over == []
        end.send(answer, answer)
        assert await end.barrier() == []
        assert over == ["over"]


async def test_a_request_that_was_never_sent_is_over_at_once_and_one_that_is_heard_is_not_told_of() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        over: list[str] = []
        group.start_soon(lambda: answers.ask("heard", on_over=lambda: over.append("heard")))
        asked = await end.next()
        end.send(error(asked["id"], -32800))
        await until(lambda: answers.of)
        end.faults.stall_sending()
        end.connection.notify("x")
        await end.faults.stalled.wait()
        group.start_soon(lambda: answers.ask("unsent", on_over=lambda: over.append("unsent")))
        await until(lambda: end.connection.endpoint.ledger.outgoing)
        answers.cancel("unsent")
        await until(lambda: "unsent" in answers.of)
        assert over == ["unsent"]
        end.faults.release()
        assert [message["method"] for message in await end.barrier()] == ["x"]


@pytest.mark.behaviour("C5")
async def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        asked = await end.next()
        answers.cancel("a")
        await end.next()
        end.send(result(asked["id"], "too late"), result(999, "unasked"), result("0", "not our type"))
        assert await end.barrier() == []
        assert answers.of["a"] == "cancelled"


@pytest.mark.behaviour("C5", "D5")
@pytest.mark.parametrize("in_time", [True, False])
async def test_a_release_that_fails_is_logged(in_time: bool, caplog: pytest.LogCaptureFixture) -> None:
    def release(_result: Any) -> None:
        raise ValueError("boom")

    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(lambda: answers.ask("a", on_late=release))
        await end.next()
        if in_time:
            end.hear(result(0, "created"))
        answers.cancel("a")
        end.send(result(0, "created"))
        await end.barrier()
        assert answers.of["a"] == "cancelled"
    assert [record.getMessage() for record in caplog.records] == ["a callback for the result of the request ask failed"]


async def test_a_result_is_told_once_before_its_caller_goes_on_and_before_the_next_notification() -> None:
    told: list[Any] = []
    routes = Routes()
    listen(routes, "x", told.append, inline=True)
    async with serving(routes) as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(lambda: answers.ask("a", on_result=told.append))
        asked = await end.next()
        end.send(notification("x", {"n": 1}), result(asked["id"], "done"), notification("x", {"n": 2}))
        assert await end.barrier() == []
        assert told == [{"n": 1}, "done", {"n": 2}]


@pytest.mark.parametrize("in_time", [True, False])
async def test_a_result_is_told_once_also_if_its_caller_is_cancelled_in_that_moment(in_time: bool) -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        told: list[Any] = []
        group.start_soon(lambda: answers.ask("a", on_result=told.append))
        await end.next()
        if in_time:
            end.hear(result(0, "done"))
        answers.cancel("a")
        end.send(result(0, "done"))
        await end.barrier()
        assert (answers.of["a"], told) == ("cancelled", ["done"])
