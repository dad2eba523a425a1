"""The parameters of a function, as a validator of received values and as JSON Schema.

Signatures are inspected once, at registration, so that most mistakes show when the program starts. The validator is
built at its first use, so that loading pydantic does not delay the response to `initialize`. Only if a type is not
known to be valid, the validator is built at registration.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from types import GenericAlias, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from acp_server.errors import InvalidParams, UsageError
from acp_server.signatures import signature_of
from acp_server.tools.fields import EMPTY, field_of, has_notes, is_field, misfit, unread_notes, with_words

if TYPE_CHECKING:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic_core import SchemaValidator

_PLAIN: Final = frozenset({*(object, str, int, float, bool, bytes, type(None)), *(list, dict, tuple, set, frozenset)})
_HOMES: Final = frozenset({"datetime", "decimal", "pathlib", "pathlib._local", "uuid"})
"""Modules whose classes are plain. Only Python 3.13 uses the name `pathlib._local`. They are listed by name, so that an
agent that does not use them need not load them."""

_TAKES: Final[dict[Any, int]] = {
    **dict.fromkeys((list, set, frozenset, abc.Sequence, abc.Set, abc.Iterable), 1),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), 2),
}
"""The number of type arguments of each generic type."""


def is_plain(annotation: Any, inside: tuple[type[Any], ...] = ()) -> bool:
    """Whether a validator for this type can certainly be built. `inside`: the dataclasses that contain the type in a
    field."""
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
    if _is_known_to_pydantic(annotation):
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


def _is_known_to_pydantic(annotation: type[Any]) -> bool:
    return any(name.startswith("__pydantic") or name == "__get_pydantic_core_schema__" for name in dir(annotation))


def _strangers(annotation: Any) -> Iterator[type[Any]]:
    """Yield the classes in a type that JSON may not express, as far as that is known without pydantic."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal or origin is Annotated:
        return
    for arg in args:
        yield from _strangers(arg)
    if origin is None and isinstance(annotation, type) and not _is_plain_class(cast("type[Any]", annotation), ()):
        made = cast("type[Any]", annotation)
        has_form = is_typeddict(made) or dataclasses.is_dataclass(made) or issubclass(made, (str, int, float, tuple))
        if not (has_form or _is_known_to_pydantic(annotation)):
            yield made


_OF_THE_CALL: Final = {"Turn": "turn", "Session": "session", "Client": "client", "Editor": "editor"}
"""Classes of this package that a tool gets from its call, with the call's attribute for each."""


CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
LONGEST: Final = 64
RULE: Final = f"1 to {LONGEST} of the characters a-z, A-Z, 0-9, '_' and '-'"


def is_name(text: str) -> bool:
    """Whether the text is a valid name, see `RULE`."""
    return 1 <= len(text) <= LONGEST and CHARACTERS.issuperset(text)


class Parameters:
    """The parameters of `function` that can be passed by name, without the parameters for which `skip` returns True.
    Raises UsageError for a parameter that cannot be passed by name."""

    def __init__(self, function: Callable[..., Any], skip: Callable[[inspect.Parameter], bool]) -> None:
        self._function = function
        self._taken: list[inspect.Parameter] = []
        self._open = False
        for parameter in signature_of(function).parameters.values():
            if skip(parameter):
                continue
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._open = True
            elif parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
                raise UsageError(f"{name_of(function)}: the parameter {parameter.name} cannot be passed by name")
            else:
                self._taken.append(parameter)

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments to call the function with; `_meta` is never among them. Raises InvalidParams, whose data
        lists each problem."""
        if not isinstance(params, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            # A model may send any JSON value.
            raise InvalidParams(data={"problems": [{"path": "", "message": "the arguments must be an object"}]})
        given = dict(params)
        given.pop("_meta", None)
        try:
            return self._validator.validate_python(given)
        except Exception as error:
            # Not imported above: the lookup at each call takes as long as the check of two arguments.
            from pydantic import ValidationError

            if not isinstance(error, ValidationError):
                raise
            from acp_server.schema.reading import explain

            raise InvalidParams(data={"problems": explain(error)}) from None

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, as one object. Raises UsageError for types without a JSON Schema."""
        from pydantic import PydanticUserError

        try:
            schema = self._adapter.json_schema()
        except PydanticUserError as error:
            raise self._no_form(error) from error
        schema.pop("title", None)
        for parameter in cast("dict[str, Any]", schema.get("properties", {})).values():
            # pydantic makes the title of the name, which the schema already has.
            parameter.pop("title", None)
        if not self._open:
            schema["additionalProperties"] = False
        for parameter in self._taken:
            self._add_default(schema["properties"], parameter)
        return schema

    def _add_default(self, properties: dict[str, Any], parameter: inspect.Parameter) -> None:
        default = parameter.default
        if default is EMPTY or is_field(default):
            return  # pydantic has written that of a field
        shown = jsonable(default)
        if _has_form(shown) and parameter.name in properties:
            properties[parameter.name].setdefault("default", shown)

    def check(self) -> None:
        """Raise UsageError now if a type has no validator.

        Plain types are known to have a validator. It is built here only if there are other types, because building
        loads pydantic.
        """
        plain = True
        for parameter in self._taken:
            annotation = annotation_of(self._function, parameter)
            self._check_field(parameter, annotation)
            plain = plain and is_plain(annotation) and not is_field(parameter.default)
        if not plain:
            self.build()

    def _check_field(self, parameter: inspect.Parameter, annotation: Any) -> None:
        """Raise UsageError for a default that is not of its type, and for metadata without effect."""
        problem = misfit(annotation, parameter.default)
        if problem is not None:
            raise UsageError(f"{name_of(self._function)}: the default of {parameter.name} is {problem}")
        note = next(unread_notes(annotation), EMPTY)
        if note is not EMPTY:
            kind = note.__name__ if isinstance(note, type) else type(note).__name__
            raise UsageError(
                f"{name_of(self._function)}: the {kind} in the annotation of {parameter.name} has no effect; only "
                "pydantic's Field, its constraints and a string have an effect"
            )

    def check_types(self) -> None:
        """Raise UsageError for a type that is not known, or not known yet."""
        for parameter in self._taken:
            annotation_of(self._function, parameter)

    def build(self) -> None:
        """Build the validator now, if it is not built yet. Raises UsageError for types without a validator."""
        _ = self._validator

    @cached_property
    def _validator(self) -> SchemaValidator:
        from acp_server.tools.checks import check_of

        return check_of(self._adapter.core_schema)

    @cached_property
    def _adapter(self) -> TypeAdapter[dict[str, Any]]:
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter
        from typing_extensions import TypedDict

        fields: dict[str, Any] = {}
        for parameter in self._taken:
            fields[parameter.name] = self._field(parameter)
        shape: Any = cast("Any", TypedDict)(name_of(self._function), fields)
        extra = "allow" if self._open else self.EXTRA
        shape.__pydantic_config__ = ConfigDict(
            extra=cast("Any", extra), arbitrary_types_allowed=True, validate_by_alias=True, validate_by_name=True
        )
        try:
            return TypeAdapter(shape)
        except PydanticUserError as error:
            raise self._no_form(error) from error

    def _field(self, parameter: inspect.Parameter) -> Any:
        """Return one parameter as the member of a TypedDict. pydantic fills in the default only of a `Field`; otherwise
        the function's own default applies."""
        annotation, default = annotation_of(self._function, parameter), parameter.default
        if not (is_field(default) or has_notes(annotation)):
            return annotation if default is EMPTY else NotRequired[annotation]
        field = field_of(annotation, default)
        described = with_words(annotation)
        member: Any = Annotated
        if default is not EMPTY:
            from pydantic import Field

            described = member[described, default if is_field(default) else Field(default=default)]
        return described if field.is_required() else NotRequired[described]

    def _no_form(self, error: PydanticUserError) -> UsageError:
        """Return the error for a type without a schema, with the name of its parameter."""
        taken = self._taken
        wrong = next((each for each in taken if not _has_schema(annotation_of(self._function, each))), None)
        where = "" if wrong is None else f"the parameter {wrong.name}: "
        return UsageError(f"{name_of(self._function)}: {where}{error.message}")

    EXTRA = "ignore"
    """How unknown names are handled: the value of pydantic's option `extra`."""


class StrictParameters(Parameters):
    """The parameters of a tool. An unknown name is an error, because the model made it up. A type that JSON cannot
    express is refused; at registration if the type is defined by then."""

    EXTRA = "forbid"

    def __init__(self, function: Callable[..., Any], skip: Callable[[inspect.Parameter], bool]) -> None:
        super().__init__(function, skip)
        self._unknown: list[inspect.Parameter] = []
        for parameter in self._taken:
            if parameter.name == "self" and parameter.annotation is EMPTY:
                name = name_of(function)
                raise UsageError(
                    f"{name} is the method of a class; register the bound method of an object, as in "
                    f"agent.tool({name.lower()})"
                )
            try:
                annotation = annotation_of(function, parameter)
            except Exception:
                self._unknown.append(parameter)  # it may still be defined, below the function
                continue
            self._check_form(parameter, annotation)

    def check_types(self) -> None:
        """See `Parameters.check_types`."""
        for parameter in self._unknown:
            self._check_form(parameter, annotation_of(self._function, parameter))

    def _check_form(self, parameter: inspect.Parameter, annotation: Any) -> None:
        self._check_field(parameter, annotation)
        for stranger in _strangers(annotation):
            place = _OF_THE_CALL.get(stranger.__name__) if stranger.__module__.startswith("acp_server.") else None
            if place is None and _has_schema(stranger):
                continue
            cure = f"call.{place} of a parameter `call: ToolContext`" if place else "a type that JSON can express"
            problem = f"no model can write the {stranger.__name__} that the parameter {parameter.name} takes"
            raise UsageError(f"{name_of(self._function)}: {problem}; use {cure} instead")


def _has_schema(annotation: Any) -> bool:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    # Inside a list, like a parameter inside its TypedDict: pydantic refuses a config for a bare model.
    inside: Any = GenericAlias(list, (annotation,))
    try:
        TypeAdapter[Any](inside, config=ConfigDict(arbitrary_types_allowed=True)).json_schema()
    except PydanticUserError:
        return False
    return True


def annotation_of(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the type of one parameter. Types are resolved one by one, because another parameter's type may exist only
    for type checkers."""
    annotation = parameter.annotation
    if annotation is EMPTY:
        return Any
    if isinstance(annotation, str):
        # In Python 3.14 and later it may be defined by now.
        annotation = signature_of(function).parameters[parameter.name].annotation
    if isinstance(annotation, str):
        plain: Any = inspect.unwrap(function)
        plain = getattr(plain, "func", plain)  # of a functools.partial
        try:
            return eval(annotation, getattr(plain, "__globals__", {}))
        except (NameError, AttributeError) as error:
            raise UsageError(
                f"{name_of(function)}: the type of {parameter.name} cannot be resolved: {error}"
            ) from error
    return annotation


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for an error."""
    return getattr(function, "__qualname__", repr(function))


def jsonable(value: Any) -> Any:
    """Return `value` in a form that the codec can encode. Protocol types get their wire names; sets, paths and similar
    types get pydantic's form. A value that JSON cannot express is returned unchanged."""
    if isinstance(value, (str, int, float, type(None))):
        return value
    # Copied in one step, because a thread may be adding to it.
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in list(cast("list[Any]", value))]
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in list(cast("dict[Any, Any]", value).items())}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    from pydantic import BaseModel
    from pydantic_core import to_jsonable_python

    from acp_server.schema.base import Model

    if isinstance(value, BaseModel):
        return value.to_wire() if isinstance(value, Model) else value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Iterator):
        return cast("Any", value)  # encoding would exhaust it
    try:
        return to_jsonable_python(value)
    except ValueError:
        return value


def _has_form(value: Any) -> bool:
    """Whether JSON can express the value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_form(each) for key, each in cast("dict[Any, Any]", value).items())
    if isinstance(value, list):
        return all(map(_has_form, cast("list[Any]", value)))
    return isinstance(value, (str, int, float, type(None)))


__all__ = ["RULE", "annotation_of", "is_name", "name_of"]
