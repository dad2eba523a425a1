"""Signals: one task waits for one thing."""

import anyio
import pytest

from acp_server.tasks.signal import Signal, Signals

pytestmark = pytest.mark.anyio


def _set(signal: Signal) -> None:
    if not signal.done():
        signal.set_result(None)


async def test_a_signal_that_is_set_lets_the_waiter_go_on() -> None:
    signal = Signals().make()
    ended: list[str] = []

    async def wait() -> None:
        await signal
        ended.append("waiter")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        assert not signal.done()
        _set(signal)
        assert signal.done()
        _set(signal)
    assert ended == ["waiter"]


async def test_a_signal_that_was_set_before_is_not_waited_for() -> None:
    signal = Signals().make()
    _set(signal)
    with anyio.fail_after(5):
        await signal


async def test_setting_a_signal_whose_waiter_was_cut_does_nothing() -> None:
    signal = Signals().make()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await signal
    assert scope.cancelled_caught
    _set(signal)


async def test_a_checkpoint_only_cuts_what_is_cancelled() -> None:
    signals = Signals()
    await signals.checkpoint_if_cancelled()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await signals.checkpoint_if_cancelled()
    assert scope.cancelled_caught
