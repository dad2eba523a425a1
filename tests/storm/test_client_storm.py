"""Clients in front of agents that keep to nothing, by the hundred.

Each seed is a storm of its own. A failure names it: with `ACP_STORM_SEED=17` in the environment there is that one, with
`ACP_STORM_SEEDS=10000` there are many more than usual.
"""

import logging
import os
from random import Random

import anyio
import pytest

from acp_server import Limits
from acp_server.client import connect_agent
from acp_server.client.remote import CLOSE_SECONDS
from acp_server.testing import FaultyStream, memory_pair
from tests.storm.caller import Caller, Offers
from tests.storm.client_oracle import judge, tables
from tests.storm.jumping import run
from tests.storm.rogue import LINE, Rogue

LIMITS = Limits(line=LINE)
CLOSING = LIMITS.drain + 4 * LIMITS.end_grace + 2 * LIMITS.flush
"""Seconds that the end of a connection may take at most."""
SEEDS = int(os.environ.get("ACP_STORM_SEEDS", "80"))
BLOCK = 25


async def storm(seed: int, backend: str) -> list[str]:
    """What the client did in one storm that it may not."""
    random = Random(seed)
    here, there = memory_pair()
    faulty = FaultyStream(here)
    rogue = Rogue(there, faulty, random)
    complaints: list[str] = []
    tasks = len(anyio.get_running_tasks())
    with anyio.fail_after(5000):
        async with anyio.create_task_group() as group:
            group.start_soon(rogue.run, group)
            all_answered = False
            with anyio.CancelScope() as scope:
                async with connect_agent(faulty, Offers(random).handlers(), limits=LIMITS) as agent:
                    caller = Caller(agent, random, backend)
                    await caller.run()
                    rogue.is_calm = True
                    rogue.read_on()
                    if rogue.is_whole:
                        # Whatever was said, the client is still there; and what it has read it answers.
                        await anyio.sleep(CLOSE_SECONDS + 20)
                        all_answered = await answered(rogue, rogue.ask("_echo", {}))
                        if not all_answered:
                            complaints.append("the client does not answer any more")
                    began = anyio.current_time()
                    if random.random() < 0.3:
                        scope.cancel()
            took = anyio.current_time() - began
            if took > CLOSING:
                complaints.append(f"closing took {took:.2f} s")
            group.cancel_scope.cancel() if not rogue.is_whole else await there.aclose()
            await anyio.sleep(100)
            group.cancel_scope.cancel()
    left = len(anyio.get_running_tasks()) - tasks
    if left:
        complaints.append(f"{left} tasks are left")
    return [*complaints, *(f"{entry} left" for entry in tables(agent)), *judge(rogue, caller, all_answered)]


async def answered(rogue: Rogue, id: str) -> bool:
    """Wait until the client has answered."""
    with anyio.move_on_after(5):
        while not any(note.heard and note.message.get("id") == id for note in rogue.notes):  # noqa: ASYNC110 - rare
            await anyio.sleep(0.01)
        return True
    return False


def _seeds() -> list[range]:
    one = os.environ.get("ACP_STORM_SEED")
    if one is not None:
        return [range(int(one), int(one) + 1)]
    return [range(first, min(first + BLOCK, SEEDS)) for first in range(0, SEEDS, BLOCK)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("seeds", _seeds(), ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_a_client_keeps_its_promises_whatever_its_agent_does(
    seeds: range, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "acp_server")
    for seed in seeds:
        caplog.clear()
        complaints = run(backend, seed, lambda seed=seed: storm(seed, backend))
        complaints += [record.message for record in caplog.records if "internal task" in record.message]
        assert not complaints, f"storm {seed} on {backend}: " + "; ".join(complaints)
