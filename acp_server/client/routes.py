"""From the agent's requests and notifications to the program's handlers, with typed parameters and results.

It holds no state of its own; how much an agent may have under way is counted in `acp_server.client.bounds`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from pydantic import ValidationError

from acp_server.client.bounds import Bounds
from acp_server.client.handlers import Handlers
from acp_server.client.permission import Permissions
from acp_server.errors import InvalidParams, UsageError
from acp_server.peer.connection import Connection
from acp_server.peer.context import Call
from acp_server.peer.route import Handler, Notice, NoticeHandler, Route, Routes
from acp_server.schema.methods import METHODS, Method

_TERMINAL_METHODS: Final = ("create", "output", "wait_for_exit", "kill", "release")

_QUESTIONS: Final = frozenset({"session/request_permission", "elicitation/create"})
_LARGE: Final = frozenset({"fs/read_text_file", "terminal/output"})

_Answer = Callable[[Any], Awaitable[Any]]


def client_routes(handlers: Handlers, permissions: Permissions, on_update: NoticeHandler) -> Routes:
    """The routes for what `handlers` has. Raises UsageError for a method of its own that the protocol has already."""
    bounds = Bounds()
    routes = Routes()
    routes.on_notice("session/update", Notice(on_update))

    async def permission(call: Call) -> Any:
        return await permissions.answer(call, _params(METHODS["session/request_permission"], call))

    requests: dict[str, Handler] = {"session/request_permission": permission}
    answers: dict[str, _Answer | None] = {
        "fs/read_text_file": getattr(handlers.files, "read_text_file", None),
        "fs/write_text_file": getattr(handlers.files, "write_text_file", None),
        "elicitation/create": _elicitation(handlers),
    }
    if handlers.terminals is not None:
        answers |= {f"terminal/{name}": getattr(handlers.terminals, name) for name in _TERMINAL_METHODS}
    for name, answer in answers.items():
        if answer is not None:
            requests[name] = _typed(METHODS[name], answer)
    for name, answer in handlers.methods.items():
        if name in METHODS:
            raise UsageError(f"{name} is a method of the protocol; it has a handler of its own")
        requests[name] = _raw(answer)
    for name, handler in requests.items():
        admit = bounds.admit_question if name in _QUESTIONS else None
        routes.requests[name] = Route(_large(bounds, handler) if name in _LARGE else handler, admit)
    if handlers.url_done is not None:
        routes.on_notice("elicitation/complete", Notice(_typed_notice("elicitation/complete", handlers.url_done)))
    for name, act in handlers.notifications.items():
        routes.on_notice(name, Notice(_raw_notice(act)))
    return routes


def _params(method: Method, call: Call) -> Any:
    try:
        return method.read_params(call.request.params)
    except ValidationError as error:
        from acp_server.schema.reading import explain

        raise InvalidParams(data={"problems": explain(error)}) from None


def _large(bounds: Bounds, handler: Handler) -> Handler:
    async def in_turn(call: Call) -> Any:
        return await bounds.large(call, lambda: handler(call))

    return in_turn


def _typed(method: Method, answer: _Answer) -> Handler:
    async def handler(call: Call) -> Any:
        result = await answer(_params(method, call))
        return {} if result is None else result

    return handler


def _raw(answer: _Answer) -> Handler:
    async def handler(call: Call) -> Any:
        return await answer(call.params)

    return handler


def _typed_notice(name: str, act: Callable[[Any], Awaitable[None] | None]) -> NoticeHandler:
    def handler(_connection: Connection, params: Any) -> Awaitable[None] | None:
        return act(METHODS[name].read_params(params))

    return handler


def _raw_notice(act: Callable[[dict[str, Any]], Awaitable[None] | None]) -> NoticeHandler:
    def handler(_connection: Connection, params: Any) -> Awaitable[None] | None:
        return act(cast("dict[str, Any]", params) if isinstance(params, dict) else {})

    return handler


def _elicitation(handlers: Handlers) -> _Answer | None:
    modes: dict[str, _Answer | None] = {"form": handlers.form, "url": handlers.url}
    if not any(modes.values()):
        return None

    async def answer(request: Any) -> Any:
        ask = modes.get(request.mode)
        if ask is None:
            raise InvalidParams(f"Invalid params: elicitation of mode {request.mode!r} was not announced")
        return await ask(request)

    return answer
