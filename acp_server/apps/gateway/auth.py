"""Tokens, the caller of a request, and the caller's permissions. Tokens are compared in constant time.

`acp_server.apps.gateway.conversations` checks the owner of a conversation.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acp_server import UsageError
from acp_server.apps.gateway.errors import ApiError, Code

METRICS: Final = "metrics"
PERMISSIONS: Final = frozenset(
    {
        "chat",
        "getChat",
        "cancelChat",
        "createConversation",
        "getConversation",
        "listConversation",
        "updateConversation",
        "deleteConversation",
        "clearConversation",
        "createMessage",
        "listMessage",
        "getMessage",
        "updateMessage",
        "deleteMessage",
        METRICS,
    }
)
"""The permissions of a token. `chat` includes `submit_tool_outputs`, `listMessage` includes both lists of messages, and
`metrics` includes the gateway's metrics."""

_HASHED: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a token. Tokens with the same name have the same conversations."""

    name: str
    permissions: frozenset[str] = PERMISSIONS

    def need(self, permission: str) -> None:
        """Raise ApiError 4101 unless the token has this permission."""
        if permission not in self.permissions:
            raise ApiError(Code.NOT_PERMITTED, f"the token does not permit {permission}")


class Tokens:
    """The known tokens, as digests."""

    def __init__(self, tokens: Iterable[tuple[bytes, Caller]]) -> None:
        self._tokens = list(tokens)
        self.names: frozenset[str] = frozenset(caller.name for _, caller in self._tokens)
        """The names of the tokens."""

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller with the token of an `Authorization` header. Raises ApiError 4100."""
        scheme, _, token = (authorization or "").partition(" ")
        digest = _digest(token.strip())
        found: Caller | None = None
        # All are compared, so that the time does not reveal which one matched.
        for known, caller in self._tokens:
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None or scheme.lower() != "bearer":
            raise ApiError(Code.UNAUTHENTICATED, "authentication is invalid")
        return found


def one_token(token: str, name: str = "local") -> Tokens:
    """Return tokens with a single token that permits everything."""
    return Tokens([(_digest(token), Caller(name))])


def new_token() -> str:
    """Return a new token that cannot be guessed."""
    return f"pat_{secrets.token_urlsafe(32)}"


def read_tokens(path: Path) -> Tokens:
    """Read the tokens of a file. Each line is `NAME TOKEN [PERMISSION...]`. A token without permissions permits
    everything.

    TOKEN may be `sha256:` and the token's digest in hexadecimal digits. Empty lines and lines that begin with `#` are
    skipped. Raises UsageError.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the tokens cannot be read from {path}: {getattr(error, 'strerror', error)}") from None
    tokens: list[tuple[bytes, Caller]] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            tokens.append(_read_line(words, f"{path}:{number}"))
    if not tokens:
        raise UsageError(f"the file {path} contains no token")
    if len({digest for digest, _ in tokens}) < len(tokens):
        raise UsageError(f"the file {path} contains a token twice")
    return Tokens(tokens)


def _read_line(words: list[str], place: str) -> tuple[bytes, Caller]:
    if len(words) < 2:
        raise UsageError(f"{place}: expected a name and a token")
    name, token, *permissions = words
    if unknown := set(permissions) - PERMISSIONS:
        raise UsageError(f"{place}: unknown permission {', '.join(sorted(unknown))}")
    if token.startswith(_HASHED):
        try:
            digest = bytes.fromhex(token.removeprefix(_HASHED))
        except ValueError:
            digest = b""
        if len(digest) != hashlib.sha256().digest_size:
            raise UsageError(f"{place}: {_HASHED} must be followed by 64 hexadecimal digits")
    else:
        digest = _digest(token)
    return digest, Caller(name, frozenset(permissions) or PERMISSIONS)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
