"""Decides which error response a failed request gets, and what is logged.

The cause of the node's cancel decides, never the type of an exception. A stray CancelledError in a request that was not
cancelled is a bug of the handler. A time-out that a handler lets through is an internal cancellation (ACP,
Cancellation). SystemExit and KeyboardInterrupt are not logged here, since callers let them through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from acp_server.errors import (
    CapabilityMissing,
    ConnectionClosed,
    EncodeError,
    InternalError,
    RequestCancelled,
    RpcError,
    ToolFailed,
    TurnEnded,
)
from acp_server.tasks.cause import Cause, failures_in, is_time_out
from acp_server.tasks.tree import NOTHING
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.peer")


def outcome(
    method: str,
    cause: Cause | None,
    offered: Callable[[], Any],
    error: BaseException | None,
    unexplained: str = InternalError.default_message,
) -> tuple[Any, RpcError | None]:
    """Return the response to a request whose handler did not return: the partial result and None, or `NOTHING` and the
    error.

    `cause`: the cause of the request's cancel, or None. `offered` returns the partial result or `NOTHING`. `error`: the
    exception of the handler, or None. `unexplained`: see `refusal`.
    """
    if cause is not None:
        if error is not None:
            report_cancelled(logger, method, cause, error)
        partial = offered() if cause.asked_for else NOTHING
        return partial, None if partial is not NOTHING else RequestCancelled()
    failures = list(failures_in(error))
    if not failures:
        # An internal cancellation has the code of any cancellation (ACP, Cancellation).
        logger.warning("the handler of %s was cancelled by its own program, not by the peer", method, exc_info=error)
        return NOTHING, RequestCancelled("The handler was cancelled by its own program, not by the peer")
    answer = refusal(error, unexplained)
    only = failures[0] if len(failures) == 1 else None
    if isinstance(only, RpcError) and only.received:
        # An error of the peer that the handler let through, and not an error that its author raised.
        logger.warning("%s failed: %s", method, _words(only))
    elif isinstance(only, RpcError | CapabilityMissing) or _is_told(only):
        logger.info("the response to %s is the error of its handler: %s", method, only)
    elif not isinstance(answer, RequestCancelled):
        logger.error("%s failed", method, exc_info=error)
    elif any(map(is_time_out, failures)):
        logger.warning(
            "the handler of %s exceeded its own time limit, so the response is -32800",
            method,
            exc_info=error,
        )
    else:
        logger.info("%s ended because the connection is closed", method)
    return NOTHING, answer


def refusal(error: BaseException | None, unexplained: str = InternalError.default_message) -> RpcError:
    """Return the error response to a request that was not cancelled and whose handler raised `error`. `unexplained`:
    the message for exceptions whose text may contain secrets."""
    failures = list(failures_in(error))
    if all(isinstance(failure, ConnectionClosed) or is_time_out(failure) for failure in failures):
        return RequestCancelled()
    only = failures[0] if len(failures) == 1 else None
    if _is_told(only):
        return InternalError(str(only).strip())
    if isinstance(only, CapabilityMissing):
        # The text names a capability of the protocol, and nothing else would explain the failure to the user.
        return InternalError(f"The client lacks a capability: {only}")
    if not isinstance(only, RpcError) or (only.received and only.code == RequestCancelled.code):
        # Forwarding the peer's -32800 would make it believe that its own request was cancelled.
        return InternalError(unexplained)
    return only


def _is_told(error: BaseException | None) -> bool:
    """Whether the error is a ToolFailed with a message, which is meant for the user."""
    return isinstance(error, ToolFailed) and bool((error.message or "").strip())


def unwritable(
    method: str, cause: Cause | None, problem: EncodeError, unexplained: str = InternalError.default_message
) -> RpcError:
    """Return the error response that replaces a result that JSON cannot express."""
    logger.error("the result of %s cannot be expressed in JSON: %s", method, problem)
    # The response to a cancelled request is a result or -32800, and no other error (ACP, Cancellation).
    return InternalError(unexplained) if cause is None else RequestCancelled()


def check_data(method: str, refusal: RpcError) -> None:
    """Log an error if its data is left out of the response because JSON cannot express the data."""
    try:
        codec.encode(refusal.data)
    except EncodeError as problem:
        logger.error(
            "the data of the error response to %s (%s) was left out, because JSON cannot express it: %s",
            method,
            refusal.message,
            problem,
        )


def report(what: str, error: BaseException) -> None:
    """Log that `what` failed, with its traceback, if no response reports it. If the only failures are ConnectionClosed,
    log that `what` ended."""
    failures = list(failures_in(error))
    if failures and all(isinstance(failure, ConnectionClosed) for failure in failures):
        logger.info("%s ended because the connection is closed", what)
    elif (said := _in_own_words(error)) is not None:
        logger.error("%s failed: %s", what, said)
    else:
        logger.error("%s failed", what, exc_info=error)


def report_cancelled(log: logging.Logger, what: str, cause: Cause, error: BaseException) -> None:
    """Log that `what` failed while it was being cancelled. ConnectionClosed and RequestCancelled are not logged,
    because they follow from the cancel, and the handler has no bug. An error response that has no receiver any more is
    logged at level INFO, because the client that left caused both."""
    if all(isinstance(failure, (ConnectionClosed, RequestCancelled)) for failure in failures_in(error)):
        return
    if (said := _in_own_words(error)) is not None:
        level = logging.INFO if cause is Cause.CLOSED else logging.WARNING
        log.log(level, "%s failed while it was being cancelled (%s): %s", what, cause.value, said)
    else:
        log.warning("%s failed while it was being cancelled (%s)", what, cause.value, exc_info=error)


def _in_own_words(error: BaseException) -> str | None:
    """Return the messages of an error that consists of RpcError and TurnEnded only, in one line. Return None for any
    other error, which is logged with its traceback."""
    failures = list(failures_in(error))
    if failures and all(isinstance(failure, RpcError | TurnEnded) for failure in failures):
        return "; ".join(map(_words, failures))
    return None


def _words(error: BaseException) -> str:
    if isinstance(error, RpcError) and error.received:
        return f"the peer answered {error.method} with: {error}"
    return str(error)
