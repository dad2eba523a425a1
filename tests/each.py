"""One test of many like cases, where a test of its own for each would cost more than what it looks at."""

from collections.abc import Callable, Iterable
from typing import Any


def each(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """A test that calls the function with each of these: a tuple's items, or the one value. The first that fails is
    named."""
    found = list(cases)
    assert found

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            for case in found:
                try:
                    check(*(case if type(case) is tuple else (case,)))
                except BaseException as error:
                    error.add_note(f"in the case of {case!r:.500}")
                    raise

        return test

    return decorate
