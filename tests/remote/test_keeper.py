"""When a kept agent counts as idle."""

from typing import Any

import anyio
import pytest

from acp_server.remote.keeper import KeptAgent, until_idle
from acp_server.testing.streams import memory_pair
from acp_server.wire import codec

pytestmark = pytest.mark.anyio

LONGEST = 10_000


def state(state: str) -> dict[str, Any]:
    update = {"sessionUpdate": "state_update", "state": state}
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}


def line(message: dict[str, Any]) -> bytes:
    return codec.encode({"jsonrpc": "2.0", **message}).rstrip(b"\n") + b"\n"


@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_is_not_idle_while_a_turn_runs_and_is_when_it_ends(version: int) -> None:
    process, agent = memory_pair()
    stream, client = memory_pair()
    kept = KeptAgent(process, LONGEST)
    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.run)
        tasks.start_soon(kept.connect(stream).run)
        await client.send(line({"id": 7, "method": "session/prompt", "params": {"sessionId": "s"}}))
        asked = codec.decode(await agent.receive())
        response = line({"id": asked["id"], "result": {}})
        if version == 2:
            await agent.send(line(state("running")) + response)
            assert b"running" in await client.receive()
            assert codec.decode(await client.receive())["id"] == 7
        await client.aclose()
        tasks.start_soon(until_idle, kept, 0.0, ended.set)
        await anyio.wait_all_tasks_blocked()
        assert not ended.is_set()
        await agent.send(response if version == 1 else line(state("requires_action")))
        if version == 2:
            await anyio.wait_all_tasks_blocked()
            assert not ended.is_set()
            await agent.send(line(state("idle")))
        await ended.wait()
        await agent.aclose()


async def test_white_space_of_the_agent_between_values_does_not_end_the_line_of_an_event() -> None:
    process, agent = memory_pair()
    stream, client = memory_pair()
    kept = KeptAgent(process, LONGEST)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.run)
        tasks.start_soon(kept.connect(stream).run)
        await anyio.wait_all_tasks_blocked()
        await agent.send(b'\r {"jsonrpc":\r"2.0","method":\r\r"_hello","params":{"a":1}}  \r\n')
        assert await client.receive() == b'{"jsonrpc": "2.0","method":  "_hello","params":{"a":1}}\n'
        await agent.aclose()
        await client.aclose()
