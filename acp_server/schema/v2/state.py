"""What a session does at present: its foreground work and its background work (ACP v2, session states)."""

from typing import Annotated, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, Model, Sent, Unknown
from acp_server.schema.unions import OpenEnum, Tagged
from acp_server.schema.v2.types import Error, TerminalId, ToolCallId

SessionState = TypeAliasType(
    "SessionState", Annotated[Literal["running", "idle", "requires_action"] | str, OpenEnum(extensible=True)]
)
"""What the foreground does. An unknown state is never idle: show that the agent is busy."""

StopReason = TypeAliasType(
    "StopReason",
    Annotated[
        Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str,
        OpenEnum(extensible=True),
    ],
)
"""Why the foreground work ended. `cancelled` only if the user or the client chose to stop it."""


class BackgroundTerminal(Model):
    """A command that goes on in a terminal."""

    type: Sent[Literal["terminal"]] = "terminal"
    terminal_id: TerminalId
    """The terminal."""


class BackgroundToolCall(Model):
    """A tool call that goes on."""

    type: Sent[Literal["tool_call"]] = "tool_call"
    tool_call_id: ToolCallId
    """The call."""


class UnknownBackgroundWork(Unknown):
    """Work of a kind that this version does not have."""

    type: str


BackgroundWork = TypeAliasType(
    "BackgroundWork",
    Annotated[BackgroundTerminal | BackgroundToolCall | UnknownBackgroundWork, Tagged("type", extensible=True)],
)
"""Work that goes on whatever the foreground does, told apart by `type`."""


class StateUpdate(Model):
    """The session update `state_update`: a snapshot. To send the same one twice changes nothing.

    One class for every state: each of its fields but `state` may be absent, and a client needs no other field for a
    state of tomorrow.
    """

    session_update: Sent[Literal["state_update"]] = "state_update"
    state: SessionState
    """What the foreground does."""
    background: Lenient[list[BackgroundWork] | None] = None
    """All work in the background; None says that the agent does not tell, `[]` that there is none."""
    stop_reason: Lenient[StopReason | None] = None
    """Why the foreground work ended. Only when idle."""
    error: Lenient[Error | None] = None
    """What went wrong. Only with the stop reason `error`."""
