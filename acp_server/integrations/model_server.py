"""Bounds what a model's server can do: it bounds the size of responses, and finds the environment variables that are
for the server.

The server may be malicious, since `--base-url` accepts any URL. This module knows no provider.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

from acp_server import InternalError

ANSWER: Final = 8 * 1024 * 1024
"""The most characters of one response of a model: its text, thinking and the arguments of its tool calls."""

PARTS: Final = 1_000
"""The most parts of one response: texts, thoughts and tool calls."""

ANSWER_BYTES: Final = 128 * 1024 * 1024
"""The most bytes of one response on the wire. Each chunk of a few letters has about a hundred bytes around it."""


class AnswerBound:
    """Counts a response as it arrives."""

    def __init__(self) -> None:
        self._characters = 0
        self._parts = 0

    def over(self) -> None:
        """Start counting anew, because the next response begins."""
        self._characters = self._parts = 0

    def part(self) -> None:
        """Count a part that begins. Raises InternalError, with a text for the user, if there are too many."""
        self._parts += 1
        if self._parts > PARTS:
            raise InternalError(f"The model's response has more than {PARTS:,} parts.")

    def add(self, piece: Any) -> None:
        """Count more content of a part. Raises InternalError, with a text for the user, if the response is too long."""
        self._characters += len(piece if isinstance(piece, str) else str(piece or ""))
        if self._characters > ANSWER:
            raise InternalError(f"The model's response is longer than {ANSWER // 2**20} million characters.")


def bound_client(client: Any) -> Any:
    """Make a client of httpx raise InternalError, with a text for the user, for a response of too many bytes.
    Compressed responses could expand far beyond their size, so the client requests none and accepts none."""
    hooks = client.event_hooks
    if _check not in hooks["response"]:
        hooks["response"].append(_check)
        client.event_hooks = hooks
        client.headers["accept-encoding"] = "identity"
    return client


async def _check(response: Any) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise InternalError("The model's server has compressed its response, which was not requested.")
    response.stream = _counted(response.stream)


def _counted(stream: Any) -> Any:
    # A subclass of the type in the client's library, which the client checks.
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "AsyncByteStream")

    async def pieces(_self: Any) -> Any:
        size = 0
        async for piece in stream:
            size += len(piece)
            if size > ANSWER_BYTES:
                raise InternalError(f"The model's response is longer than {ANSWER_BYTES // 2**20} MiB.")
            yield piece

    async def close(_self: Any) -> None:
        await stream.aclose()

    return type("Counted", (base,), {"__aiter__": pieces, "aclose": close})()


def bound_model(model: Any) -> Any:
    """Bound the responses for a pydantic-ai model if it uses a client of httpx. Returns the model."""
    provider = getattr(model, "_provider", None)
    client = getattr(getattr(provider, "client", None), "_client", None)
    if hasattr(client, "event_hooks"):
        bound_client(client)
    # The provider makes a new client if it is used again after it was closed.
    make: Callable[[], Any] | None = getattr(provider, "_http_client_factory", None)
    if make is not None:
        setattr(provider, "_http_client_factory", lambda: bound_client(make()))  # noqa: B010
    return model


_SECRETS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")

_LATER: Final = {
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
}
"""Variables that a provider's library reads only at its first use, by the prefix of the provider's name."""


@contextmanager
def reading(provider: str, names: set[str]) -> Generator[None]:
    """Add to `names` the variables that a provider reads within the block: variables that begin with its name, and
    secrets. Variables that all programs read, such as proxies, are not included."""
    noted = _Noting(os.environ)
    before, os.environ = os.environ, noted  # type: ignore[assignment]
    try:
        yield
    finally:
        os.environ = before  # noqa: B003
        own = provider.upper().replace("-", "_") + "_"
        names.update(name for name in noted.read if name.startswith(own) or any(word in name for word in _SECRETS))
        names.update(*(later for begin, later in _LATER.items() if provider.startswith(begin)))


class _Noting(MutableMapping[str, str]):
    """The environment. It records the names that are read."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return self._environment[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._environment[name] = value

    def __delitem__(self, name: str) -> None:
        del self._environment[name]

    def __iter__(self) -> Any:
        return iter(self._environment)

    def __len__(self) -> int:
        return len(self._environment)

    def copy(self) -> dict[str, str]:
        """Like `os.environ.copy`."""
        return dict(self._environment)
