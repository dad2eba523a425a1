"""What the methods of ACP v2 mean for an agent: another form on the wire, and another life of a prompt.

Sessions, turns, tools and stores are those of version 1, in `acp_server.session`.

Here: what agents are told of this version. All else is loaded when a client asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_server.schema import v2
from acp_server.session.versions import Dialect, Side

if TYPE_CHECKING:
    from acp_server.peer.call import Call
    from acp_server.session.lifecycle import Lifecycle


def _speak(call: Call, side: Side) -> Lifecycle:
    from acp_server.session.v2.routes import speak

    return speak(call, side)


DIALECT: Final = Dialect(v2.NUMBER, _speak)
