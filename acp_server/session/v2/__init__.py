"""The agent's side of ACP v2, which has another wire format and another lifetime of a prompt.

Sessions, turns, tools and stores use the classes of `acp_server.session` that version 1 uses.

This module registers the version. The rest is imported when a client requests the version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_server.schema import v2
from acp_server.session.versions import Dialect, Side

if TYPE_CHECKING:
    from acp_server.peer.call import LiveCall
    from acp_server.session.lifecycle import Lifecycle


def _speak(call: LiveCall, side: Side) -> Lifecycle:
    from acp_server.session.v2.routes import speak

    return speak(call, side)


DIALECT: Final = Dialect(v2.NUMBER, _speak)
