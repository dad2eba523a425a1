"""Calls the method of a request through jsonrpcserver's per-request functions.

Only this module imports jsonrpcserver. The import takes longer than the rest of the start-up, so it happens with the
first call of an author's method. The library's `dispatch` functions are not used, because they use `asyncio.gather`,
which knows neither trio nor cancel scopes. Exceptions of methods bypass the library, because it would send their texts
to the peer.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from acp_server.errors import RpcError
from acp_server.peer.call import Handler, LiveCall, Route
from acp_server.signatures import signature_of
from acp_server.tasks.tree import NOTHING

with warnings.catch_warnings():
    # Its import uses a deprecated function of importlib, and would fail where warnings are errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    from jsonrpcserver import JsonRpcError, Result, Success
    from jsonrpcserver.async_dispatcher import call as call_method
    from jsonrpcserver.async_dispatcher import dispatch_request
    from jsonrpcserver.dispatcher import to_response
    from jsonrpcserver.request import Request as MethodCall
    from jsonrpcserver.response import to_serializable_one

_Entry = Callable[..., Awaitable[Result]]

_DONE = Success(None)


class Resolver:
    """The methods of one side of a connection."""

    __slots__ = ("_methods", "_own")

    def __init__(self, routes: Mapping[str, Route]) -> None:
        # Typed as Any: the library's types have no place for the call that our entries take.
        self._own: dict[str, Any] = {
            name: _entry(route.handler) for name, route in routes.items() if route.handler is not None
        }
        self._methods: dict[str, Any] = dict(self._own)
        for name, route in routes.items():
            if route.foreign is not None:
                self._methods[name] = _foreign_entry(route.foreign)

    async def resolve(self, call: LiveCall) -> Any:
        """Call the method and return its result. Raises the exceptions of the method, and RpcError for invalid
        parameters."""
        request = call.request
        params = request.params
        method_call = MethodCall(request.method, params or {}, request.id)
        own = self._own.get(request.method)
        method = _Method(call)
        if own is not None and not isinstance(params, list):
            # The entry takes any named parameters, so binding them, which is most of the cost, is not needed.
            result = await call_method(method_call, method, own)
        else:
            method_call, result = await dispatch_request(self._methods, method, method_call)
        if method.failure is not None:
            try:
                raise method.failure
            finally:
                # The exception refers to this frame by its traceback: without this, a reference cycle.
                method.failure = None
        if method.value is not NOTHING:
            return method.value
        # The library refused the call. Its error data is the text of an exception, which must not leave the process.
        error = _as_dict(method_call, result)["error"]
        raise RpcError.from_wire({"code": error["code"], "message": error["message"]})


class _Method:
    """The result or exception of a method, passed around jsonrpcserver."""

    __slots__ = ("call", "failure", "value")

    def __init__(self, call: LiveCall) -> None:
        self.call = call
        self.value: Any = NOTHING
        self.failure: Exception | None = None


def _as_dict(method_call: MethodCall, result: Result) -> dict[str, Any]:
    return cast("dict[str, Any]", to_serializable_one(cast("Any", to_response(method_call, result))))


_CALL: Final = inspect.Parameter("_the_call", inspect.Parameter.POSITIONAL_ONLY)


def _entry(handler: Handler) -> _Entry:
    async def method(of: _Method, /, **_params: Any) -> Result:
        try:
            of.value = await handler(of.call)
        except Exception as error:
            of.failure = error
        return _DONE

    return method


def _foreign_entry(function: Callable[..., Awaitable[Any]]) -> _Entry:
    async def method(of: _Method, /, *args: Any, **params: Any) -> Result:
        try:
            answer = _as_dict(MethodCall("", {}, 0), await function(*args, **params))
            if "error" in answer:
                of.failure = RpcError.from_wire(answer["error"])
            else:
                of.value = answer["result"]
        except JsonRpcError as error:
            of.failure = RpcError(str(error.message), code=error.code, data=error.data)
        except Exception as error:
            of.failure = error
        return _DONE

    # The signature of the function, behind the call, so that the library checks the parameters before the call.
    shown = signature_of(function).parameters.values()
    method.__signature__ = inspect.Signature([_CALL, *shown])  # type: ignore[attr-defined]
    return method
