"""Log ids: every answer has one, in its `X-Tt-Logid` header and in its body, and so has the request's line of the log.

Nothing of what was said is logged, and no token.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("acp_server.gateway.access")

HEADER: Final = b"x-tt-logid"


def new_logid() -> str:
    """The time, and something that nothing else has."""
    return time.strftime("%Y%m%d%H%M%S") + secrets.token_hex(10).upper()


class Logged:
    """Gives each request its log id, in `scope["state"]`, and a line in the log when it is answered.

    The request's handler may leave its `caller` and the `code` of its answer there.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state["logid"] = logid = new_logid()
        began = time.perf_counter()
        status: int | None = None

        async def send_with_logid(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (HEADER, logid.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_logid)
        finally:
            logger.info(
                "%s %s by %s: HTTP %s, code %s, %.0f ms, logid %s",
                scope["method"],
                ascii(scope["path"])[1:-1],
                state.get("caller", "nobody"),
                status or "none",
                state.get("code", "none"),
                (time.perf_counter() - began) * 1000,
                logid,
            )
