"""Checks of values in objects that Python code builds. They are not applied to received objects.

Enumerations are open for received values, and closed for values of Python code. A peer may have a newer version, so
unknown enum values are kept. But Python code that builds an object with an unknown enum value has a mistake: editors
refuse the message, or show nothing. The same holds for relative paths, lines that are not counted from 1, invalid
base64, and paths instead of URIs.
"""

from abc import ABC, abstractmethod
from binascii import a2b_base64
from collections.abc import Iterable
from pathlib import PureWindowsPath
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

BUILT = {"built": True}
"""The context for validating objects that Python code builds. Received objects are read without it."""


class OwnWord(str):
    """An enum value that the protocol does not have, for an enum field: an extension that both sides know, or a value
    of a draft. Constructors accept any value that begins with `_` without it."""

    __slots__ = ()


_MEANT: Final = {
    **dict.fromkeys(("done", "finished", "success", "succeeded", "ok"), ("completed", "end_turn")),
    **dict.fromkeys(("running", "started", "active", "doing"), ("in_progress", "running")),
    **dict.fromkeys(("todo", "open", "waiting", "queued"), ("pending",)),
    **dict.fromkeys(("error", "rejected"), ("failed", "error")),
    **dict.fromkeys(("allow", "yes", "accept", "approve"), ("allow_once",)),
    **dict.fromkeys(("reject", "no", "deny", "decline"), ("reject_once",)),
    **dict.fromkeys(("normal", "default"), ("medium",)),
    **dict.fromkeys(("write", "create", "patch"), ("edit",)),
    **dict.fromkeys(("run", "shell", "command", "bash"), ("execute",)),
    **dict.fromkeys(("agent", "model"), ("assistant",)),
}
"""Words of other protocols and SDKs, with their equivalents here."""


class Own(ABC):
    """Metadata of a type: a check of values from Python code."""

    @abstractmethod
    def check(self, value: Any) -> None:
        """Check a value. Raises PydanticCustomError, a ValueError, for a value that Python code cannot mean."""

    def schema(self, inner: CoreSchema) -> CoreSchema:
        """Return the schema of the type, with the check for objects that Python code builds before it."""

        def check(value: Any, info: ValidationInfo[Any]) -> Any:
            if info.context is BUILT:
                self.check(value)
            return value

        return core_schema.with_info_before_validator_function(check, inner)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return self.schema(handler(source))


class Absolute(Own):
    """The path of a file, absolute on this machine or on another one. A URL (`https://...`) is accepted too, because
    agents report pages that they have read as locations of a tool call."""

    def check(self, value: Any) -> None:
        """See `Own`."""
        if isinstance(value, str) and not (value[:1] == "/" or "://" in value or PureWindowsPath(value).is_absolute()):
            raise PydanticCustomError(
                "relative_path", "Paths of the protocol are absolute: os.path.join(session.cwd, path) makes one"
            )


class FromOne(Own):
    """A line, counted from 1."""

    def check(self, value: Any) -> None:
        """See `Own`."""
        if value == 0:
            raise PydanticCustomError("line_zero", "Lines are counted from 1")


class Base64(Own):
    """The bytes of a file, base64."""

    def check(self, value: Any) -> None:
        """See `Own`."""
        try:
            a2b_base64(value, strict_mode=True)
        except (ValueError, TypeError):
            raise PydanticCustomError(
                "no_base64", "The protocol has bytes as base64: base64.b64encode(data).decode() makes it"
            ) from None


class MediaType(Own):
    """A media type."""

    def check(self, value: Any) -> None:
        """See `Own`."""
        if isinstance(value, str) and "/" not in value:
            raise PydanticCustomError("no_media_type", "A media type has two parts, such as 'image/png'")


class Address(Own):
    """A URI, and not the path of a file."""

    def check(self, value: Any) -> None:
        """See `Own`."""
        if isinstance(value, str) and (value.startswith("/") or PureWindowsPath(value).is_absolute()):
            raise PydanticCustomError("path_as_uri", "A URI is not a path: pathlib.Path(path).as_uri() makes one")


class OpenEnum(Own):
    """Any string, with a list of known strings. `extensible`: whether the protocol lets peers send custom strings.

    Python code that builds an object must use a known string, a string that begins with `_`, or an `OwnWord`.
    """

    def __init__(self, *, extensible: bool = False) -> None:
        self.extensible = extensible
        self.known: list[str] = []

    def check(self, value: Any) -> None:
        """Check an enum value. Raises PydanticCustomError, a ValueError, for a value that Python code cannot mean."""
        if type(value) is not str or value in self.known or value.startswith("_"):
            return
        near = self._near(value.lower().replace("-", "_").replace(" ", "_"))
        there_are = f"there are {', '.join(self.known)}; use OwnWord(...) for a word of an extension"
        instead = there_are if near is None else f"did you mean {near!r}?"
        raise PydanticCustomError(
            "unknown_word", "There is no such word in the protocol; {instead}", {"instead": instead}
        )

    def _near(self, word: str) -> str | None:
        from difflib import get_close_matches  # imported here, since only a mistake needs it

        meant = next((other for other in _MEANT.get(word, ()) if other in self.known), None)
        return meant or next(iter(get_close_matches(word, self.known, 1)), None)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        self.known = [value for value in literals(source) if value is not None]
        return self.schema(core_schema.str_schema())

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema with the known strings. For an extensible enumeration it also allows any other string."""
        known = {"enum": self.known, "type": "string"}
        return {"anyOf": [known, {"type": "string"}]} if self.extensible else known


def literals(annotation: Any) -> list[Any]:
    """Return the values of the `Literal` in an annotation, including None if the annotation allows None."""
    if annotation is None or annotation is NoneType:
        return [None]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return list(arguments)
    if origin is Annotated:
        return literals(arguments[0])
    if origin is Union or origin is UnionType:
        return [value for argument in arguments for value in literals(argument)]
    return []


def own_of(annotation: Any, notes: Iterable[Any] = ()) -> Own | None:
    """Return the check for values from Python code in a field of this type; None if there is none. `notes`: metadata
    that pydantic has removed from the type."""
    if (note := next((note for note in notes if isinstance(note, Own)), None)) is not None:
        return note
    annotation = getattr(annotation, "__value__", annotation)  # of a TypeAliasType
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        note = next((note for note in arguments[1:] if isinstance(note, Own)), None)
        if isinstance(note, OpenEnum) and not note.known:
            note.known = [value for value in literals(arguments[0]) if value is not None]  # its class is not built yet
        return note
    if origin is Union or origin is UnionType:
        return next((own for each in arguments if (own := own_of(each)) is not None), None)
    return None
