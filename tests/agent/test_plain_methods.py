"""Plain functions of agent authors as methods, in threads: their cancel, their end, and too many of them."""

import threading
from typing import Any

import anyio
import anyio.from_thread
import pytest

from acp_server import Agent, Call
from acp_server.agent import handlers
from acp_server.errors import INTERNAL_ERROR, REQUEST_CANCELLED
from tests.session.editor import QUICK, editing

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("B19")
async def test_a_plain_function_runs_in_a_thread_and_may_call_back_into_the_loop() -> None:
    agent = Agent("threads")
    loop_thread = threading.get_ident()

    @agent.method("_m")
    def method(call: Call, a: int) -> Any:
        assert threading.get_ident() != loop_thread
        text = anyio.from_thread.run(call.request_peer, "_ext/ask", {"a": a})
        return [text, call.is_cancelled]

    async with editing(agent) as editor:
        editor.client.answer("_ext/ask", "asked")
        assert await editor.client.result("_m", {"a": 1}) == ["asked", False]


@pytest.mark.behaviour("A1")
async def test_a_function_that_raises_generator_exit_has_failed_and_nothing_else_has() -> None:
    agent = Agent("closed")

    def closed() -> None:
        raise GeneratorExit

    @agent.method("_plain")
    def plain(call: Call) -> None:
        closed()

    @agent.method("_async")
    async def waits(call: Call) -> None:
        await anyio.to_thread.run_sync(closed)

    async with editing(agent) as editor:
        for method in ("_plain", "_async"):
            assert await editor.code(await editor.client.request(method)) == INTERNAL_ERROR
        await editor.settled()
        # They have ended, so nothing looks after them.
        assert not editor.connection.watchdog._entries
    assert not editor.connection.leaked


@pytest.mark.parametrize("how", ["returns", "raises", "check"])
@pytest.mark.behaviour("B19", "B2", "B10")
async def test_a_plain_function_sees_its_cancel_and_its_end_is_the_answer(how: str) -> None:
    agent = Agent("threads")
    begun = threading.Event()

    @agent.method("_m")
    def method(call: Call) -> str:
        begun.set()
        while not call.is_cancelled:
            if how == "check":
                anyio.from_thread.check_cancelled()
        if how == "raises":
            raise ValueError
        return "what there is"

    async with editing(agent) as editor:
        id = await editor.client.request("_m")
        await anyio.to_thread.run_sync(begun.wait)
        await editor.withdraw(id)
        answer = await editor.answer(id)
        if how == "returns":
            assert answer == "what there is"
        elif how == "raises":
            assert answer["code"] == REQUEST_CANCELLED
        else:
            assert answer == "what there is" or answer["code"] == REQUEST_CANCELLED


@pytest.mark.behaviour("B19", "D6", "F22", "B17")
async def test_a_plain_function_that_does_not_stop_is_answered_for_and_its_late_value_dropped() -> None:
    agent = Agent("threads")
    begun, end = threading.Event(), threading.Event()

    @agent.method("_m")
    def method(call: Call) -> str:
        call.partial("so far")
        begun.set()
        end.wait()
        return "too late"

    @agent.method("_n")
    def other(call: Call) -> str:
        return "other"

    async with editing(agent, QUICK) as editor:
        id = await editor.client.request("_m")
        await anyio.to_thread.run_sync(begun.wait)
        await editor.withdraw(id)
        assert await editor.answer(id) == "so far"
        # Nothing else is held up, neither the loop nor other threads.
        assert await editor.client.result("_n") == "other"
        end.set()
        await anyio.wait_all_tasks_blocked()
        await editor.settled()
        assert "too late" not in str(editor.client.received)


@pytest.mark.behaviour("B19", "B5", "K2")
async def test_functions_that_hang_keep_their_threads_and_those_that_wait_for_one_can_be_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handlers, "_THREADS", 2)
    agent = Agent("threads")
    end = threading.Event()
    running: list[int] = []

    @agent.method("_m")
    def method(call: Call, n: int) -> int:
        running.append(n)
        end.wait()
        return n

    async with editing(agent, QUICK) as editor:
        hung = [await editor.client.request("_m", {"n": n}) for n in range(2)]
        while len(running) < 2:
            await anyio.wait_all_tasks_blocked()
        for id in hung:
            await editor.withdraw(id)
        assert [await editor.code(id) for id in hung] == [REQUEST_CANCELLED] * 2
        # Answered, but still there: a third has to wait, and does not begin if it is cancelled meanwhile.
        third, fourth = [await editor.client.request("_m", {"n": n}) for n in (2, 3)]
        await editor.settled()
        await editor.withdraw(third)
        assert await editor.code(third) == REQUEST_CANCELLED
        # The threads of the rest of the program are others.
        assert await anyio.to_thread.run_sync(lambda: "free") == "free"
        end.set()
        assert await editor.answer(fourth) == 3
        assert sorted(running) == [0, 1, 3]


@pytest.mark.behaviour("G7", "D6")
async def test_a_thread_that_hangs_does_not_hold_up_the_end_of_the_connection() -> None:
    agent = Agent("threads")
    begun, end = threading.Event(), threading.Event()

    @agent.method("_m")
    def method(call: Call) -> None:
        begun.set()
        end.wait()

    async with editing(agent, QUICK, leaks=1) as editor:
        id = await editor.client.request("_m")
        await anyio.to_thread.run_sync(begun.wait)
        with anyio.fail_after(3):
            editor.connection.close()
            assert await editor.code(id) == REQUEST_CANCELLED
            await editor.client.wait_ended()
    end.set()
    await editor.connection.work.wait_idle()
