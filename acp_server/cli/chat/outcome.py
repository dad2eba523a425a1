"""What the exit status of `acp-server chat` says."""

from __future__ import annotations

from enum import IntEnum

from acp_server.errors import AcpError, AuthRequired, RequestCancelled, UsageError


class Exit(IntEnum):
    """The exit status. 2, for a mistake on the command line, is the same for every command."""

    DONE = 0
    """The user has left, or the one prompt has been answered to its end."""
    FAILED = 1
    """The agent died, answered with an error, or with something that cannot be read."""
    USAGE = 2
    """The command line is wrong, or the agent cannot be started."""
    REFUSED = 3
    """The agent refused the prompt (stop reason `refusal`)."""
    LIMIT = 4
    """The agent stopped at a limit (`max_tokens`, `max_turn_requests`), or for a reason that is not known."""
    LOGIN = 5
    """The agent wants the user to log in first."""
    CANCELLED = 130
    """Ctrl-C."""


_BY_REASON = {"end_turn": Exit.DONE, "refusal": Exit.REFUSED, "cancelled": Exit.CANCELLED}


def of_stop_reason(reason: str) -> Exit:
    """The exit status for the way in which the one turn ended."""
    return _BY_REASON.get(reason, Exit.LIMIT)


def of_error(error: AcpError) -> Exit:
    """The exit status for what went wrong."""
    if isinstance(error, UsageError):
        return Exit.USAGE
    if isinstance(error, AuthRequired):
        return Exit.LOGIN
    return Exit.CANCELLED if isinstance(error, RequestCancelled) else Exit.FAILED
