"""What really went wrong, apart from cancellation, in whatever it was wrapped."""

import anyio
import pytest

from acp_server.tasks.failure import failures_in, is_cancellation

pytestmark = pytest.mark.anyio

ONE, TWO, END = ValueError(1), OSError(2), SystemExit(3)


async def _cancelled() -> BaseException:
    kept: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            kept.append(error)
            raise
    return kept[0]


async def test_an_error_is_its_own_failure() -> None:
    assert list(failures_in(ONE)) == [ONE]
    assert not is_cancellation(ONE)


async def test_a_cancellation_is_none() -> None:
    cancelled = await _cancelled()
    assert list(failures_in(cancelled)) == []
    assert is_cancellation(cancelled)


@pytest.mark.behaviour("B11")
async def test_groups_are_taken_apart_at_every_depth() -> None:
    cancelled = await _cancelled()
    inner = BaseExceptionGroup("inner", [cancelled, TWO, END])
    group = BaseExceptionGroup("outer", [ONE, inner, cancelled])
    assert list(failures_in(group)) == [ONE, TWO, END]
    assert not is_cancellation(group)


@pytest.mark.behaviour("B11")
async def test_a_group_of_nothing_but_cancellations_is_a_cancellation() -> None:
    cancelled = await _cancelled()
    group = BaseExceptionGroup("outer", [cancelled, BaseExceptionGroup("inner", [cancelled])])
    assert is_cancellation(group)
