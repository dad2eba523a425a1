"""Log ids: every answer has one, in its `X-Tt-Logid` header and in its body, and so has the request's line of the log.

Nothing of what was said is logged, and no token.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("acp_server.gateway.access")

HEADER: Final = b"x-tt-logid"


def new_logid() -> str:
    """The time, and something that nothing else has."""
    return time.strftime("%Y%m%d%H%M%S") + secrets.token_hex(10).upper()


class Logged:
    """Gives each request its log id, in `scope["state"]`, and a line in the log when it is answered. A stream of events
    has one more when it begins, since it may last for long.

    The request's handler may leave its `route`, its `caller` and the `code` of its answer there. A request
    without a route is not a call of the API, such as a probe that comes every second; a good answer is not logged.
    """

    def __init__(self, app: ASGIApp, answered: Callable[[str, int, float], None]) -> None:
        """`answered` is told the route, the code and the seconds to the answer."""
        self._app = app
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state["logid"] = logid = new_logid()
        began = time.perf_counter()
        status: int | None = None
        answered = 0.0

        def note(what: str) -> None:
            path, caller = ascii(scope["path"])[1:-1], state.get("caller", "-")
            level = logging.DEBUG if status == 200 and "route" not in state else logging.INFO
            logger.log(level, "%s %s by %s: %s, logid %s", scope["method"], path, caller, what, logid)

        async def send_with_logid(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = time.perf_counter() - began
                if dict(message.get("headers", ())).get(b"content-type", b"").startswith(b"text/event-stream"):
                    note(f"HTTP {status}, a stream begins")
                message["headers"] = [*message.get("headers", ()), (HEADER, logid.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_logid)
        finally:
            if status is not None:
                code = state.get("code", 0 if status < 400 else status)
                self._answered(state.get("route", "other"), code, answered)
            took = (time.perf_counter() - began) * 1000
            note(f"HTTP {status or 'none'}, code {state.get('code', 'none')}, {took:.0f} ms")
