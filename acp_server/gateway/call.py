"""One request to the API: who calls, its parameters, its body; and how its answer is written.

What the answer is, is decided in `endpoints`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route

from acp_server.gateway import errors
from acp_server.gateway.auth import Caller
from acp_server.gateway.bodies import read
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.events import EventStream, Listener
from acp_server.gateway.gateway import Gateway
from acp_server.gateway.messages import TooDeep, whole_json
from acp_server.wire.codec import DecodeError, decode

_B = TypeVar("_B", bound=Any)
_MOST_PAGES = 10**9


@dataclass(frozen=True, slots=True)
class Answer:
    """The `data` of a good answer, and fields beside it."""

    data: Any
    more: dict[str, Any] = field(default_factory=dict[str, Any])


Handler = Callable[["Call"], Awaitable["Answer | Listener"]]


class Call:
    """What a handler works with."""

    def __init__(self, gateway: Gateway, caller: Caller, request: Request) -> None:
        self.gateway = gateway
        self.caller = caller
        self._request = request

    def query(self, name: str) -> str | None:
        """A parameter of the URL; None if it is not there."""
        return self._request.query_params.get(name)

    def number(self, name: str, default: int, most: int = _MOST_PAGES) -> int:
        """A parameter of the URL that is a number from 1 to `most`. Raises ApiError."""
        text = self.query(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
            raise ApiError(Code.BAD_PARAMETER, f"{name} has to be a number from 1 to {most}")
        return int(text)

    def path(self, name: str) -> str:
        """A part of the URL's path."""
        return self._request.path_params[name]

    async def body(self, kind: type[_B]) -> _B:
        """The body, read as one of `bodies`. Raises ApiError."""
        limits = self.gateway.limits
        with anyio.move_on_after(limits.body_seconds):
            text = await _read(self._request, limits.body)
            if not text:
                return read(kind, None)
            try:
                data = whole_json(decode(text))
            except DecodeError:
                raise ApiError(Code.BAD_PARAMETER, "the body is not JSON") from None
            except TooDeep:
                raise ApiError(Code.BAD_PARAMETER, "the body is nested too deep") from None
            return read(kind, data)
        raise ApiError(Code.BAD_PARAMETER, f"the body did not arrive within {limits.body_seconds:g} s")


def endpoint(
    gateway: Gateway, path: str, permission: str, handler: Handler
) -> Callable[[Request], Awaitable[Response]]:
    """What starlette calls for a route."""

    async def respond(request: Request) -> Response:
        state = request.scope["state"]
        state["route"] = path
        logid: str = state["logid"]
        try:
            caller = gateway.tokens.caller(request.headers.get("authorization"))
            state["caller"] = caller.name
            caller.need(permission)
            result = await handler(Call(gateway, caller, request))
        except ApiError as error:
            state["code"] = error.code.value
            answer = _json(errors.failure(error, logid), 200 if error.retry_after is None else 503)
            if error.retry_after is not None:
                answer.headers["Retry-After"] = str(error.retry_after)
            return answer
        except ClientDisconnect:
            return Response()
        except Exception as error:
            errors.log_fault(error, "logid %s: the request failed", logid)
            state["code"] = Code.INTERNAL.value
            return _json(errors.failure(ApiError(Code.INTERNAL, "internal error"), logid))
        state["code"] = 0
        if isinstance(result, Listener):
            return EventStream(result)
        return _json(errors.success(result.data, logid, **result.more))

    return respond


async def refuse(request: Request, error: Exception) -> Response:
    """There is no such route, or not with this method."""
    status = getattr(error, "status_code", 500)
    request.scope["state"]["code"] = code = Code.BAD_PARAMETER if status == 405 else Code.NOT_FOUND
    answer = _json(errors.failure(ApiError(code, "the API has no such call"), request.scope["state"]["logid"]), status)
    if status == 405:
        answer.headers["Allow"] = ", ".join(_methods(request))
    return answer


def _methods(request: Request) -> list[str]:
    """With which methods there is such a route."""
    routes: list[Route] = request.app.routes
    here = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in here for method in route.methods or ()})


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


async def _read(request: Request, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise ApiError(Code.BAD_PARAMETER, f"the body is longer than {most} bytes")
        parts.append(part)
    return b"".join(parts)
