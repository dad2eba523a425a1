"""Time for cleaning up, and its end."""

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.grace import grace, let_be

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("C9")
async def test_a_cancel_does_not_cut_a_block_with_grace() -> None:
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


async def test_a_block_whose_time_is_up_is_cut_silently_and_tells() -> None:
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


async def test_what_is_let_be_is_out_of_reach_for_cancels_from_outside_only() -> None:
    reached: list[str] = []
    with anyio.CancelScope() as outer, anyio.CancelScope() as inner:
        let_be(inner)
        outer.cancel()
        await anyio.lowlevel.checkpoint()
        reached.append("behind the cancel from outside")
        inner.cancel()
        await anyio.lowlevel.checkpoint()
        reached.append("behind the cancel of its own")
    assert reached == ["behind the cancel from outside"]
