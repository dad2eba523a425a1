"""What a model's server may do to us: how long its answer may be, and which variables of the environment are for it.

A server may be another than it should be: `--base-url` names any. Nothing here knows a provider.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

from acp_server.errors import InternalError

ANSWER: Final = 8 * 1024 * 1024
"""Characters of one answer of a model: text, thinking and the arguments of its tool calls."""

PARTS: Final = 1_000
"""Parts of one answer: texts, thoughts, tool calls."""

ANSWER_BYTES: Final = 128 * 1024 * 1024
"""Bytes of one answer on the wire. Each piece of a few letters has some hundred bytes around it."""


class AnswerBound:
    """How much of an answer there has been, as it comes."""

    def __init__(self) -> None:
        self._characters = 0
        self._parts = 0

    def over(self) -> None:
        """The next answer begins."""
        self._characters = self._parts = 0

    def part(self) -> None:
        """A part begins. Raises InternalError, with words for the user, if there are too many."""
        self._parts += 1
        if self._parts > PARTS:
            raise InternalError(f"The model's answer has more than {PARTS:,} parts.")

    def add(self, piece: Any) -> None:
        """There is more of a part. Raises InternalError, with words for the user, if that is too much."""
        self._characters += len(piece if isinstance(piece, str) else str(piece or ""))
        if self._characters > ANSWER:
            raise InternalError(f"The model's answer is longer than {ANSWER // 2**20} million characters.")


def bound_client(client: Any) -> Any:
    """A client of httpx, which from now on raises InternalError, with words for the user, for an answer of too many
    bytes. Compressed answers can hold far more than they have, so none are asked for, and none are taken."""
    hooks = client.event_hooks
    if _check not in hooks["response"]:
        hooks["response"].append(_check)
        client.event_hooks = hooks
        client.headers["accept-encoding"] = "identity"
    return client


async def _check(response: Any) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise InternalError("The model's server has compressed its answer, which it was not asked for.")
    response.stream = _counted(response.stream)


def _counted(stream: Any) -> Any:
    # Of the library that the client is of, which checks it.
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "AsyncByteStream")

    async def pieces(_self: Any) -> Any:
        size = 0
        async for piece in stream:
            size += len(piece)
            if size > ANSWER_BYTES:
                raise InternalError(f"The model's answer is longer than {ANSWER_BYTES // 2**20} MiB.")
            yield piece

    async def close(_self: Any) -> None:
        await stream.aclose()

    return type("Counted", (base,), {"__aiter__": pieces, "aclose": close})()


def bound_model(model: Any) -> Any:
    """A model of pydantic-ai, whose client is bounded, as far as that is one of httpx."""
    provider = getattr(model, "_provider", None)
    client = getattr(getattr(provider, "client", None), "_client", None)
    if hasattr(client, "event_hooks"):
        bound_client(client)
    # It makes another one when it is used again after its end.
    make: Callable[[], Any] | None = getattr(provider, "_http_client_factory", None)
    if make is not None:
        setattr(provider, "_http_client_factory", lambda: bound_client(make()))  # noqa: B010
    return model


_SECRETS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")

_LATER: Final = {
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
}
"""By the beginning of a provider's name, what its library reads when it is first used."""


@contextmanager
def reading(provider: str, names: set[str]) -> Generator[None]:
    """Add the names of the variables that a provider reads in the block: those with its own name, and secrets. What all
    programs read, such as proxies, is not for it alone."""
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
    """The environment, which notes what is asked for."""

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
        """As `os.environ.copy`."""
        return dict(self._environment)
