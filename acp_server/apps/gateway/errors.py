"""The documented error codes, and the envelope that every answer comes in.

Errors travel with HTTP status 200, but for those of the gateway as a whole: clients that stream look at the body only
then. No body ends with a newline: the streaming reader of `@coze/api` would show its user nothing at all.
"""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
import time
from enum import IntEnum
from typing import Any, Final

from acp_server.client import AgentExited, UnsupportedVersion
from acp_server.errors import ConnectionClosed, RpcError
from acp_server.store.sqlite_file import explain

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")


class Code(IntEnum):
    """What `code` in an answer says. 0 is success."""

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
    """Answers the request with `code` and `msg`; the client sees both."""

    def __init__(self, code: Code, msg: str, *, retry_after: int | None = None) -> None:
        super().__init__(f"{msg} ({code.value})")
        self.code = code
        self.msg = msg
        self.retry_after = retry_after
        """Seconds. With them it is the gateway that is not available, and a proxy is to see that: the status is 503."""


OCCUPIED: Final = (
    "Conversation occupied: Another chat is currently active. Please wait for the ongoing chat to complete or create a"
    " new conversation. Ensure only one chat runs at a time within the same conversation."
)


def not_cancellable(status: str) -> ApiError:
    """What a cancel that comes too late is told."""
    return ApiError(Code.NOT_CANCELLABLE, f"the chat cannot be cancelled, it is {status}")


def not_waiting(status: str) -> ApiError:
    """What outputs that no chat waits for are told."""
    return ApiError(Code.BAD_PARAMETER, f"the chat waits for no tool outputs, it is {status}")


def not_taken() -> ApiError:
    """What is told while this gateway takes no work: it ends, or has no lease. Another one may take it."""
    return ApiError(Code.BUSY, "this gateway takes no work now", retry_after=1)


def outline(error: Exception) -> str:
    """What the log may say of an error, of an agent's for one. Its texts may repeat what a user has said, so they are
    only in the log at the level debug."""
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
"""The name of the bot for all ids that have no bot of their own. No id has a space in it, so no id is that name."""


def agent_of(bot: str) -> str:
    """How the log names the agent that is this bot."""
    return "the default agent" if bot == EVERY_OTHER else f"the agent of bot {bot}"


class Outlined(Exception):
    """Stands in the log for another error, whose text is not to be there."""


def log_fault(error: Exception, what: str, *args: object) -> None:
    """Log that something went wrong in the gateway itself: what and where, and the `outline` of the error."""
    logger.error(what, *args, exc_info=Outlined(outline(error)).with_traceback(error.__traceback__))
    logger.debug("this error with its text", exc_info=error)


LOGID: Final = b"x-tt-logid"
"""The header that every answer has its log id in."""


def new_logid() -> str:
    """The time, and something that nothing else has."""
    return time.strftime("%Y%m%d%H%M%S") + secrets.token_hex(10).upper()


def success(data: Any, logid: str, **more: Any) -> bytes:
    """The body of a good answer. `more`: fields beside `data`."""
    return _body({"code": 0, "msg": "", "data": data, **more, "detail": {"logid": logid}})


def failure(error: ApiError, logid: str) -> bytes:
    """The body of a refusal."""
    return _body({"code": error.code.value, "msg": error.msg, "detail": {"logid": logid}})


def _body(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
