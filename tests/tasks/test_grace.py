"""Time for cleaning up, and its end."""

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.grace import grace
from acp_server.tasks.tree import stop_cancelling

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("C9")
async def test_a_cancel_does_not_end_a_block_with_grace() -> None:
    cleaned = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            with grace():
                await anyio.lowlevel.checkpoint()
                cleaned = True
    assert cleaned


async def test_a_block_whose_time_is_up_is_cancelled_silently_and_tells() -> None:
    with grace(0) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_the_scope_around_goes_on_cancelling_behind_the_block() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        with grace():
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        pytest.fail("the cancel was lost")
    assert scope.cancelled_caught


async def test_what_is_left_alone_is_out_of_reach_for_cancels_from_outside_only() -> None:
    reached: list[str] = []
    with anyio.CancelScope() as outer, anyio.CancelScope() as inner:
        stop_cancelling(inner)
        outer.cancel()
        await anyio.lowlevel.checkpoint()
        reached.append("behind the cancel from outside")
        inner.cancel()
        await anyio.lowlevel.checkpoint()
        reached.append("behind the cancel of its own")
    assert reached == ["behind the cancel from outside"]


@pytest.mark.behaviour("K5")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("rounds", range(1, 8))
async def test_work_that_looks_for_its_cancel_when_it_is_left_alone_goes_on(rounds: int) -> None:
    outer, inner = anyio.CancelScope(), anyio.CancelScope()
    waiting, over = anyio.Event(), anyio.Event()

    async def stubborn() -> None:
        with outer, inner:
            waiting.set()
            while True:
                try:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    if over.is_set():
                        return
                    await over.wait()
                except anyio.get_cancelled_exc_class():
                    continue

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(stubborn)
            await waiting.wait()
            outer.cancel()
            for _ in range(rounds):
                await anyio.lowlevel.checkpoint()
            stop_cancelling(inner)
            over.set()


@pytest.mark.behaviour("K5")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_work_that_has_just_begun_to_look_for_its_cancel_is_freed_when_it_is_let_be() -> None:
    """Nothing has cancelled it in this round of the loop, and it would look again in every round."""
    outer, inner = anyio.CancelScope(), anyio.CancelScope()
    shielded, go_on = anyio.Event(), anyio.Event()
    looks: list[str] = []

    async def stubborn() -> None:
        with outer, inner:
            with anyio.CancelScope(shield=True):
                shielded.set()
                await go_on.wait()
            for _ in range(2):
                try:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    looks.append("free")
                except anyio.get_cancelled_exc_class():
                    looks.append("cut")

    async with anyio.create_task_group() as group:
        group.start_soon(stubborn)
        await shielded.wait()
        outer.cancel()
        await anyio.lowlevel.checkpoint()
        # It goes on behind the delivery of this round.
        go_on.set()
        await anyio.lowlevel.checkpoint()
        stop_cancelling(inner)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        seen = list(looks)
        inner.cancel()
    assert seen == ["cut", "free"]
