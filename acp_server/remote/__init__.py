"""Agents and clients that are not on one machine: ACP over Streamable HTTP and WebSocket (extra: remote)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_server.remote.client import connect_http as connect_http
    from acp_server.remote.client import connect_url as connect_url
    from acp_server.remote.client import connect_ws as connect_ws
    from acp_server.remote.settings import Backoff as Backoff
    from acp_server.remote.settings import ClientLimits as ClientLimits

_NAMES = {
    "client": "connect_http connect_url connect_ws",
    "settings": "Backoff ClientLimits",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["Backoff", "ClientLimits", "connect_http", "connect_url", "connect_ws"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
