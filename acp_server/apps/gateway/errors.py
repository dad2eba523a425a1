"""The documented error codes, and the envelope of every response.

Errors have HTTP status 200, because streaming clients read the body only then. Only errors of the gateway as a whole
have another status. No body ends with a newline, because the streaming reader of `@coze/api` would drop such a body.
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
    """The `code` of a response. 0 means success."""

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
        """Seconds after which the client may retry. If it is set, the gateway itself is not available, and the HTTP
        status is 503, so that a proxy notices that."""


OCCUPIED: Final = (
    "Conversation occupied: Another chat is currently active. Please wait for the ongoing chat to complete or create a"
    " new conversation. Ensure only one chat runs at a time within the same conversation."
)


def not_cancellable(status: str) -> ApiError:
    """Return the error for a cancel that comes too late."""
    return ApiError(Code.NOT_CANCELLABLE, f"the chat cannot be cancelled, it is {status}")


def not_waiting(status: str) -> ApiError:
    """Return the error for tool outputs that the chat does not wait for."""
    return ApiError(Code.BAD_PARAMETER, f"the chat waits for no tool outputs, it is {status}")


def not_taken() -> ApiError:
    """Return the error while this gateway accepts no work, because it is shutting down or has no lease. Another gateway
    may accept the request."""
    return ApiError(Code.BUSY, "this gateway takes no work now", retry_after=1)


def outline(error: Exception) -> str:
    """Return the part of an error that may be logged. The error may come from an agent, and its text may repeat
    messages of the user. So the text is logged only at level debug."""
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
"""The name of the bot that serves all ids without their own bot. It has a space, and no id has one, so it cannot be an
id."""


def agent_of(bot: str) -> str:
    """Return the name of a bot's agent for the log."""
    return "the default agent" if bot == EVERY_OTHER else f"the agent of bot {bot}"


class Outlined(Exception):
    """Takes the place of an error in the log whose text must not be logged."""


def log_fault(error: Exception, what: str, *args: object) -> None:
    """Log a failure of the gateway itself: what failed and where, with the `outline` of the error."""
    logger.error(what, *args, exc_info=Outlined(outline(error)).with_traceback(error.__traceback__))
    logger.debug("the text of the previous error", exc_info=error)


LOGID: Final = b"x-tt-logid"
"""The header with the log id of a response."""


def new_logid() -> str:
    """Return a new log id, made of the time and a random number."""
    return time.strftime("%Y%m%d%H%M%S") + secrets.token_hex(10).upper()


def success(data: Any, logid: str, **more: Any) -> bytes:
    """Return the body of a successful response. `more`: fields beside `data`."""
    return _body({"code": 0, "msg": "", "data": data, **more, "detail": {"logid": logid}})


def failure(error: ApiError, logid: str) -> bytes:
    """Return the body of an error response."""
    return _body({"code": error.code.value, "msg": error.msg, "detail": {"logid": logid}})


def _body(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
