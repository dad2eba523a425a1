"""The process that is judged: what its judge's reads end with."""

import sys
from collections.abc import Callable

import anyio
import pytest

from acp_conformance.core.process import Process, spawn

pytestmark = pytest.mark.anyio
WAITS = [sys.executable, "-c", "input()"]


def close_output(process: Process) -> None:
    process.close_output()


def close(process: Process) -> None:
    process.close()


@pytest.mark.parametrize("way", [close_output, close])
async def test_a_read_that_waits_ends_as_at_the_end_of_output_when_the_judge_closes_it(
    way: Callable[[Process], None],
) -> None:
    said: list[bytes] = []

    async def read(process: Process) -> None:
        said.append(await process.receive())

    with anyio.fail_after(20):
        async with spawn(WAITS, env={}) as process, anyio.create_task_group() as group:
            group.start_soon(read, process)
            await anyio.wait_all_tasks_blocked()
            way(process)
    assert said == [b""]
