"""Members that an author adds to the result of a request, besides those of the protocol (ACP, Extensibility).

`acp_server.peer.inbound` merges them into the response.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from typing import Any, Final, cast

from acp_server.errors import EncodeError, UsageError
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.peer")

META: Final = "_meta"


class Answer(MutableMapping[str, Any]):
    """Members to add to the result of one request, also to the result of a cancelled request. An error gets none of
    them.

    `answer.meta[...]` is the stable place for extensions. `answer["usage"]` adds a member of a draft. An agent may set
    such an unstable member itself, but a value of the runtime takes precedence. Raises UsageError for a stable member
    of the protocol, such as `stopReason`, which the runtime sets, and EncodeError for a value that JSON cannot
    express.
    """

    __slots__ = ("_members", "_method")

    def __init__(self, method: str) -> None:
        self._method = method
        self._members: dict[str, Any] = {}

    @property
    def meta(self) -> dict[str, Any]:
        """Return the `_meta` of the result, by key. It is left out while it is empty. Keys of the runtime take
        precedence."""
        return self._members.setdefault(META, {})

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == META and not isinstance(value, dict):
            raise UsageError("_meta must be a dict; set single keys by answer.meta[...]")
        if name in self._own():
            raise UsageError(f"the runtime sets {name!r} of the response to {self._method}")
        codec.encode(value)
        self._members[name] = value

    def __delitem__(self, name: str) -> None:
        del self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"Answer({self._method!r}, {self._members!r})"

    def _own(self) -> set[str]:
        from acp_server.schema import METHODS
        from acp_server.schema.base import to_wire_name
        from acp_server.schema.features import unstable_members

        method = METHODS.get(self._method)
        kinds = () if method is None else getattr(method.result_type, "__args__", (method.result_type,))
        names = {(kind, to_wire_name(name)) for kind in kinds for name in getattr(kind, "model_fields", ())}
        return {name for kind, name in names if f"{kind.__name__}.{name}" not in unstable_members()} - {META}

    def added_to(self, result: Any) -> Any:
        """Return a result with these members. Members that the result already has are kept. `_meta` is merged key by
        key."""
        members = {name: value for name, value in self._members.items() if name != META or value}
        if not members:
            return result
        own: Any = result.to_wire() if hasattr(result, "to_wire") else {} if result is None else result
        if not isinstance(own, dict):
            logger.warning(
                "cannot add members to the response to %s, because its result is not an object", self._method
            )
            return result
        try:
            codec.encode(members)
        except EncodeError as problem:
            # The author changed a nested value after it was checked. The result itself can be encoded.
            logger.error("the additions to the response to %s cannot be expressed in JSON: %s", self._method, problem)
            return result
        own = cast("dict[str, Any]", own)
        whole = {**members, **own}
        if META in members and isinstance(own.get(META), dict):
            whole[META] = {**members[META], **own[META]}
        return whole
