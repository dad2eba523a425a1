"""Which annotations need no look by pydantic to be known as good.

The check of a function's parameters can be built later if all their types are such. About any other type pydantic has
to be asked when the function is registered, so that its author hears of a mistake at once.
"""

from __future__ import annotations

import dataclasses
from collections import abc
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

_PLAIN: Final = frozenset(
    {*(object, str, int, float, bool, bytes, type(None)), *(list, dict, tuple, set, frozenset)},
)
_HOMES: Final = frozenset({"datetime", "decimal", "pathlib", "uuid"})
"""Modules whose classes are plain. By their names, since an agent that has none of them need not load them."""

_TAKES: Final[dict[Any, int]] = {
    **dict.fromkeys((list, set, frozenset, abc.Sequence, abc.Set, abc.Iterable), 1),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), 2),
}
"""How many types stand in the brackets."""


def is_plain(annotation: Any, inside: tuple[type[Any], ...] = ()) -> bool:
    """Whether a check of values of this type can surely be built. `inside`: the dataclasses that it is a field of."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None:
        plain = annotation is Any or annotation is None
        return plain or (isinstance(annotation, type) and _is_plain_class(cast("type[Any]", annotation), inside))
    if origin is Literal:
        return bool(args) and all(isinstance(value, (str, int, bool)) or value is None for value in args)
    if origin is tuple and args[1:] == (...,):
        args = args[:1]
    elif origin not in (tuple, Union, UnionType) and _TAKES.get(origin) != len(args):
        return False
    return all(is_plain(arg, inside) for arg in args)


def _is_plain_class(annotation: type[Any], inside: tuple[type[Any], ...]) -> bool:
    if annotation in _PLAIN or annotation in inside or annotation.__module__ in _HOMES:
        return True
    if any(name.startswith("__pydantic") or name == "__get_pydantic_core_schema__" for name in dir(annotation)):
        return False
    if issubclass(annotation, Enum):
        return True
    if not dataclasses.is_dataclass(annotation):
        return False
    try:
        fields = get_type_hints(annotation, include_extras=True)
    except Exception:
        return False  # pydantic may know more, or say what is wrong
    return all(is_plain(field, (*inside, annotation)) for field in fields.values())


CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
LONGEST: Final = 64
RULE: Final = f"1 to {LONGEST} of the characters a-z, A-Z, 0-9, '_' and '-'"


def is_name(text: str) -> bool:
    """Whether it keeps to the rule."""
    return 1 <= len(text) <= LONGEST and CHARACTERS.issuperset(text)
