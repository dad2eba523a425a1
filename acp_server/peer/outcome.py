"""What is told of a failure: which answer a finished request gets, and what the log gets.

The cause recorded on its node decides, never the type of an exception: a stray CancelledError in a request that was
not cancelled is the handler's fault. A time limit of the handler's own that it lets end the request is an internal
cancellation (ACP, Cancellation). Writing the answer is not done here. Errors that end the program are not for the log:
callers let them through.
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
    """The partial result, or `NOTHING` and the error to answer with, where the handler of a request has not returned.

    `cause`: why it was cancelled, if it was. `offered` makes its partial result, or `NOTHING`. `error`: what it raised,
    or None. `unexplained`: see `refusal`.
    """
    if cause is not None:
        if error is not None:
            report_cancelled(logger, method, cause, error)
        partial = offered() if cause.asked_for else NOTHING
        return partial, None if partial is not NOTHING else RequestCancelled()
    failures = list(failures_in(error))
    if not failures:
        # Internal cancellation has the code of any other (ACP, Cancellation), but no user has asked for this one.
        logger.warning("%s was cancelled from inside, and neither side asked for it", method, exc_info=error)
        return NOTHING, RequestCancelled("Cancelled from inside: neither side asked for it")
    answer = refusal(error, unexplained)
    only = failures[0] if len(failures) == 1 else None
    if isinstance(only, RpcError) and only.received:
        # The author has not raised it on purpose, and to the peer it may look like something else.
        logger.warning("%s failed: %s", method, _words(only))
    elif isinstance(only, RpcError | CapabilityMissing) or _is_told(only):
        logger.info("%s is answered with an error of its handler's: %s", method, only)
    elif not isinstance(answer, RequestCancelled):
        logger.error("%s failed", method, exc_info=error)
    elif any(map(is_time_out, failures)):
        logger.warning("%s was cancelled from inside: it ran out of time", method, exc_info=error)
    else:
        logger.info("%s ended because the connection is closed", method)
    return NOTHING, answer


def refusal(error: BaseException | None, unexplained: str = InternalError.default_message) -> RpcError:
    """The error that a request is answered with if it was not cancelled and its handler raised this. `unexplained`:
    what the peer is told of what it must not know the words of."""
    failures = list(failures_in(error))
    if all(isinstance(failure, ConnectionClosed) or is_time_out(failure) for failure in failures):
        return RequestCancelled()
    only = failures[0] if len(failures) == 1 else None
    if _is_told(only):
        return InternalError(str(only).strip())
    if isinstance(only, CapabilityMissing):
        # Its words are of the protocol, and nothing else would tell the user why.
        return InternalError(f"The client cannot do what is needed: {only}")
    if not isinstance(only, RpcError) or (only.received and only.code == RequestCancelled.code):
        # The peer has cancelled a request of ours; of its own request it would believe what is not so.
        return InternalError(unexplained)
    return only


def _is_told(error: BaseException | None) -> bool:
    """Whether it is a tool's failure in words that are meant for the user."""
    return isinstance(error, ToolFailed) and bool((error.message or "").strip())


def unwritable(
    method: str, cause: Cause | None, problem: EncodeError, unexplained: str = InternalError.default_message
) -> RpcError:
    """What to answer instead of a result that JSON cannot express."""
    logger.error("the result of %s cannot be written as JSON: %s", method, problem)
    # A cancelled request has a result or is cancelled, nothing third (ACP, Cancellation).
    return InternalError(unexplained) if cause is None else RequestCancelled()


def check_data(method: str, refusal: RpcError) -> None:
    """Log that the data of an error is left out of the answer, for JSON cannot express it."""
    try:
        codec.encode(refusal.data)
    except EncodeError as problem:
        logger.error("%s is answered without the data of its error (%s): %s", method, refusal.message, problem)


def report(what: str, error: BaseException) -> None:
    """Log that `what`, which no request is answered with, failed, with its traceback; or just that it ended, if all it
    met was the closed connection."""
    failures = list(failures_in(error))
    if failures and all(isinstance(failure, ConnectionClosed) for failure in failures):
        logger.info("%s ended because the connection is closed", what)
    elif (said := _in_own_words(error)) is not None:
        logger.error("%s failed: %s", what, said)
    else:
        logger.error("%s failed", what, exc_info=error)


def report_cancelled(log: logging.Logger, what: str, cause: Cause, error: BaseException) -> None:
    """Log that `what` failed while it was being cancelled; nothing, if it failed only as requests to a peer do that is
    gone or that were withdrawn, for then its handler is not to blame."""
    if all(isinstance(failure, (ConnectionClosed, RequestCancelled)) for failure in failures_in(error)):
        return
    if (said := _in_own_words(error)) is not None:
        log.warning("%s failed while it was being cancelled (%s): %s", what, cause.value, said)
    else:
        log.warning("%s failed while it was being cancelled (%s)", what, cause.value, exc_info=error)


def _in_own_words(error: BaseException) -> str | None:
    """What an author's code says is wrong by raising an RpcError, or that it went on after its turn, in one line; None
    for any other failure, of which the traceback is of use."""
    failures = list(failures_in(error))
    if failures and all(isinstance(failure, RpcError | TurnEnded) for failure in failures):
        return "; ".join(map(_words, failures))
    return None


def _words(error: BaseException) -> str:
    if isinstance(error, RpcError) and error.received:
        return f"the peer answered {error.method} with: {error}"
    return str(error)
