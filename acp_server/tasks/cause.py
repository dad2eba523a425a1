"""Why a node was cancelled. The cause, and not the type of an exception, decides which answer goes out."""

from __future__ import annotations

from enum import Enum


class Cause(Enum):
    """The first cause recorded on a node stands; later ones change nothing."""

    asked_for: bool
    """Whether the client or its user wanted this, so that it is `cancelled` to them and not a failure."""

    PEER = "peer"
    """The peer sent `$/cancel_request` for this request or one that it is nested in."""
    SESSION = "session"
    """The client sent `session/cancel`, or closed or deleted the session."""
    USER = "user"
    """The user stopped just this piece of work, for example one tool."""
    INTERRUPT = "interrupt"
    """The terminal sent an interrupt signal while the turn ran."""
    TIMEOUT = "timeout"
    """A time limit of our own ran out."""
    SHUTDOWN = "shutdown"
    """The program is ending, or the embedding code closed the connection."""
    CLOSED = "closed"
    """The peer is gone."""
    FINISHED = "finished"
    """What it was nested in has ended without it."""


for _cause in Cause:
    _cause.asked_for = _cause in (Cause.PEER, Cause.SESSION, Cause.USER, Cause.INTERRUPT)
