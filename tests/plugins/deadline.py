"""End a test that waits for ever on the event loop, from inside that loop, and show where it waited.

This comes before the hard time-out of the whole run, which can only end the process. It bounds tests that are
marked `anyio` and no others.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio
import pytest

SECONDS = 45.0

AsyncTest = Callable[..., Coroutine[Any, Any, None]]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the test inside a deadline; for a property test, each of its examples."""
    if pyfuncitem.get_closest_marker("anyio"):
        test = pyfuncitem.obj
        property_test = getattr(test, "hypothesis", None)
        if property_test and inspect.iscoroutinefunction(property_test.inner_test):
            property_test.inner_test = _bounded(property_test.inner_test)
        elif inspect.iscoroutinefunction(test):
            pyfuncitem.obj = _bounded(test)
    return (yield)


def _bounded(test: AsyncTest) -> AsyncTest:
    @functools.wraps(test)
    async def bounded(*args: Any, **kwargs: Any) -> None:
        where: BaseException | None = None
        with anyio.move_on_after(SECONDS) as scope:
            try:
                await test(*args, **kwargs)
            except anyio.get_cancelled_exc_class() as cancelled:
                where = cancelled
                raise
        if scope.cancelled_caught:
            raise TimeoutError(f"the test did not end within {SECONDS} s") from where

    return bounded
