"""Adapts the functions that agent authors write to the interfaces that the protocol's side calls.

It adapts prompt handlers, session handlers, methods and notification handlers. It also adds two parts that an author
does not register: the method that cancels one tool call, and, with `mcp=True`, the connection to the MCP servers that
the client names.

A function is inspected once, at registration, so that mistakes are reported when the program starts.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from acp_server.errors import InvalidParams, UsageError
from acp_server.peer.call import NAME, Call, Handler, NoticeHandler, Route
from acp_server.peer.peer import Peer
from acp_server.schema.versions import answer_of_none
from acp_server.signatures import signature_of
from acp_server.tasks.running import drain
from acp_server.tools.parameters import Parameters, jsonable, name_of

if TYPE_CHECKING:
    from acp_server.session.definition import AgentDefinition, McpHost, PromptHandler, ReplayHandler, SessionHandler
    from acp_server.session.session import Session
    from acp_server.session.turn import Turn

logger: logging.Logger = logging.getLogger("acp_server.agent")


def prompt_handler(function: Callable[..., Any]) -> PromptHandler:
    """Return a prompt handler for an async generator or async function that takes one turn. Raises UsageError for
    anything else.

    Values that a generator yields are sent at once: text, content blocks or session updates. The return value of a
    function is sent too, unless it is None.
    """
    if callable(function):
        check_takes(function, "prompt handler", "turn")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return function
    raise UsageError(f"a prompt handler must be `async def`: {name_of(function)}")


def replay_handler(function: Callable[..., Any]) -> ReplayHandler:
    """Return a replay handler for an async generator that takes one session. Raises UsageError for anything else."""
    check_takes(function, "replay handler", "session")
    if not inspect.isasyncgenfunction(function):
        raise UsageError(f"a replay handler must be `async def` and yield: {name_of(function)}")
    return function


def session_handler(function: Callable[..., Any]) -> SessionHandler:
    """Return a session handler for a function that takes one session, async or not. If the function is an async
    generator or returns an async context manager, the handler enters it and keeps it entered. Raises UsageError for
    anything else."""
    check_takes(function, "session handler", "session")
    if inspect.isgeneratorfunction(function):
        raise UsageError(f"a session handler that yields must be `async def`: {name_of(function)}")

    async def prepare(session: Session) -> None:
        made = function(session) if _is_async(function) else await _in_thread(function, session)
        # Some objects can be awaited and entered; then they are entered, since only that determines when they close.
        if not _can_be_held(made) and inspect.isawaitable(made):
            made = await made
        if _can_be_held(made):
            value = await session.enter(_held(made))
            if value is not None:
                session.data = value
        else:
            useless(made)

    useless = _Useless(f"the session handler {name_of(function)}", "yield it, or set session.data")
    prepare.__qualname__ = name_of(function)
    return prepare


def _can_be_held(made: Any) -> bool:
    return inspect.isasyncgen(made) or isinstance(made, AbstractAsyncContextManager)


def _held(made: Any) -> AbstractAsyncContextManager[Any]:
    if not inspect.isasyncgen(made):
        return made
    generator = cast("AsyncGenerator[Any]", made)
    return asynccontextmanager(lambda: generator)()


def as_async(function: Callable[..., Any], what: str, *takes: str) -> Callable[..., Awaitable[Any]]:
    """Return an async function for a function that may be synchronous. It is called with the positional arguments
    `takes`. Raises UsageError if the function does not accept them. `what`: what messages call the function."""
    check_takes(function, what, *takes)
    _check_returns(function)
    if inspect.iscoroutinefunction(function):
        return function

    async def call(*args: Any) -> Any:
        made = _checked(function, await _in_thread(function, *args))
        return await made if inspect.isawaitable(made) else made

    call.__qualname__ = name_of(function)
    return call


def deciding(function: Callable[..., Any], what: str, *takes: str) -> Callable[..., Awaitable[None]]:
    """Return an async function for a function that refuses by raising and whose return value has no effect. If the
    function returns False, UsageError is raised: its author means a refusal, and a login that returned False would let
    every client in. Any other return value is logged once."""
    handler = as_async(function, what, *takes)
    useless = _Useless(f"the {what} {name_of(function)}", "what it returns is not used")

    async def call(*args: Any) -> None:
        useless(await handler(*args))

    call.__qualname__ = name_of(function)
    return call


class _Useless:
    """Reports that a handler returned a value that has no effect. `who`: the handler in the message. `instead`: what to
    do instead."""

    def __init__(self, who: str, instead: str) -> None:
        self._who = who
        self._instead = instead
        self._said = False

    def __call__(self, returned: Any) -> None:
        if returned is False:
            raise UsageError(
                f"{self._who} returned False, which does not refuse the login; raise an error, such as InvalidParams"
            )
        if returned is not None and not self._said:
            self._said = True
            what = f"{self._who} returned a {type(returned).__name__}, which has no effect"
            logger.warning("%s: %s", what, self._instead)


_NUMBERS: Final = {1: "one argument", 2: "two arguments", 3: "three arguments"}


def check_takes(function: Callable[..., Any], what: str, *arguments: str) -> None:
    """Raise UsageError unless `function` can be called with these positional arguments. `what`: what messages call the
    function."""
    if not callable(function):
        raise UsageError(f"expected a function, got {type(function).__name__}")
    try:
        signature = signature_of(function)
    except ValueError:
        return  # a function that is not written in Python may have no signature
    try:
        signature.bind(*arguments)
        check_first(function, next(iter(signature.parameters.values())), arguments[0])
    except TypeError as error:
        *others, last = (f"the {argument}" for argument in arguments)
        listed = f"{', '.join(others)} and {last}" if others else last
        wanted = f"must take {_NUMBERS[len(arguments)]}, {listed}"
        raise UsageError(f"the {what} {name_of(function)!r} {wanted} ({error})") from None


_OURS: Final = {
    "turn": "Turn",
    "session": "Session",
    "call": "Call",
    "connection": "Connection",
    "initialization": "Initialization",
}
"""The classes of handlers' first arguments, by the name that messages use for them."""
_RUNTIME: Final = {*_OURS.values(), "ToolContext"}
_OF_JSON: Final = re.compile(r"(str|int|float|bool|bytes|list|dict|tuple|set)\b")


def check_first(function: Callable[..., Any], first: inspect.Parameter, what: str) -> None:
    """Raise UsageError if the parameter `first` is annotated as JSON data or as another object of the runtime. `what`:
    the object that is passed for it."""
    annotation = first.annotation
    declared = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    named = declared.rpartition(".")[2]
    if _OF_JSON.match(declared) or (named in _RUNTIME and named != _OURS.get(what, named)):
        raise UsageError(
            f"the runtime passes the {what} as the first argument of {name_of(function)!r}, but its first parameter "
            f"is {first.name}: {declared}"
        )


def _check_returns(function: Callable[..., Any]) -> None:
    """Raise UsageError for a function that yields, because its body would never run. A login whose check never runs
    lets every client in."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the body of a callable object
    if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in (function, called)):
        raise UsageError(f"{name_of(function)} must return its result, not yield it")


def _begun(function: Callable[..., Any], *args: Any, **arguments: Any) -> Awaitable[Any] | None:
    """Call a function. Returns its awaitable if it is async, else None. Raises UsageError like `_checked`."""
    made = _checked(function, function(*args, **arguments))
    return made if inspect.isawaitable(made) else None


def _checked(function: Callable[..., Any], made: Any) -> Any:
    """Return `made`, the function's result. Raises UsageError for a generator, since its body has not run. A wrapped
    function may return one."""
    if isinstance(made, (GeneratorType, AsyncGeneratorType)):
        raise UsageError(f"{name_of(function)} must return its result, not yield it")
    return made


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling the function only makes an object to await or to enter."""
    body = inspect.unwrap(function)
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (function, body))


_THREADS: Final = 40
_threads: RunVar[anyio.CapacityLimiter] = RunVar("acp_server handler threads")
"""The handlers' own limiter, so that a function that hangs does not take a thread from the rest of the program."""


def method_handler(function: Callable[..., Any], name: str) -> Handler:
    """Return the handler of the method `name` for a function that takes a `Call` and typed, named parameters.

    The parameters are validated against their annotations, without `_meta` (see `Call.meta`). The result may be
    anything that JSON can express, including pydantic models and dataclasses. A plain `def` runs in a worker thread,
    which stays occupied until the function ends, also after the request was answered without it.
    """
    _check_returns(function)
    read = _reader(function, "call")
    is_async = inspect.iscoroutinefunction(function)

    async def handler(call: Call) -> Any:
        arguments = read(call.params)
        if is_async:
            result = await function(call, **arguments)
        else:
            result = await _in_thread(function, call, **arguments)
            if inspect.isawaitable(result):
                result = await result
        return answer_of_none(name) if result is None else jsonable(result)

    return handler


def notification_handler(function: Callable[..., Any]) -> NoticeHandler:
    """Return a notification handler for a function that takes a connection and typed, named parameters. Invalid
    parameters are logged."""
    _check_returns(function)
    read = _reader(function, "connection")

    def handler(connection: Any, params: Any) -> Awaitable[None] | None:
        try:
            arguments = read(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
        except InvalidParams as error:
            # The peer's mistake and not the handler's; a notification has no response.
            logger.warning("invalid parameters for %s: %s", name_of(function), error.data)
            return None
        return _begun(function, connection, **arguments)

    return handler


async def _in_thread(function: Callable[..., Any], *args: Any, **arguments: Any) -> Any:
    """Call a plain function that answers a request, in a thread. While the function blocks, cancels and other sessions
    are handled."""
    # In a tuple, since anyio does not let a thread return a coroutine.
    (made,) = await anyio.to_thread.run_sync(lambda: (function(*args, **arguments),), limiter=_limiter())
    return made


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _threads.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _threads.set(limiter)
        return limiter


def _reader(function: Callable[..., Any], what: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that validates received parameters against the annotations of `function`, without its first
    parameter, and returns the arguments for it. Raises UsageError if `function` cannot be called with them. `what`: the
    first argument."""
    try:
        signature = signature_of(function)
    except (TypeError, ValueError) as error:
        raise UsageError(f"expected a function, got {function!r}: {error}") from error
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
        raise UsageError(f"{name_of(function)} needs a first parameter for the {what}")
    parameters = Parameters(function, lambda parameter: parameter.name == first.name)
    parameters.check()
    check_first(function, first, what)
    return parameters.read


CANCEL_TOOL_CALL: Final = "_tool_call/cancel"
"""The method that cancels one tool call while its turn continues. Parameters: `sessionId`, `toolCallId`. It is
`tool_call/cancel` in the next version of the protocol. The response means that the call is being cancelled; -32602
means that no such call is running. The final status of the tool call follows."""


def offer_tool_cancel(definition: AgentDefinition, find: Callable[[Peer, str], Session]) -> None:
    """Make the agent answer `CANCEL_TOOL_CALL` and announce it, unless the author has registered the method. `find`
    finds an open session of a connection."""

    def cancel(call: Call) -> None:
        # In the reader, so that it is never queued after the call that it cancels.
        session_id, id = call.params.get("sessionId"), call.params.get("toolCallId")
        if not isinstance(session_id, str) or not isinstance(id, str):
            raise InvalidParams("sessionId and toolCallId must be strings")
        session = find(call.connection, session_id)
        if not any(session.tools.cancel_from_client(turn.face, id) for turn in session.turns):
            raise InvalidParams("No tool call with this toolCallId is running", data={"toolCallId": id[:NAME]})

    definition.methods.setdefault(CANCEL_TOOL_CALL, Route(_nothing, register=cancel, urgent=True))
    definition.extensions.setdefault(CANCEL_TOOL_CALL, {})


async def _nothing(_call: Call) -> dict[str, Any]:
    return {}


def mcp_host(session: Session) -> McpHost:
    """Return the object that connects to the MCP servers of a session."""
    from acp_server.mcp.servers import Servers

    return Servers(session)


def connecting(trusted: Collection[str]) -> SessionHandler:
    """Return a session handler that begins to connect to the session's MCP servers. `trusted`: see `McpHost.connect`.
    Raises UsageError if the extra `mcp` is not installed."""
    from acp_server.mcp.servers import need_extra

    need_extra()

    async def connect(session: Session) -> None:
        if session.mcp_servers:
            await session.mcp.connect(trusted=trusted)

    return connect


def behind_servers(handler: PromptHandler) -> PromptHandler:
    """Return a prompt handler that begins when the MCP servers are connected or their time-out has expired."""

    async def prompt(turn: Turn) -> Any:
        if turn.session.mcp_servers:
            await turn.session.mcp.ready(turn)
        answering = handler(turn)
        if not isinstance(answering, AsyncGeneratorType):
            return await answering
        await drain(answering, turn.show)
        return None

    return prompt
