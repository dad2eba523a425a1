"""Validates the arguments of an agent when it is made, so that mistakes are reported when the program starts.

This module imports nothing that the author's program has not already imported. The possible capabilities of an agent
are in `acp_server.session.definition`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from acp_server.errors import UsageError
from acp_server.peer.limits import Limits
from acp_server.peer.observer import Observer, Observers
from acp_server.signatures import signature_of

if TYPE_CHECKING:
    from acp_server.schema.config_options import SessionMode
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.settings import Option

logger: logging.Logger = logging.getLogger("acp_server.agent")

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])


def check_texts(name: Any, version: Any, title: Any) -> None:
    """Raise UsageError unless the name, version and title are strings, as clients require."""
    for what, value in {"name": name, "version": version, "title": "" if title is None else title}.items():
        if not isinstance(value, str):
            raise UsageError(f"the {what} of an agent must be a string, not {value!r}")
    if not name:
        raise UsageError("the name of an agent must not be empty")


def check_method(name: Any) -> None:
    """Raise UsageError unless `name` can be the name of a method or notification."""
    if not isinstance(name, str) or not name:
        given = "a function" if callable(name) else repr(name)
        raise UsageError(f'expected the name of a method, as in @agent.method("_mine"), got {given}')


def check_command(name: Any) -> None:
    """Raise UsageError for a decorator that lacks the name of its command."""
    if callable(name):
        raise UsageError('expected the name of a command, as in @agent.command("notes"), got a function')


def check_own_method(name: str) -> None:
    """Raise UsageError if `name` is a stable method in any version of the protocol."""
    if name.startswith("_"):
        return  # the protocol reserves these names for extensions
    from acp_server.schema.features import FEATURES
    from acp_server.schema.versions import versions

    unstable = {method for each in FEATURES.values() if each.state == "unstable" for method in each.methods}
    known = {method for version in versions() for method in version.methods}
    if name in known - unstable:
        raise UsageError(
            f"{name} is a method of the protocol: name your own method with a leading _, or pass replace=True to "
            f"answer {name} for every client in the protocol's form"
        )
    if not any(method.partition("/")[0] == name.partition("/")[0] for method in known):
        # A name with the prefix of protocol methods may be of a draft.
        logger.warning(
            "no client sends %r, because the name of an extension method begins with _; name it %r", name, f"_{name}"
        )


def bare(register: M) -> M:
    """Make a decorator that takes only the function and is `early`. It raises UsageError if it is called without a
    function."""

    @wraps(register)
    def checked(agent: Any, *args: Any, **options: Any) -> Any:
        if not args:
            name = register.__name__
            raise UsageError(f"@agent.{name} is written without parentheses and takes only the function")
        return early(register)(agent, *args, **options)

    return cast("M", checked)


def early(register: M) -> M:
    """Make a method of an agent that must be called before a client is served, since each connection reads the
    definition when it is made. The method raises UsageError while a client is served."""

    @wraps(register)
    def checked(agent: Any, *args: Any, **options: Any) -> Any:
        name = register.__name__
        if agent.is_serving:
            raise UsageError(
                f"agent.{name} cannot be called while the agent serves a client{_IN_SESSIONS.get(name, '')}"
            )
        return register(agent, *args, **options)

    return cast("M", checked)


_IN_SESSIONS: Final = {
    "modes": "; session.set_modes(...) changes them in one session",
    "config_options": "; session.set_options(...) changes them in one session",
    "command": "; session.set_commands(...) changes them in one session",
}


def check_choices(definition: AgentDefinition) -> None:
    """Raise UsageError for a handler of modes or options that can never be called. Session handlers may offer modes or
    options. If there are any session handlers, the first session without modes or options logs the mistake instead."""
    if not definition.open_session and (why := definition.uncalled(definition.modes, definition.config_options)):
        raise UsageError(why)


def limits_of(limits: Limits | None) -> Limits:
    """Return `limits`, or the defaults for None. Raises UsageError for anything else."""
    if limits is not None and not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"limits must be a Limits object, not {limits!r}")
    return limits or Limits()


def having(what: str, value: T, *methods: str) -> T:
    """Return `value`. Raises UsageError unless it is None or an object with these methods."""
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if value is None or not (missing or isinstance(value, type)):
        return value
    lacks = "not a class" if isinstance(value, type) else f"but {value!r} lacks some of them"
    raise UsageError(f"{what} must be an object with the methods {', '.join(methods)}, {lacks}")


def observers_of(values: Iterable[Observer]) -> Observers | None:
    """`values`, or None without any. Raises UsageError unless it is an iterable of observers."""
    given: Any = values
    listed = tuple(cast("Iterable[Observer]", given)) if isinstance(given, Iterable) else None
    if listed is None or not all(isinstance(value, Observer) for value in cast("tuple[Any, ...]", listed)):
        raise UsageError(f"observers must be a list of Observer instances, not {given!r}")
    return Observers(listed) if listed else None


def store_of(value: T) -> T:
    """Return `value`, a session store or None. Raises UsageError for anything else."""
    store: Any = having("store", value, "save", "load", "list", "delete")
    if store is not None:
        _check_called("save", store.save, "record")
        _check_called("load", store.load, "session_id", cwd="/")
        _check_called("list", store.list, None, None)
        _check_called("delete", store.delete, "session_id")
    return value


def _check_called(name: str, method: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Raise UsageError if a store's method cannot be called with these arguments."""
    try:
        signature_of(method).bind(*args, **options)
    except TypeError as error:
        raise UsageError(f"store.{name} does not accept the arguments of SessionStore.{name}: {error}") from None
    except ValueError:
        pass  # a function that is not written in Python may have no signature


def switch(what: str, on: bool) -> bool:
    """Return `on`. Raises UsageError unless it is True or False, because the text "no" would count as true."""
    if not isinstance(on, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"{what} must be True or False, not {on!r}")
    return on


def several(what: str, values: Iterable[T], kind: type) -> tuple[T, ...]:
    """Return `values` as a tuple. Raises UsageError unless they are an iterable of items of `kind`. A single string is
    refused."""
    given: Any = values
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        listed = tuple(cast("Iterable[T]", given))
        if all(isinstance(value, kind) for value in listed):
            return listed
    raise UsageError(f"{what} must be a list of {'strings' if kind is str else 'numbers'}, not {given!r}")


def versions_of(values: Iterable[int]) -> tuple[int, ...]:
    """Return `values` in their order. Raises UsageError unless they are protocol versions that agents can speak."""
    from acp_server.session.versions import spoken

    asked = {*several("versions", values, int)}
    if not asked or asked - {*spoken()}:
        raise UsageError(f"versions must list version {' or '.join(map(str, spoken()))} of the protocol, or both")
    return tuple(sorted(asked))


def modes_of(values: tuple[SessionMode, ...], before: list[SessionMode]) -> tuple[SessionMode, ...]:
    """Return `values`. Raises UsageError for anything but modes, and for an id that occurs twice, in `values` or in
    `before`."""
    from acp_server.session.settings import check_modes

    _check_some("modes", values)
    check_modes((*before, *values))
    return values


def options_of(values: tuple[Option, ...], before: list[Option]) -> tuple[Option, ...]:
    """`values`. Raises UsageError for anything but config options, for an option whose default is not among its values,
    and for an id that occurs twice, here or in `before`."""
    from acp_server.session.settings import check_options

    _check_some("config_options", values)
    check_options((*before, *values))
    return values


def _check_some(what: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise UsageError(f"agent.{what} was called without arguments; pass at least one")


def described(method: dict[str, Any], description: str | None) -> dict[str, Any]:
    """Return a login method, with its description if there is one."""
    return method if description is None else {**method, "description": description}
