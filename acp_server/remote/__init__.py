"""Agents for clients that come over HTTP or WebSocket (drafts of ACP). Imported when it is asked for.

RemoteApp     an ASGI application that serves an agent
RemoteLimits  the bounds of what it keeps for its clients, and how long it waits for them
BearerTokens  tokens that say whose a request is, for its `authenticate`
read_tokens   those in a file
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_server.remote.app import RemoteApp as RemoteApp
    from acp_server.remote.limits import RemoteLimits as RemoteLimits
    from acp_server.remote.tokens import BearerTokens as BearerTokens
    from acp_server.remote.tokens import read_tokens as read_tokens

_NAMES = {"app": "RemoteApp", "limits": "RemoteLimits", "tokens": "BearerTokens read_tokens"}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # To type checkers the imports above say the same.
    __all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
