"""Text that every client can read: halves of surrogate pairs, which JSON can carry and UTF-8 cannot, are replaced.

A client writes one when it cuts a text inside an emoji, an agent when it streams one in two pieces; some of the API's
clients fail at the sight of them.
"""

from __future__ import annotations

from typing import Any, Final, cast

_DEEPEST: Final = 100
"""Levels of lists and objects in one another. Whatever the API has needs a handful."""


class TooDeep(ValueError):
    """The value has more levels than a client can need."""


def whole(text: str) -> str:
    """`text`, fit to be written."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def whole_json(value: Any, levels: int = _DEEPEST) -> Any:
    """`value`, parsed JSON, with all of its texts fit to be written. Raises TooDeep."""
    if isinstance(value, str):
        return whole(value)
    if not isinstance(value, list | dict):
        return value
    if not levels:
        raise TooDeep
    if isinstance(value, list):
        return [whole_json(item, levels - 1) for item in cast("list[Any]", value)]
    return {whole(key): whole_json(item, levels - 1) for key, item in cast("dict[str, Any]", value).items()}
