"""ACP between machines: Streamable HTTP and WebSocket, both drafts of the protocol.

RemoteApp     an ASGI application that serves an agent
RemoteLimits  the bounds and timeouts of a RemoteApp
BearerTokens  bearer tokens and their principals, an `authenticate` for RemoteApp
read_tokens   reads BearerTokens from a file
connect_http  a client of an agent over Streamable HTTP (extra: remote)
connect_ws    a client of an agent over WebSocket (extra: remote)
connect_url   either of them, by the scheme of the address (extra: remote)
RemoteOptions
              the optional arguments of the three
ClientLimits  the bounds of a client's connection
Backoff       how often and how quickly a client reconnects
AgentOf, Authenticate, Scope
              types of the arguments of RemoteApp

Each name is imported on first use: a server does not need httpx, which the clients import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_server.remote.app import RemoteApp as RemoteApp
    from acp_server.remote.client import RemoteOptions as RemoteOptions
    from acp_server.remote.client import connect_http as connect_http
    from acp_server.remote.client import connect_url as connect_url
    from acp_server.remote.client import connect_ws as connect_ws
    from acp_server.remote.connections import AgentOf as AgentOf
    from acp_server.remote.guard import Authenticate as Authenticate
    from acp_server.remote.guard import Scope as Scope
    from acp_server.remote.limits import RemoteLimits as RemoteLimits
    from acp_server.remote.settings import Backoff as Backoff
    from acp_server.remote.settings import ClientLimits as ClientLimits
    from acp_server.remote.tokens import BearerTokens as BearerTokens
    from acp_server.remote.tokens import read_tokens as read_tokens

_NAMES = {
    "app": "RemoteApp",
    "client": "RemoteOptions connect_http connect_url connect_ws",
    "connections": "AgentOf",
    "guard": "Authenticate Scope",
    "limits": "RemoteLimits",
    "settings": "Backoff ClientLimits",
    "tokens": "BearerTokens read_tokens",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # Type checkers read the imports above instead.
    __all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
