"""End a test that waits for ever on the event loop, from inside that loop, and show where it waited.

This comes before the hard time-out of the whole run, which can only end the process. It bounds tests that are
marked `anyio` and no others.
"""

import faulthandler
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

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


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Give the fixtures of a test that has failed the time-out of the whole run anew.

    pytest takes it back then, so that a debugger may be used. But what the test has left behind may never end, and the
    run would wait for it for ever.
    """
    if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
        seconds = float(node.config.getini("faulthandler_timeout"))
        faulthandler.dump_traceback_later(seconds, exit=True, file=node.config.stash[fault_handler_stderr_fd_key])


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
