"""What a receiver drops from a message rather than refuse it.

The protocol marks fields whose wrong values count as absent, lists whose wrong items are skipped, and
fields whose null counts as absent (`acp_server.schema.base`). A message is read strictly first; only
when that has failed is it looked at here, so that tolerance costs a well-formed message nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import ValidationError
from typing_extensions import TypeAliasType

from acp_server.schema.base import Record, Wire, attributes

MISSING = object()

Path = tuple[str | int, ...]
Repairs = dict[Path, bool]
"""Where to cut, and whether an empty list has to take the place of what is cut."""


def forgiven(kind: Any, data: Any, error: ValidationError) -> Any:
    """A copy of `data`, which could not be read as `kind`, without the values that `error` complains of.

    `kind` is a class or a union. `data` itself is not changed. Raises `error` if one of them may not be
    dropped.
    """
    if data is None:
        return {}
    repairs: Repairs = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        repair = _repair(kind, data, detail["loc"])
        if repair is None:
            raise error
        repairs.update([repair])
    return _without(data, repairs)


def _repair(kind: Any, data: Any, location: Path) -> tuple[Path, bool] | None:
    """The innermost value around `location` that may be dropped. A class name in it is the member of a union."""
    found: tuple[Path, bool] | None = None
    value: Any = data
    path: Path = ()
    inside = _inside(kind)
    model: type[Record] | None = kind if isinstance(kind, type) else None
    skip_items = False
    for key in location:
        if model is None and isinstance(key, str) and not inside.is_mapping:
            model = inside.models.get(key)
            if model is not None or len(inside.models) != 1:
                continue
            (model,) = inside.models.values()
        value = _item(value, key)
        if value is MISSING:  # A missing field: its error belongs to the object around it.
            return found
        path = (*path, key)
        if isinstance(key, int):
            if skip_items:
                found = path, False
        elif model is None:
            inside = _Inside(inside.models, False)
        else:
            name = attributes(model).get(key)
            if name is None:
                return found
            field = model.model_fields[name]
            notes = [note for note in field.metadata if isinstance(note, Wire)]
            if any(note.on_error or (note.on_null and value is None) for note in notes):
                found = path, field.is_required()
            skip_items = any(note.skip_items for note in notes)
            inside = _inside(field.annotation)
            model = None
    return found


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(key, MISSING)
    return cast("list[Any]", value)[key] if isinstance(value, list) and isinstance(key, int) else MISSING


class _Inside:
    """The models inside an annotation, by name, and whether a key of a mapping comes before them."""

    __slots__ = ("is_mapping", "models")

    def __init__(self, models: Mapping[str, type[Record]], is_mapping: bool) -> None:
        self.models = models
        self.is_mapping = is_mapping


@cache
def _inside(annotation: Any) -> _Inside:
    return _Inside({model.__name__: model for model in _models(annotation)}, get_origin(annotation) is dict)


def _models(annotation: Any) -> Iterator[type[Record]]:
    if isinstance(annotation, TypeAliasType):
        yield from _models(annotation.__value__)
    elif isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    else:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            arguments = arguments[:1]
        elif origin not in (list, dict, Union, UnionType):
            return
        for argument in arguments:
            yield from _models(argument)


def _without(data: Any, repairs: Repairs) -> Any:
    by_key: defaultdict[str | int, Repairs] = defaultdict(dict)
    for (key, *rest), empty in repairs.items():
        by_key[key][tuple(rest)] = empty

    def repaired(items: Any) -> Iterator[tuple[Any, Any]]:
        for key, value in items:
            below = by_key.get(key)
            if below is None:
                yield key, value
            elif () not in below:
                yield key, _without(value, below)
            elif below[()]:
                yield key, []

    if isinstance(data, dict):
        return dict(repaired(cast("dict[str, Any]", data).items()))
    return [value for _, value in repaired(enumerate(data))]
