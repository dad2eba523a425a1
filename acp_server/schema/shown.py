"""Makes `help()` and completion show a protocol type as its fields with their meanings, without pydantic's own members.

Meanings are read from the sources on demand. Nothing else uses this module.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, Final

from pydantic import BaseModel

_Metaclass: Any = type(BaseModel)
_OFFERED: Final = (FunctionType, classmethod, property)


class _Shown(_Metaclass):
    # The class of the types. It has no docstring, since `__doc__` is the property for theirs.

    def __dir__(self) -> list[str]:
        """Return the fields, and the names that this package's types define."""
        ours = [vars(base) for base in self.__mro__ if isinstance(base, _Shown)]
        offered = {name for names in ours for name, value in names.items() if isinstance(value, _OFFERED)}
        return sorted({name for name in offered if not name.startswith("_")} | self.__pydantic_fields__.keys())

    @property
    def __doc__(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The docstring, followed by a line for each field with its meaning."""
        said = inspect.cleandoc(vars(self).get("__doc__") or "")
        kind: Any = self
        fields = [f"{name}: {_type_of(field)}{_meaning(kind, name, field)}" for name, field in _fields(kind)]
        return "\n\n".join(filter(None, (said, "\n".join(fields)))) or None


SHOWN: Final[dict[str, Any]] = {"metaclass": _Shown}
"""Arguments for the base class of the types. They hide the metaclass, because type checkers consider a class with a
visible metaclass unhashable."""


def _fields(kind: Any) -> list[tuple[str, Any]]:
    # Nearly all types have `meta`: it comes last.
    return sorted(getattr(kind, "__pydantic_fields__", {}).items(), key=lambda field: field[0] == "meta")


def _meaning(kind: Any, name: str, field: Any) -> str:
    from acp_server.schema.export import meaning_of
    from acp_server.schema.words import OpenEnum, own_of

    words = own_of(field.annotation, field.metadata)
    known = f"One of {', '.join(words.known)}." if isinstance(words, OpenEnum) else ""
    return "".join(f"\n    {text}" for text in (meaning_of(kind, name), known) if text)


def _type_of(field: Any) -> str:
    written = inspect.formatannotation(field.annotation).replace("typing.", "")
    return written if field.is_required() else f"{written}, optional"
