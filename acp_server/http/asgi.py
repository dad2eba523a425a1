"""The types of ASGI 3, and helpers for responses of several applications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

import anyio

Message: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[Message]]"
Send: TypeAlias = "Callable[[Message], Awaitable[None]]"
Application: TypeAlias = "Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]"
Headers: TypeAlias = "list[tuple[bytes, bytes]]"

ABORT: Final = "abort"
"""The key in `scope["state"]` of a function that closes the connection at once."""
MORE: Final = "acp_server.more"
"""The key in a `websocket.send` message that says whether another message follows at once. This server then writes both
together. Any other server ignores the key."""
CALLER: Final = "caller"
"""The key in `scope["state"]` under which the application stores the authenticated sender of a request."""


async def while_connected(receive: Receive, work: Callable[[], Awaitable[object]]) -> None:
    """Run `work` until it returns or the client disconnects."""
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()


__all__ = ["ABORT", "MORE", "Application", "Headers", "Receive", "Send", "while_connected"]
