"""One parameter of a function as a pydantic field, with the constraints and descriptions of its annotation.

pydantic, FastAPI and FastMCP read the same forms: a `Field` as the default or in `Annotated`, and a text or a `Doc` in
`Annotated`. Metadata that none of them reads is refused, because a constraint in it would be lost.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from types import EllipsisType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

EMPTY: Final = inspect.Parameter.empty
"""The default of a parameter without a default."""

_HOOKS: Final = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
"""If metadata in `Annotated` has one of these methods, it affects the check or the schema."""


def is_field(value: Any) -> bool:
    """Whether the value is a pydantic `Field`, or an instance of a subclass."""
    # Without the module loaded, no such object exists.
    module = sys.modules.get("pydantic.fields")
    return module is not None and isinstance(value, module.FieldInfo)


def has_notes(annotation: Any) -> bool:
    """Whether a type contains an `Annotated`."""
    return get_origin(annotation) is Annotated or any(map(has_notes, _inner(annotation)))


def field_of(annotation: Any, default: Any) -> FieldInfo:
    """Return the field that pydantic makes of an annotation and a default in a model."""
    from pydantic.fields import FieldInfo

    described = with_words(annotation)
    if default is EMPTY:
        return FieldInfo.from_annotation(described)
    return FieldInfo.from_annotated_attribute(described, default)


def with_words(annotation: Any) -> Any:
    """Return the type with each text and `Doc` in its metadata replaced by a description that pydantic reads."""
    if not has_notes(annotation):
        return annotation
    inner = tuple(map(with_words, _inner(annotation)))
    if get_origin(annotation) is not Annotated:
        if (copy_with := getattr(annotation, "copy_with", None)) is not None:
            return copy_with(inner)
        origin: Any = Union if isinstance(annotation, UnionType) else get_origin(annotation)
        return origin[inner]
    from pydantic import Field

    notes = (note if (words := _words(note)) is None else Field(description=words) for note in _notes(annotation))
    made: Any = Annotated
    return made[(*inner, *notes)]


def unread_notes(annotation: Any) -> Iterator[Any]:
    """Yield the metadata in a type that has no effect here. A constraint in it would be lost."""
    for note in _notes(annotation):
        if _words(note) is None and not is_field(note) and not _is_read(note):
            yield note
    for each in _inner(annotation):
        yield from unread_notes(each)


def misfit(annotation: Any, default: Any) -> str | None:
    """Return the problem with a default, as the end of a sentence; None if the default has its type. A default may be
    outside the bounds for passed values."""
    # A plain object is a sentinel for "nothing was passed".
    if default is EMPTY or is_field(default) or type(default) is object:
        return None
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    fits = _fits(annotation, default)
    if fits or (fits is None and _fits_by_check(annotation, default)):
        return None
    is_short = isinstance(default, (str, int, float, type(None), EllipsisType))
    shown = repr(default) if is_short else f"a {type(default).__name__}"
    named = inspect.formatannotation(annotation)
    return f"{shown}, which is not of its type, {named}" + (f"; write {named} | None" if default is None else "")


def _fits(annotation: Any, default: Any) -> bool | None:
    """Whether a default is of a type; None if only pydantic can decide that."""
    if annotation is Any or annotation is object:
        return not _is_marker(default)
    if annotation is None or annotation is type(None):
        return default is None
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return any(default == value and type(default) is type(value) for value in args)
    if origin is Union or origin is UnionType:
        found = [_fits(arg, default) for arg in args]
        return True if True in found else None if None in found else False
    if annotation is float:
        return isinstance(default, (int, float)) and not isinstance(default, bool)
    if annotation is int:
        return isinstance(default, int) and not isinstance(default, bool)
    if annotation in (str, bool, bytes) or default is None:
        return isinstance(annotation, type) and isinstance(default, annotation)
    kind = annotation if origin is None else origin
    if isinstance(kind, type) and isinstance(default, kind) and (origin is None or not default):
        return True
    return False if isinstance(kind, type) and issubclass(kind, Enum) else None


def _fits_by_check(annotation: Any, default: Any) -> bool:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

    inside: Any = list
    try:
        check = TypeAdapter[Any](inside[annotation], config=ConfigDict(arbitrary_types_allowed=True))
        check.validate_python([default], strict=True)
    except ValidationError:
        return False
    except PydanticUserError:
        return True  # The check of the type itself raises a better message.
    return True


def _is_marker(default: Any) -> bool:
    """Whether the default is a marker of another framework, such as `Depends(...)`, which has no effect here."""
    return callable(getattr(default, "dependency", None)) or type(default).__name__ in ("Depends", "Security")


def _is_read(note: Any) -> bool:
    if any(hasattr(note, hook) for hook in _HOOKS):
        return True
    # pydantic depends on it, so it is installed. While it is not loaded, no note of its classes exists.
    module = sys.modules.get("annotated_types")
    # pydantic ignores a Timezone.
    return (
        module is not None
        and isinstance(note, (module.BaseMetadata, module.GroupedMetadata))
        and not isinstance(note, module.Timezone)
    )


def _words(note: Any) -> str | None:
    if isinstance(note, str):
        return note
    # The `Doc` of typing_extensions and that of annotated_doc.
    words = getattr(note, "documentation", None) if type(note).__name__ in ("Doc", "DocInfo") else None
    return words if isinstance(words, str) else None


def _notes(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _inner(annotation: Any) -> tuple[Any, ...]:
    """Return the type arguments of a type. A literal has values and no type arguments."""
    origin, args = get_origin(annotation), get_args(annotation)
    return () if origin is Literal else args[:1] if origin is Annotated else args
