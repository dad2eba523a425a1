"""The documented error codes, and the envelope of every response.

Errors have HTTP status 200, except errors of the gateway as a whole: streaming clients read the body only then. No body
ends with a newline: the streaming reader of `@coze/api` would drop it.
"""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
import time
from enum import IntEnum
from typing import Any, Final

from acp_server import ConnectionClosed, RpcError
from acp_server.client import AgentExited, UnsupportedVersion
from acp_server.store.sqlite_file import explain

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")


class Code(IntEnum):
    """The `code` of a response. 0 is success."""

    OK = 0
    BAD_PARAMETER = 4000
    BAD_CHAT = 4001
    BAD_CONVERSATION = 4002
    BAD_META_DATA = 4003
    TOO_MANY_MESSAGES = 4004
    BAD_MESSAGE = 4005
    NOT_SAVED_NOT_STREAMED = 4007
    BUSY = 4009
    RATE = 4013
    OCCUPIED = 4016
    UNAUTHENTICATED = 4100
    NOT_PERMITTED = 4101
    NOT_CANCELLABLE = 4104
    NOT_FOUND = 4200
    INTERNAL = 5000


class ApiError(Exception):
    """Answers the request with `code` and `msg`, which the client gets."""

    def __init__(self, code: Code, msg: str, *, retry_after: int | None = None) -> None:
        super().__init__(f"{msg} ({code.value})")
        self.code = code
        self.msg = msg
        self.retry_after = retry_after
        """Seconds. If set, the gateway itself is not available: the status is 503, so that a proxy notices it."""


OCCUPIED: Final = (
    "Conversation occupied: Another chat is currently active. Please wait for the ongoing chat to complete or create a"
    " new conversation. Ensure only one chat runs at a time within the same conversation."
)


def not_cancellable(status: str) -> ApiError:
    """The error of a cancel that comes too late."""
    return ApiError(Code.NOT_CANCELLABLE, f"the chat cannot be cancelled, it is {status}")


def not_waiting(status: str) -> ApiError:
    """The error of outputs that no chat waits for."""
    return ApiError(Code.BAD_PARAMETER, f"the chat waits for no tool outputs, it is {status}")


def not_taken() -> ApiError:
    """The error while this gateway takes no work: it is ending, or has no lease. Another gateway may take it."""
    return ApiError(Code.BUSY, "this gateway takes no work now", retry_after=1)


def outline(error: Exception) -> str:
    """The loggable part of an error, for example of an agent. Its text may repeat messages of the user, so that is
    logged only at level debug."""
    if isinstance(error, RpcError):
        return f"the agent answered with error {error.code}"
    if isinstance(error, AgentExited):
        return AgentExited(None, error.exit_code, "").args[0]
    if isinstance(error, OSError | ConnectionClosed | UnsupportedVersion):
        return str(error)
    if isinstance(error, sqlite3.Error):
        return f"the store: {explain(error)}"
    return type(error).__name__


EVERY_OTHER: Final = "every other"
"""The name of the bot for all ids without a bot. No id has a space, so it is not an id."""


def agent_of(bot: str) -> str:
    """The name of a bot's agent in the log."""
    return "the default agent" if bot == EVERY_OTHER else f"the agent of bot {bot}"


class Outlined(Exception):
    """Replaces an error in the log whose text must not be logged."""


def log_fault(error: Exception, what: str, *args: object) -> None:
    """Log a failure of the gateway itself: what failed and where, and the `outline` of the error."""
    logger.error(what, *args, exc_info=Outlined(outline(error)).with_traceback(error.__traceback__))
    logger.debug("this error with its text", exc_info=error)


LOGID: Final = b"x-tt-logid"
"""The header with the log id of a response."""


def new_logid() -> str:
    """A log id: the time and a random number."""
    return time.strftime("%Y%m%d%H%M%S") + secrets.token_hex(10).upper()


def success(data: Any, logid: str, **more: Any) -> bytes:
    """The body of a successful response. `more`: fields beside `data`."""
    return _body({"code": 0, "msg": "", "data": data, **more, "detail": {"logid": logid}})


def failure(error: ApiError, logid: str) -> bytes:
    """The body of an error response."""
    return _body({"code": error.code.value, "msg": error.msg, "detail": {"logid": logid}})


def _body(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
