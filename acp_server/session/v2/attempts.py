"""Handles prompts with an idempotency key (ACP v2, prompt lifecycle). The message of a key is inserted at most once.

The id of a turn is derived from its session and its key, so that a stored session knows the keys of its turns without
storing them.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import anyio

from acp_server.schema.reading import problem

_LONGEST: Final = 255
"""The most characters of a key."""
_REMEMBERED: Final = 1_000
"""The most keys whose messages are remembered besides the turns of the session's history."""


def id_of(params: dict[str, Any]) -> str | None:
    """Return the id of the turn for the parameters of a `session/prompt`; None without a key. Raises InvalidParams."""
    key: Any = params.get("idempotencyKey")
    if key is None:
        return None
    if type(key) is not str or not 0 < len(key) <= _LONGEST:
        raise problem("idempotencyKey", f"is not text of 1 to {_LONGEST} characters")
    text = f"{params['sessionId']}\0{key}"
    return f"turn_{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


class Attempts:
    """The prompts of one session that have a key, by the ids of their turns."""

    def __init__(self) -> None:
        self._held: dict[str, anyio.Event] = {}
        self._inserted: dict[str, None] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._held or id in self._inserted

    def begin(self, id: str) -> None:
        """Remember a prompt that is held."""
        self._held[id] = anyio.Event()

    def insert(self, id: str) -> None:
        """Remember a message that is part of the conversation."""
        self._inserted[id] = None
        if len(self._inserted) > _REMEMBERED:
            del self._inserted[next(iter(self._inserted))]
        self.end(id)

    def end(self, id: str) -> None:
        """Forget a prompt whose request has its response. Unless `insert` was called, another attempt may insert the
        message."""
        if (held := self._held.pop(id, None)) is not None:
            held.set()

    async def wait(self, id: str) -> None:
        """Wait until the prompt is no longer held."""
        if (held := self._held.get(id)) is not None:
            await held.wait()
