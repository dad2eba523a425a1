"""Causes: who wanted the end; and what really went wrong, apart from cancellation, in whatever it was wrapped."""

import anyio
import pytest

from acp_server.tasks.cause import Cause, failures_in, is_cancellation, is_time_out
from tests.tasks.stray import stray_cancellation

ONE, TWO, END = ValueError(1), OSError(2), SystemExit(3)


@pytest.mark.parametrize("cause", list(Cause))
def test_only_the_client_and_its_user_ask_for_a_cancel(cause: Cause) -> None:
    assert cause.asked_for == (cause in {Cause.PEER, Cause.SESSION, Cause.USER, Cause.INTERRUPT})


@pytest.mark.anyio
async def test_an_error_is_its_own_failure() -> None:
    assert list(failures_in(ONE)) == [ONE]
    assert not is_cancellation(ONE)


@pytest.mark.anyio
async def test_a_cancellation_is_none() -> None:
    cancelled = await stray_cancellation()
    assert list(failures_in(cancelled)) == []
    assert is_cancellation(cancelled)


@pytest.mark.anyio
@pytest.mark.behaviour("B11")
async def test_groups_are_taken_apart_at_every_depth() -> None:
    cancelled = await stray_cancellation()
    inner = BaseExceptionGroup("inner", [cancelled, TWO, END])
    group = BaseExceptionGroup("outer", [ONE, inner, cancelled])
    assert list(failures_in(group)) == [ONE, TWO, END]
    assert not is_cancellation(group)


@pytest.mark.anyio
@pytest.mark.behaviour("B11")
async def test_a_group_of_nothing_but_cancellations_is_a_cancellation() -> None:
    cancelled = await stray_cancellation()
    group = BaseExceptionGroup("outer", [cancelled, BaseExceptionGroup("inner", [cancelled])])
    assert is_cancellation(group)


@pytest.mark.anyio
async def test_more_groups_within_one_another_than_the_stack_has_room_for_are_taken_apart() -> None:
    error: BaseException = ONE
    for _ in range(3000):
        error = _grouped(error)
    assert list(failures_in(error)) == [ONE]
    assert not is_cancellation(error)


def _grouped(error: BaseException) -> BaseException:
    return BaseExceptionGroup("outer", [error])


@pytest.mark.anyio
async def test_a_time_limit_that_ran_out_is_a_time_out_whatever_raised_it(anyio_backend_name: str) -> None:
    assert is_time_out(TimeoutError())
    assert not any(map(is_time_out, [ONE, TWO, END, await stray_cancellation()]))
    with pytest.raises(TimeoutError) as raised, anyio.fail_after(0):
        await anyio.sleep_forever()
    assert is_time_out(raised.value)
    if anyio_backend_name == "trio":
        import trio

        with pytest.raises(trio.TooSlowError) as native, trio.fail_after(0):
            await trio.sleep_forever()
        assert is_time_out(native.value)
