"""`Registered`: a function of an author's, called with as many positional arguments as it takes, in a thread if it is
plain. What it is for is its caller's matter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from acp_server.errors import UsageError
from acp_server.tasks.threads import Threads
from acp_server.tools.editor import BlockingEditor, Editor
from acp_server.tools.parameters import name_of

Function = Callable[..., Any]


class Registered:
    """`takes`: what its arguments mean. Raises UsageError for a function that cannot be called with them."""

    def __init__(self, function: Function, takes: Sequence[str]) -> None:
        self._function = function
        self._count = _count(function, takes)
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - it is not asked whether it can be called
        )

    async def call(self, *arguments: Any) -> Any:
        """What it returns. Raises what it raises. A plain function gets a `BlockingEditor` for an `Editor`."""
        taken = arguments[: self._count]
        if self._is_async:
            return await self._function(*taken)
        taken = [BlockingEditor(argument) if isinstance(argument, Editor) else argument for argument in taken]
        value = await Threads.current().run(name_of(self._function), self._function, *taken)
        return await value if inspect.isawaitable(value) else value


def _count(function: Function, takes: Sequence[str]) -> int:
    """How many of the arguments to pass. Raises UsageError for a function that cannot be called with them."""
    if not callable(function):
        raise UsageError(f"a function is needed, not {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{name_of(function)} must return its result, not yield")
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return len(takes)
        needed = parameter.default is inspect.Parameter.empty
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            if count < len(takes):
                count += 1
                continue
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            needed = False
        if needed:
            raise UsageError(f"{name_of(function)} gets ({', '.join(takes)}), and nothing for {parameter.name}")
    return count
