"""Tells the log what went wrong where no request is answered with it: in notifications, cleanup and callbacks.

Errors that end the program are not for the log; their callers let them through.
"""

from __future__ import annotations

import logging

from acp_server.errors import ConnectionClosed
from acp_server.tasks.failure import failures_in

logger = logging.getLogger("acp_server.peer")


def report(what: str, error: BaseException) -> None:
    """Log that `what` failed, with its traceback; or just that it ended, if all it met was the closed connection."""
    failures = list(failures_in(error))
    if failures and all(isinstance(failure, ConnectionClosed) for failure in failures):
        logger.info("%s ended because the connection is closed", what)
    else:
        logger.error("%s failed", what, exc_info=error)
