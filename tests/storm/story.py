"""What is told of a storm, wherever it took place: all that the oracle wants to know."""

from dataclasses import dataclass, field
from typing import Any

from acp_server import Limits
from tests.storm.client import RawClient, Sent
from tests.storm.journal import Journal, Note

_INITIALIZE: dict[int, dict[str, Any]] = {
    1: {
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "elicitation": {"form": {}},
        },
    },
    2: {
        "protocolVersion": 2,
        "info": {"name": "storm", "version": "1"},
        "capabilities": {"elicitation": {"form": {}}},
    },
}
"""By the version that is spoken."""


def initialize(version: int, seed: int) -> dict[str, Any]:
    """The parameters of `initialize`. The clients of two seeds of three show child sessions."""
    params = _INITIALIZE[version]
    if version == 2 or seed % 3 == 0:
        return params
    return {**params, "clientCapabilities": {**params["clientCapabilities"], "subagents": {}}}


GOOD = [["say"], ["ask", "ask", False], ["tools", [{"tool": "plain_asks", "plan": [], "before": [], "words": None}]]]
"""What a good request does."""


@dataclass
class Story:
    """All that the oracle wants to know of a storm."""

    journal: Journal
    client: RawClient
    limits: Limits
    version: int = 1
    """Of the protocol."""
    slack: float = 0.01
    """Seconds by which a time may be missed: next to nothing by the clock of a storm in memory. By a real one, on a
    machine that may be busy, there is no bound."""
    is_real: bool = False
    """Whether it was a real process, whose threads run when they like."""
    transport: str | None = None
    """`http` or `ws`, if the agent was behind that."""
    end: str = ""
    ended: Note | None = None
    """When the client or the program began to end the connection."""
    over: Note | None = None
    """When what hung was told to end, and the client answered all that it was asked."""
    closed: Note | None = None
    """When the connection was closed."""
    raised: str | None = None
    stalls: list[tuple[Note, Note | None]] = field(default_factory=list)
    terminals: dict[str, Any] = field(default_factory=dict)
    good: list[Sent] = field(default_factory=list)
    """The good requests that came behind the storm."""
    left: list[str] = field(default_factory=list)
    """What should not be there any more at the end."""
