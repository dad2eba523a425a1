"""The configurable limits of the gateway. Times are in seconds, and sizes in bytes unless noted.

The documented limits of the API are in `acp_server.apps.gateway.bodies`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple, TypeVar

from acp_server import UsageError


class Size(NamedTuple):
    """The least and the most processes of a bot's agent."""

    least: int = 0
    most: int = 1


ONE: Final = Size()


_N = TypeVar("_N", int, float)


def _limit(default: _N, unit: str, text: str, least: float | None = None) -> _N:
    smallest = (1 if isinstance(default, int) else 0.001) if least is None else least
    return field(default=default, metadata={"unit": unit, "help": text, "least": smallest})


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """The gateway's limits. Each is an option of the command and a key in the config file. Raises UsageError for a
    value that cannot be a limit."""

    body: int = _limit(4 * 1024 * 1024, "BYTES", "The largest request.")
    body_seconds: float = _limit(30.0, "SECONDS", "How long a request's body may take to arrive.")
    connections: int = _limit(
        4096, "NUMBER", "Connections at once; fewer if the process may not have as many descriptors."
    )
    chats: int = _limit(1000, "NUMBER", "Chats that run at once, of all tokens together.")
    chats_of_one: int = _limit(200, "NUMBER", "Chats that run at once with tokens of one name.")
    # With one more, the questions of the chat that has waited longest are dismissed.
    waiting: int = _limit(1000, "NUMBER", "Chats that wait for tool outputs at once, of all tokens together.")
    waiting_of_one: int = _limit(200, "NUMBER", "Chats that wait for tool outputs at once with tokens of one name.")
    reply: int = _limit(16 * 1024 * 1024, "CHARACTERS", "The reply of an agent in one chat.")
    # The newest messages that fit are sent.
    context_bytes: int = _limit(1024 * 1024, "BYTES", "Earlier messages that a prompt repeats.", least=0)
    # About so many, and at least one message.
    page_bytes: int = _limit(4 * 1024 * 1024, "BYTES", "A page of messages.")
    backlog: int = _limit(
        8 * 1024 * 1024, "BYTES", "Unread bytes of a stream, after which it is closed; the chat continues."
    )
    send_seconds: float = _limit(60.0, "SECONDS", "How long a client may take nothing of an answer before it is cut.")
    idle_seconds: float = _limit(
        75.0, "SECONDS", "How long a connection may be without a request; half a head is not a request."
    )
    start_seconds: float = _limit(60.0, "SECONDS", "How long an agent may take to start, and to open a session.")
    # The least recently used are closed first. A later chat loads its session again, or a new session gets the earlier
    # messages.
    idle_sessions: int = _limit(
        100, "NUMBER", "Sessions of one agent that are kept open while no chat uses them.", least=0
    )
    idle_session_seconds: float = _limit(1800.0, "SECONDS", "How long a session that no chat uses is kept open.")
    # A chat that waits for tool outputs still has its session.
    agent_sessions: int = _limit(
        0, "NUMBER", "Sessions that chats use at once in one process of an agent; 0 for any number.", least=0
    )
    agent_idle_seconds: float = _limit(
        1800.0, "SECONDS", "How long a process of an agent is kept without a chat, beyond the least number of them."
    )
    agent_age_seconds: float = _limit(
        0.0, "SECONDS", "How old a process of an agent may be before others get its chats; 0 for any age.", least=0
    )
    queue_seconds: float = _limit(60.0, "SECONDS", "How long a chat may wait for a process of its agent that has room.")
    # An agent that handles one request at a time, and answers nothing meanwhile, has this long for it.
    silence_seconds: float = _limit(
        600.0, "SECONDS", "How long an agent that has chats may say nothing before it is asked whether it is there."
    )
    answer_seconds: float = _limit(
        3600.0, "SECONDS", "How long a chat may wait for tool outputs before its question counts as dismissed."
    )
    settle_seconds: float = _limit(
        5.0, "SECONDS", "How long an agent may take to end a cancelled turn before it is given up."
    )
    linger_seconds: float = _limit(
        600.0, "SECONDS", "How long a cancelled reply may go on with --cancel drain; or chats of a distrusted agent."
    )
    lease_seconds: float = _limit(
        15.0, "SECONDS", "How long a gateway that shares its database may be silent before its chats are given up.", 1
    )
    drain: float = _limit(30.0, "SECONDS", "How long chats may go on when the gateway is told to end (SIGTERM).", 0)

    def __post_init__(self) -> None:
        for each in fields(self):
            value: float = getattr(self, each.name)
            if not math.isfinite(value) or value < each.metadata["least"]:
                raise UsageError(f"the limit {each.name} cannot be {value:g}")
