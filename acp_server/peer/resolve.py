"""From a request to the method that answers it, through jsonrpcserver's per-request core.

The only module that imports jsonrpcserver, whose import takes longer than all else that a client waits for at
start-up; so it is imported when the first method is called. The library's `dispatch` functions are not used: they
gather, which knows neither trio nor cancel scopes. Exceptions never reach it, since it would put their texts on the
wire.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from acp_server.errors import RpcError
from acp_server.peer.call import Call, Handler, Route
from acp_server.signatures import signature_of
from acp_server.tasks.tree import NOTHING

with warnings.catch_warnings():
    # It reads its schema as Python deprecates it; where warnings are errors, it could not be imported.
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
    """The method table of one side of a connection."""

    __slots__ = ("_methods", "_own")

    def __init__(self, routes: Mapping[str, Route]) -> None:
        # To the library's types, a method takes no call.
        self._own: dict[str, Any] = {
            name: _entry(route.handler) for name, route in routes.items() if route.handler is not None
        }
        self._methods: dict[str, Any] = dict(self._own)
        for name, route in routes.items():
            if route.foreign is not None:
                self._methods[name] = _foreign_entry(route.foreign)

    async def resolve(self, call: Call) -> Any:
        """What the method returned. Raises what it raised, or an RpcError if it cannot be called like this."""
        request = call.request
        params = request.params
        method_call = MethodCall(request.method, params or {}, request.id)
        own = self._own.get(request.method)
        method = _Method(call)
        if own is not None and not isinstance(params, list):
            # It takes any named parameters, so there is nothing to bind, which would be most of the cost.
            result = await call_method(method_call, method, own)
        else:
            method_call, result = await dispatch_request(self._methods, method, method_call)
        if method.failure is not None:
            try:
                raise method.failure
            finally:
                # It holds on to the frames that it came through, and so to itself.
                method.failure = None
        if method.value is not NOTHING:
            return method.value
        # The library's own refusal. Its data is the text of an exception, so it stays here.
        error = _as_dict(method_call, result)["error"]
        raise RpcError.from_wire({"code": error["code"], "message": error["message"]})


class _Method:
    """What came of a method, past jsonrpcserver."""

    __slots__ = ("call", "failure", "value")

    def __init__(self, call: Call) -> None:
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

    # The function's own parameters behind the call, so that the library checks them before it is called.
    shown = signature_of(function).parameters.values()
    method.__signature__ = inspect.Signature([_CALL, *shown])  # type: ignore[attr-defined]
    return method
