"""How much of everything there may be. Times in seconds, sizes in bytes unless said otherwise.

The documented limits of the API are constants; the gateway's own can be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from acp_server.gateway.errors import ApiError, Code

META_PAIRS: Final = 16
META_KEY: Final = 64
META_VALUE: Final = 512
MESSAGES: Final = 100
"""Messages that one request may bring."""
NAME: Final = 100
PAGE: Final = 50
"""Messages and conversations that one page may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The gateway's own limits."""

    body: int = 4 * 1024 * 1024
    """The largest request."""
    body_seconds: float = 30.0
    """How long a request's body may take to arrive."""
    chats: int = 1000
    """Chats that run at once, of everybody together."""
    chats_of_one: int = 200
    """Chats that run at once with tokens of one name."""
    waiting: int = 1000
    """Chats that wait for tool outputs at once, of everybody together."""
    waiting_of_one: int = 200
    """Chats that wait for tool outputs at once with tokens of one name. With one more, the questions of the chat that
    has waited longest are dismissed."""
    reply: int = 16 * 1024 * 1024
    """Characters that an agent may say in one chat."""
    backlog: int = 8 * 1024 * 1024
    """What a client may be behind with a stream before the stream is cut; the chat goes on."""
    send_seconds: float = 60.0
    """How long a client may take nothing of an answer before it is cut."""
    idle_seconds: float = 75.0
    """How long a connection may be without a request; one whose head is not complete is none."""
    start_seconds: float = 60.0
    """How long an agent may take to start, and to open a session."""
    idle_sessions: int = 100
    """Sessions of one agent that are kept open while no chat uses them. The ones used least lately are closed first."""
    idle_session_seconds: float = 1800.0
    """How long a session that no chat uses is kept open. Afterwards it is taken up again, or a new one is told what was
    said."""
    silence_seconds: float = 600.0
    """How long an agent may say nothing at all while chats wait for it, before it is asked whether it is there. One
    that does one thing at a time, and answers nobody meanwhile, has as long as this for it."""
    answer_seconds: float = 3600.0
    """How long a chat may wait for tool outputs before its question counts as dismissed."""
    settle_seconds: float = 5.0
    """How long an agent may take to end a cancelled turn before it is given up."""
    drain_seconds: float = 600.0
    """How long a reply may go on after its chat was cancelled, where a cancel does not stop the agent."""


def check_meta_data(meta_data: Mapping[str, str]) -> None:
    """Raise ApiError 4003 for more pairs, or longer ones, than the API allows."""
    if len(meta_data) > META_PAIRS:
        raise ApiError(Code.BAD_META_DATA, f"meta_data has more than {META_PAIRS} pairs")
    for key, value in meta_data.items():
        if not 1 <= len(key) <= META_KEY:
            raise ApiError(Code.BAD_META_DATA, f"a key of meta_data has to have 1 to {META_KEY} characters")
        if not 1 <= len(value) <= META_VALUE:
            raise ApiError(Code.BAD_META_DATA, f"a value of meta_data has to have 1 to {META_VALUE} characters")
