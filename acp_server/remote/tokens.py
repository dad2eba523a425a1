"""Bearer tokens and their principals. Tokens are kept as digests, compared in constant time and never logged."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from acp_server.errors import UsageError
from acp_server.remote.guard import Scope, header

_HASHED: Final = "sha256:"
_SUBPROTOCOL: Final = "bearer."
_ONLY: Final = "client"
"""The principal of a token without a name."""


class BearerTokens:
    """Authenticates requests by bearer token (see `RemoteApp(authenticate=...)`).

    The token is in the Authorization header. A web page cannot set that header for a WebSocket, so it offers the
    subprotocol `bearer.TOKEN` beside `acp`.

    `tokens`: pairs of a principal and its token, or `sha256:` and the digest of the token in hexadecimal. Raises
    ValueError for a digest that is not 64 hexadecimal digits.
    """

    def __init__(self, tokens: Iterable[tuple[str, str]]) -> None:
        self._known = [(name, _digest(token)) for name, token in tokens]
        self.names: frozenset[str] = frozenset(name for name, _ in self._known)
        """The principals."""

    def __call__(self, scope: Scope) -> str | None:
        """Return the principal of a request, or None."""
        scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
        if scheme.lower() != "bearer":
            offered: list[str] = scope.get("subprotocols", [])
            token = next((each[len(_SUBPROTOCOL) :] for each in offered if each.startswith(_SUBPROTOCOL)), "")
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found: str | None = None
        # Every digest is compared, so that the time does not reveal which one matched.
        for name, known in self._known:
            if hmac.compare_digest(known, digest):
                found = name
        return found if token else None


def read_tokens(path: Path) -> BearerTokens:
    """Read the tokens in a file. Each has a line `NAME TOKEN` or `TOKEN`. Without a name the principal is `client`.

    A token may be written as `sha256:` and its digest in hexadecimal. Empty lines and lines that begin with `#` are
    skipped. Raises UsageError if the file cannot be read, has no token or has an invalid line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the tokens from {path}: {getattr(error, 'strerror', error)}") from None
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise UsageError(f"{path}:{number}: expected a name and a token")
        pairs.append((words[0], words[1]) if len(words) == 2 else (_ONLY, words[0]))
    if not pairs:
        raise UsageError(f"the file {path} contains no token")
    try:
        return BearerTokens(pairs)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _digest(token: str) -> bytes:
    if not token.startswith(_HASHED):
        return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
    try:
        digest = bytes.fromhex(token.removeprefix(_HASHED))
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise ValueError(f"{_HASHED} must be followed by 64 hexadecimal digits")
    return digest
