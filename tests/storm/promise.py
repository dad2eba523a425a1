"""What a promise is to the oracle: a function with a name that yields what breaks it, and where it stands."""

from collections.abc import Callable, Iterator

from tests.storm.requests import Requests
from tests.storm.story import Story

Promise = Callable[[Story, Requests], Iterator[str]]

PROMISES: dict[str, tuple[Promise, str]] = {}
"""By their names: the promise, and where it stands."""


def promise(name: str, reference: str) -> Callable[[Promise], Promise]:
    """Make a function one of the oracle's."""

    def register(function: Promise) -> Promise:
        PROMISES[name] = (function, reference)
        return function

    return register
