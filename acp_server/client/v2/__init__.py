"""Version 2 of the protocol for a program that uses the types of version 1. Messages are translated at the edge of the
connection.

    negotiation  negotiates version 2
    dialect      Version2: all requests but the first, and their results
    foreground   Foreground: determines when the work for a prompt has ended
    updates      Translator: the updates of one session; values that the versions encode differently

This module registers version 2 for clients. The other modules are imported when the version is requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp_server.client.versions import Side, Version
from acp_server.schema import v2

if TYPE_CHECKING:
    from acp_server.schema import InitializeRequest, InitializeResponse


async def _ask(side: Side, request: InitializeRequest, timeout: float | None) -> InitializeResponse | None:
    from acp_server.client.v2.negotiation import ask

    return await ask(side, request, timeout)


VERSION: Final = Version(v2.NUMBER, _ask)
