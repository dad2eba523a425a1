"""What an author says of an agent, looked at when the agent is made, so that mistakes show when the program starts.

Nothing is imported for it that an author's program has not imported by then. What an agent can announce is known in
`acp_server.session.definition`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from acp_server.errors import UsageError
from acp_server.peer.limits import Limits
from acp_server.signatures import signature_of

if TYPE_CHECKING:
    from acp_server.schema.config_options import SessionMode
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.settings import Option

logger: logging.Logger = logging.getLogger("acp_server.agent")

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])


def check_texts(name: Any, version: Any, title: Any) -> None:
    """Raise UsageError unless these can be told to clients, which want strings."""
    for what, value in {"name": name, "version": version, "title": "" if title is None else title}.items():
        if not isinstance(value, str):
            raise UsageError(f"the {what} of an agent is a string, and not {value!r}")
    if not name:
        raise UsageError("an agent needs a name")


def check_method(name: Any) -> None:
    """Raise UsageError unless a method or a notification can have this name."""
    if not isinstance(name, str) or not name:
        given = "a function" if callable(name) else repr(name)
        raise UsageError(f'expected the name of a method, as in @agent.method("_mine"), got {given}')


def check_command(name: Any) -> None:
    """Raise UsageError for a decorator that was written without the name of its command."""
    if callable(name):
        raise UsageError('expected the name of a command, as in @agent.command("notes"), got a function')


def check_own_method(name: str) -> None:
    """Raise UsageError if the name is that of a stable method of the protocol, in any version of it."""
    if name.startswith("_"):
        return  # the protocol has none of those, nor ever will
    from acp_server.schema.features import FEATURES
    from acp_server.schema.versions import versions

    unstable = {method for each in FEATURES.values() if each.state == "unstable" for method in each.methods}
    known = {method for version in versions() for method in version.methods}
    if name in known - unstable:
        raise UsageError(
            f"{name} is a method of the protocol: give yours a name that begins with _, or say replace=True if yours "
            "is to answer it for every client, in the protocol's form"
        )
    if not any(method.partition("/")[0] == name.partition("/")[0] for method in known):
        # What begins as methods of the protocol do may be one of a draft.
        logger.warning("no client sends %r: names of your own begin with _, as in %r", name, f"_{name}")


def bare(register: M) -> M:
    """A decorator that takes nothing but the function, and is `early`. Raises UsageError where it is called without a
    function."""

    @wraps(register)
    def checked(agent: Any, *args: Any, **options: Any) -> Any:
        if not args:
            name = register.__name__
            raise UsageError(f"@agent.{name} takes nothing but its function: write it without parentheses")
        return early(register)(agent, *args, **options)

    return cast("M", checked)


def early(register: M) -> M:
    """A method of an agent that is called before a client is served, for it learns of the agent when it connects.
    Raises UsageError while one is."""

    @wraps(register)
    def checked(agent: Any, *args: Any, **options: Any) -> Any:
        name = register.__name__
        if agent.is_serving:
            raise UsageError(f"agent.{name} is for the time before clients are served{_IN_SESSIONS.get(name, '')}")
        return register(agent, *args, **options)

    return cast("M", checked)


_IN_SESSIONS: Final = {
    "modes": "; session.set_modes(...) changes them in one session",
    "config_options": "; session.set_options(...) changes them in one session",
    "command": "; session.set_commands(...) changes them in one session",
}


def check_choices(definition: AgentDefinition) -> None:
    """Raise UsageError for a handler of modes or options that is never called. Where there are session handlers, which
    may offer some, the log says so once that they have not."""
    if not definition.open_session and (why := definition.uncalled(definition.modes, definition.config_options)):
        raise UsageError(why)


def limits_of(limits: Limits | None) -> Limits:
    """`limits`, or the default ones. Raises UsageError for anything else."""
    if limits is not None and not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"limits are Limits(...), and not {limits!r}")
    return limits or Limits()


def having(what: str, value: T, *methods: str) -> T:
    """`value`. Raises UsageError unless it is None, or an object that has these methods."""
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if value is None or not (missing or isinstance(value, type)):
        return value
    lacks = "not a class" if isinstance(value, type) else f"which {value!r} has not"
    raise UsageError(f"{what} must be an object with the methods {', '.join(methods)}, {lacks}")


def store_of(value: T) -> T:
    """`value`, a store of sessions or None. Raises UsageError for anything else."""
    store: Any = having("store", value, "save", "load", "list", "delete")
    if store is not None:
        _check_called("save", store.save, "record")
        _check_called("load", store.load, "session_id", cwd="/")
        _check_called("list", store.list, None, None)
        _check_called("delete", store.delete, "session_id")
    return value


def _check_called(name: str, method: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Raise UsageError for a method of a store that cannot be called with these."""
    try:
        signature_of(method).bind(*args, **options)
    except TypeError as error:
        raise UsageError(f"store.{name} is not called as SessionStore.{name} is ({error})") from None
    except ValueError:
        pass  # of some that are not written in Python nothing is known


def switch(what: str, on: bool) -> bool:
    """`on`. Raises UsageError for what is neither True nor False: the text "no" would be true."""
    if not isinstance(on, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"{what} is True or False, and not {on!r}")
    return on


def several(what: str, values: Iterable[T], kind: type) -> tuple[T, ...]:
    """All of `values`. Raises UsageError unless they are several of this kind; one string is not."""
    given: Any = values
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        listed = tuple(cast("Iterable[T]", given))
        if all(isinstance(value, kind) for value in listed):
            return listed
    raise UsageError(f"{what} must be a list of {'strings' if kind is str else 'numbers'}, and not {given!r}")


def versions_of(values: Iterable[int]) -> tuple[int, ...]:
    """`values`, in their order. Raises UsageError unless they are versions of the protocol that agents can speak."""
    from acp_server.session.versions import spoken

    asked = {*several("versions", values, int)}
    if not asked or asked - {*spoken()}:
        raise UsageError(f"an agent speaks version {' or '.join(map(str, spoken()))} of the protocol, or both")
    return tuple(sorted(asked))


def modes_of(values: tuple[SessionMode, ...], before: list[SessionMode]) -> tuple[SessionMode, ...]:
    """`values`. Raises UsageError for anything that is not a mode, and for one whose id another has, here or among
    those of `before`."""
    from acp_server.session.settings import check_modes

    _check_some("modes", values)
    check_modes((*before, *values))
    return values


def options_of(values: tuple[Option, ...], before: list[Option]) -> tuple[Option, ...]:
    """The same for config options, whose default has to be one of their values."""
    from acp_server.session.settings import check_options

    _check_some("config_options", values)
    check_options((*before, *values))
    return values


def _check_some(what: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise UsageError(f"agent.{what} was given none to offer")


def described(method: dict[str, Any], description: str | None) -> dict[str, Any]:
    """A way to log in, with its description if there is one."""
    return method if description is None else {**method, "description": description}
