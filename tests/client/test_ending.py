"""The end of an agent's process: asked, told, killed, and nothing left of it."""

import asyncio
import sys

import anyio
import pytest

from acp_server.client import Patience, RemoteAgent
from acp_server.errors import ConnectionClosed
from acp_server.peer.connection import Limits
from acp_server.processes.child import ChildProcess
from tests.client.processes import FAKE, HURRY, PATIENCE, Ear, Spawn, gone

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("G17")
@pytest.mark.parametrize("mode", ["wrapper", "outlasts its input", "deaf", "never reads", "leaves a child"])
async def test_nothing_is_left_of_an_agent_however_it_resists(spawn: Spawn, ear: Ear, mode: str) -> None:
    with anyio.fail_after(PATIENCE):
        async with spawn(mode, patience=HURRY):
            pids = await ear.pids()
    gone(*pids)


async def test_an_agent_that_is_busy_writing_sees_the_end_of_its_input_all_the_same(spawn: Spawn, ear: Ear) -> None:
    async with spawn(patience=HURRY) as agent:
        pids = await ear.pids()
        await agent.initialize()
        session = await agent.new_session("/")
        async with session.prompt("flood") as turn:
            await anext(turn)
            await agent.link.aclose()
            with pytest.raises(ConnectionClosed):
                await turn.wait()
    gone(*pids)


async def test_what_an_agent_still_writes_when_it_ends_is_read(spawn: Spawn, ear: Ear) -> None:
    heard: list[str] = []
    async with spawn("long goodbye", on_stderr=heard.append) as agent:
        await agent.initialize()
    assert await ear.line() == "done"
    assert heard == [f"bye {n}" for n in range(2000)]


async def test_an_agent_that_does_not_go_by_itself_is_asked_to_before_it_is_killed(spawn: Spawn, ear: Ear) -> None:
    async with spawn("waits to be terminated", patience=Patience(closed=0)):
        await ear.pids()
    assert await ear.line() == "terminated"


@pytest.mark.parametrize("mode", ["deaf", "never reads", "leaves a child"])
async def test_an_agent_that_is_killed_while_it_is_given_time_to_end_takes_no_more_of_it(
    spawn: Spawn, ear: Ear, mode: str
) -> None:
    async def kill(agent: RemoteAgent) -> None:
        await agent.link.connection.wait_closed()
        assert agent.process is not None
        agent.process.kill()
        agent.process.kill()

    patience = Patience(closed=PATIENCE, terminated=PATIENCE)
    with anyio.fail_after(PATIENCE / 2):
        async with anyio.create_task_group() as group, spawn(mode, patience=patience) as agent:
            pids = await ear.pids()
            group.start_soon(kill, agent)
    gone(*pids)


async def test_a_process_is_ended_by_closing_its_input_and_only_once(ear: Ear) -> None:
    process = await ChildProcess.start([sys.executable, "-S", "-E", FAKE, "good", ear.path])
    assert await ear.pids() == [process.pid]
    assert process.exit_code is None
    await process.aclose()
    assert await ear.line() == "saw the end"
    assert process.exit_code == 0
    await process.aclose()


async def test_a_process_that_is_still_read_is_ended_without_a_second_reader(ear: Ear) -> None:
    process = await ChildProcess.start([sys.executable, "-S", "-E", FAKE, "good", ear.path])
    await ear.pids()
    async with anyio.create_task_group() as group:
        group.start_soon(process.stream.receive)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await process.stream.receive()
        await process.aclose()


async def test_a_request_that_is_left_behind_with_the_block_fails_without_blaming_the_agent(spawn: Spawn) -> None:
    errors: list[ConnectionClosed] = []

    async def ask(agent: RemoteAgent) -> None:
        try:
            await agent.initialize()
        except ConnectionClosed as error:
            errors.append(error)

    async with anyio.create_task_group() as group, spawn("mute") as agent:
        group.start_soon(ask, agent)
        await anyio.wait_all_tasks_blocked()
    assert [type(error) for error in errors] == [ConnectionClosed]


@pytest.mark.behaviour("D6", "G15")
async def test_an_agent_that_does_not_read_can_be_left_with_much_unsent(spawn: Spawn, ear: Ear) -> None:
    limits = Limits(flush=0.1, grace=0.1, drain=0.1)
    with anyio.fail_after(PATIENCE):
        async with spawn("never reads", patience=HURRY, limits=limits) as agent:
            pids = await ear.pids()
            for _ in range(10):
                agent.notify("_big", {"data": "x" * 1_000_000})
    gone(*pids)


@pytest.mark.behaviour("D8", "G17")
@pytest.mark.parametrize("ticks", [0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 80, 120, 200])
async def test_a_cancel_at_any_moment_leaves_no_process(spawn: Spawn, ticks: int) -> None:
    passed: list[str] = []

    async def cancel(scope: anyio.CancelScope) -> None:
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(cancel, scope)
                async with spawn("mute", patience=HURRY) as agent:
                    passed.append("started")
                    await agent.initialize()
                    passed.append("initialized")
            assert scope.cancelled_caught
    assert "initialized" not in passed


@pytest.mark.behaviour("D8")
async def test_a_cancel_while_the_agent_is_being_ended_waits_for_the_end_and_goes_on(spawn: Spawn, ear: Ear) -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        assert await ear.line() == "saw the end"
        scope.cancel()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                async with spawn("takes its time") as agent:
                    await agent.initialize()
                    group.start_soon(cancel, scope)
                await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
        assert await ear.line() == "cleaned up"


async def _cancel_natively(spawn: Spawn, ear: Ear) -> list[int]:
    """Cancel a task while it ends its agent, as `asyncio.run` does at Ctrl-C; the agent's process ids."""
    pids: list[int] = []
    started = anyio.Event()

    async def run() -> None:
        async with spawn("outlasts its input", patience=Patience(closed=5)):
            pids.extend(await ear.pids())
            started.set()

    task = asyncio.create_task(run())
    await started.wait()
    assert await ear.line() == "saw the end"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return pids


@pytest.mark.behaviour("D8")
async def test_a_native_cancel_while_the_agent_is_being_ended_kills_it_at_once(
    spawn: Spawn, ear: Ear, anyio_backend_name: str
) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("only asyncio cancels past a shield")
    with anyio.fail_after(4):
        gone(*await _cancel_natively(spawn, ear))


@pytest.mark.behaviour("D8")
async def test_a_process_that_is_gone_is_not_said_to_resist_when_every_task_is_cancelled(
    ear: Ear, anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("only asyncio cancels tasks that others wait for")
    others = asyncio.all_tasks()
    process = await ChildProcess.start([sys.executable, "-S", "-E", FAKE, "deaf", ear.path])
    pids = await ear.pids()
    closing = asyncio.create_task(process.aclose(Patience(closed=PATIENCE, terminated=PATIENCE)))
    await anyio.wait_all_tasks_blocked()
    # As at the end of `asyncio.run`: those that watch over the process are cancelled with it.
    for task in asyncio.all_tasks() - others:
        task.cancel()
    with anyio.fail_after(PATIENCE / 2), pytest.raises(asyncio.CancelledError):
        await closing
    gone(*pids)
    assert process.exit_code == -9
    assert not caplog.records


@pytest.mark.behaviour("D13")
async def test_an_agent_may_be_started_in_one_task_and_left_in_another(spawn: Spawn, ear: Ear) -> None:
    spawning = spawn()

    async def enter() -> None:
        assert (await (await spawning.__aenter__()).initialize()).protocol_version == 1

    async def leave() -> None:
        await spawning.__aexit__(None, None, None)

    for step in (enter, leave):
        async with anyio.create_task_group() as group:
            group.start_soon(step)
    gone(*await ear.pids())
