"""Reads received data as a type of the protocol, including unions, or explains why the data is invalid.

The explanations are for the peer that sent the data. They contain positions and reasons, but no values.

The protocol marks fields whose malformed values count as absent, lists whose malformed items are skipped, and fields
whose null counts as absent (`acp_server.schema.base`). A message is first read strictly. Only if that fails, `forgiven`
looks for values to drop. So lenience costs nothing for a valid message, and little for a message with a million
malformed values.

Importing this module is cheap, because pydantic is imported only when something is read.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import PurePosixPath, PureWindowsPath
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, overload

from acp_server.errors import InvalidParams, MalformedResponse
from acp_server.schema.versions import versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import TypeAdapter, ValidationError

    from acp_server.schema.base import Record

T = TypeVar("T", bound="Record")
Path = tuple[str | int, ...]
Repairs = dict[Path, bool]
"""The paths of values to remove, and for each whether an empty list must replace the value."""

MISSING = object()

_MOST_LOOKED_AT: Final = 100_000
"""The most values that are visited while one message is repaired, which takes some 30 ms. Each attempt counts them
again."""

_MOST_TOLD: Final = 100
"""The most problems that are listed one by one."""

_LONGEST: Final = 1000
"""The most characters of a path or a reason in the list. Both may contain names that the peer chose, many times
over."""


@overload
def from_wire(kind: type[T], data: Any) -> T: ...
@overload
def from_wire(kind: Any, data: Any) -> Any: ...
def from_wire(kind: Any, data: Any) -> Any:
    """Read `data`, a parsed JSON value, as `kind`: a class such as `Plan`, or a union such as `SessionUpdate`.

    It is as lenient as `Record.from_wire`. Raises `pydantic.ValidationError`.
    """
    if isinstance(kind, type):
        return cast("type[Record]", kind).from_wire(data)
    from acp_server.schema.base import tolerantly

    return tolerantly(kind, _adapter(kind).validator, data)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@overload
def read(kind: type[T], params: Any) -> T: ...
@overload
def read(kind: Any, params: Any) -> Any: ...
def read(kind: Any, params: Any) -> Any:
    """Read the parameters of a request, like `from_wire`. Raises InvalidParams, whose data lists each problem with its
    path, but not the input."""
    from pydantic import ValidationError

    try:
        return from_wire(kind, params)
    except ValidationError as error:
        raise InvalidParams(data={"problems": explain(error)}) from None


def read_result(kind: Any, method: str, result: Any) -> Any:
    """Read the result of an outgoing request, like `from_wire`. Raises MalformedResponse."""
    from pydantic import ValidationError

    try:
        return from_wire(kind, result)
    except ValidationError as error:
        problems = "; ".join(f"{problem['path']}: {problem['message']}".lstrip(": ") for problem in explain(error))
        raise MalformedResponse(method, problems) from None


def explain(error: ValidationError) -> list[dict[str, str]]:
    """Return one `{"path": "prompt[0].text", "message": "Field required"}` for each problem. In a list, only the first
    problem is found. The path "" is the whole value. If there are very many problems, only their number is returned."""
    if (count := error.error_count()) > _MOST_TOLD:
        return [{"path": "", "message": f"{count} problems"}]
    return [
        {"path": _path(detail["loc"])[:_LONGEST], "message": detail["msg"][:_LONGEST]}
        for detail in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def place_of(steps: Iterable[Any]) -> str:
    """Return the path of a position in a JSON value, such as `prompt[0].text`. `steps`: the names, and the indexes in
    lists, that lead there."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def _path(location: Path) -> str:
    # A class name is the chosen member of a union, not a place.
    return place_of(step for step in location if isinstance(step, int) or not _is_class(step))


def _is_class(step: str) -> bool:
    return any(version.has_type(step) for version in versions())


def problem(path: str, message: str, **data: Any) -> InvalidParams:
    """Return an InvalidParams about one field."""
    return InvalidParams(data={"problems": [{"path": path, "message": message}], **data})


def absolute(path: str, name: str, longest: int | None = None) -> str:
    """Return `path`, if it is absolute and has at most `longest` characters. Raises InvalidParams (ACP, Session Setup:
    working directory)."""
    if longest is not None and len(path) > longest:
        raise problem(name, f"is longer than {longest} characters")
    if "\0" in path or not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()):
        raise problem(name, "must be an absolute path")
    return path


def forgiven(kind: Any, validator: Any, data: Any, error: ValidationError) -> Any:
    """Read `data`, which is invalid, without its malformed values. `kind`: the class or union to read it as.

    `data` itself is not changed. If a malformed value must not be dropped, its error is raised. If there are too many
    malformed values, the last error is raised, because each attempt visits all values again.
    """
    from pydantic import ValidationError

    values = _values_in(data)
    looked_at = 0
    while (looked_at := looked_at + values) <= _MOST_LOOKED_AT:
        data = {} if data is None else _without(data, _repairs(kind, data, error))
        try:
            return validator.validate_python(data, by_alias=True, by_name=False)
        except ValidationError as another:
            error = another
    raise error


def _values_in(data: Any) -> int:
    """Return the number of values in `data`. If there are very many, any number above the bound is returned."""
    left, count = [data], 1
    while left and count <= _MOST_LOOKED_AT:
        value = left.pop()
        if isinstance(value, (dict, list)):
            inside = cast("dict[str, Any] | list[Any]", value)
            count += len(inside)
            left += inside.values() if isinstance(inside, dict) else inside
    return count


def _repairs(kind: Any, data: Any, error: ValidationError) -> Repairs:
    """Return the repairs for the problems of `error`. Raises `error` if one of the values must not be removed."""
    repairs: Repairs = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        repair = _repair(kind, data, detail["loc"])
        if repair is None:
            raise error
        repairs.update([repair])
    return repairs


def _repair(kind: Any, data: Any, location: Path) -> tuple[Path, bool] | None:
    """Return the innermost value around `location` that may be dropped, as a repair. A class name in `location` is a
    member of a union."""
    from acp_server.schema.base import Wire, attributes

    found: tuple[Path, bool] | None = None
    value: Any = data
    path: Path = ()
    models, is_mapping = _inside(kind)
    model: type[Record] | None = kind if isinstance(kind, type) else None
    skip_items = False
    for key in location:
        if model is None and isinstance(key, str) and not is_mapping:
            model = models.get(key)
            if model is not None or len(models) != 1:
                continue
            (model,) = models.values()
        value = _item(value, key)
        if value is MISSING:  # a missing field: its error is of the object around it
            return found
        path = (*path, key)
        if isinstance(key, int):
            if skip_items:
                found = path, False
        elif model is None:
            is_mapping = False
        else:
            name = attributes(model).get(key)
            if name is None:
                return found
            field = model.model_fields[name]
            notes = [note for note in field.metadata if isinstance(note, Wire)]
            if any(note.on_error or (note.on_null and value is None) for note in notes):
                found = path, field.is_required()
            skip_items = any(note.skip_items for note in notes)
            models, is_mapping = _inside(field.annotation)
            model = None
    return found


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(key, MISSING)
    return cast("list[Any]", value)[key] if isinstance(value, list) and isinstance(key, int) else MISSING


@cache
def _inside(annotation: Any) -> tuple[dict[str, type[Record]], bool]:
    """Return the models in an annotation, by name, and whether a key of a mapping comes before them in a location."""
    return {model.__name__: model for model in _models(annotation)}, get_origin(annotation) is dict


def _models(annotation: Any) -> Iterator[type[Record]]:
    from typing_extensions import TypeAliasType

    from acp_server.schema.base import Record

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
