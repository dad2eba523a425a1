"""Tells the log what went wrong where no request is answered with it: in notifications, cleanup and callbacks.

Errors that end the program are not for the log; their callers let them through.
"""

from __future__ import annotations

import logging

from acp_server.errors import ConnectionClosed, RpcError
from acp_server.tasks.failure import failures_in

logger = logging.getLogger("acp_server.peer")


def report(what: str, error: BaseException) -> None:
    """Log that `what` failed, with its traceback; or just that it ended, if all it met was the closed connection."""
    failures = list(failures_in(error))
    if failures and all(isinstance(failure, ConnectionClosed) for failure in failures):
        logger.info("%s ended because the connection is closed", what)
    elif (said := in_own_words(error)) is not None:
        logger.error("%s failed: %s", what, said)
    else:
        logger.error("%s failed", what, exc_info=error)


def in_own_words(error: BaseException | None) -> str | None:
    """What an author's code says is wrong by raising an RpcError, in one line; None for any other failure, of which the
    traceback is of use."""
    failures = list(failures_in(error))
    if failures and all(isinstance(failure, RpcError) for failure in failures):
        return "; ".join(map(str, failures))
    return None
