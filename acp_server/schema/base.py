"""The base of every type of the protocol: reading a received object, writing an object, `_meta`, unknown fields.

This module knows no type of the protocol, and no JSON text: its input and output are dictionaries.

Five rules apply everywhere:

- Fields that this version does not know are kept (`model_extra`) and written again, so that a proxy passes on the
  messages of a newer peer without loss. A name that Python code passes to a constructor, or assigns as an attribute,
  must be the name of a field. The error for a wrong name suggests the right one.
- Unset, null and a value are three different things. A field that is not given, or is given as `None`, is unset: it is
  not written, and reads as the protocol's default, or as `None`. `NULL` means null, which is written. Only fields for
  which null has its own meaning, such as to clear a value, accept `NULL`. A null field reads as `None`, and `is_null`
  distinguishes it from an unset field. Everything else is a value, and is written even if it is the default.
- Validation ends at the first wrong item of a list, because a list of a million zeros must not produce a million
  errors. This is set in pydantic's schema of a type (`first_problem`).
- Objects that Python code builds are validated strictly. Received objects are read by `from_wire`, which is lenient
  where the protocol requires that. Such fields are marked by `Wire`, metadata beside the type. Validation ignores it,
  so it costs nothing for a valid message. Only `acp_server.schema.reading` uses it, when a received message is invalid.
  The exported JSON Schema has it under the keys that ACP publishes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic_core import (
    CoreSchema,
    InitErrorDetails,
    PydanticCustomError,
    PydanticOmit,
    PydanticSerializationError,
    core_schema,
)

from acp_server.safe_text import whole
from acp_server.schema.shown import SHOWN
from acp_server.schema.words import BUILT, Own, own_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wire:
    """Metadata for one field."""

    required: bool = False
    """Whether the field is in every message, although Python code may omit it and use its default."""
    of_python: bool = False
    """Whether the field's default is only for Python code and not in the published schema."""
    on_error: bool = False
    """Whether a malformed value counts as absent (`x-deserialize-default-on-error`)."""
    skip_items: bool = False
    """Whether malformed items are dropped from the list (`x-deserialize-skip-invalid-items`)."""
    on_null: bool = False
    """Whether null counts as absent (`x-deserialize-default-on-null`)."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Add the metadata to the JSON Schema of the field. `x-required` and `x-of-python` are only for the
        exporter."""
        notes = {
            "x-required": self.required,
            "x-of-python": self.of_python,
            "x-deserialize-default-on-error": self.on_error,
            "x-deserialize-skip-invalid-items": self.skip_items,
            "x-deserialize-default-on-null": self.on_null,
        }
        return {**handler(schema), **{key: True for key, value in notes.items() if value}}


Lenient: TypeAlias = Annotated[T, Wire(on_error=True)]
"""A malformed value counts as absent."""
LenientItems: TypeAlias = Annotated[T, Wire(on_error=True, skip_items=True)]
"""Malformed items are dropped; a malformed list counts as absent."""
NullIsDefault: TypeAlias = Annotated[T, Wire(on_null=True)]
"""Null counts as absent."""
Sent: TypeAlias = Annotated[T, Wire(required=True)]
"""A field with a default in Python that is always written, because the protocol requires it."""
Unsaid: TypeAlias = Annotated[T, Wire(required=True, of_python=True)]
"""A field like `Sent`, but with a default that the protocol does not have."""


class _Null:
    """The type of `NULL`."""

    def __repr__(self) -> str:
        return "NULL"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "NULL"  # a singleton, in copies and in other processes too


NULL: Final[Any] = _Null()
"""Null on the wire, for a field in which null has its own meaning. `None` omits a field."""

if TYPE_CHECKING:
    # A constructor accepts any sequence, and the attribute is a list. Type checkers derive both from a descriptor,
    # which does not exist at runtime.
    class Items(Generic[T]):
        """A field that is a list."""

        def __get__(self, instance: object, owner: Any) -> list[T]: ...

        def __set__(self, instance: Any, value: Sequence[T]) -> None: ...

    class MaybeItems(Generic[T]):
        """A field that is a list or None."""

        def __get__(self, instance: object, owner: Any) -> list[T] | None: ...

        def __set__(self, instance: Any, value: Sequence[T] | None) -> None: ...

    # The tags of all other members of a union are literals. With a literal here too, type checkers distinguish the
    # members by their tags: after `case "text"` a content block is a TextContent.
    UnknownTag = Literal["(unknown)"]
else:
    Items = list
    UnknownTag = Annotated[str, "tag"]

    class MaybeItems:
        """A field that is a list or None."""

        def __class_getitem__(cls, item: Any) -> Any:
            return list[item] | None


_building: Final = RLock()
UNSET: Any = None
"""The default of a field that is a list or None."""


def no_items() -> Any:
    """Return the default of a field that reads as an empty list."""
    return Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CountsAs:
    """The value that an unset field counts as. The attribute still reads as None. Null is not a valid value."""

    value: Any

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Add the default to the JSON Schema of the field, and remove null. `x-default` is only for the exporter."""
        written = handler(schema)
        (kind,) = (member for member in written.pop("anyOf") if member != {"type": "null"})
        return {**written, **kind, "x-default": self.value}


@dataclass(frozen=True, slots=True)
class Expect:
    """Gives one error for a union of plain values, instead of one error for each member."""

    what: str
    """The description of the expected value in the error."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            first_problem(handler(source), Record),
            custom_error_type="expected",
            custom_error_message=f"Input should be {self.what}",
        )


JsonObject = dict[str, Any]


def to_wire_name(name: str) -> str:
    """Convert an attribute's name to the wire's spelling: `session_id` -> `sessionId`, and `meta` -> `_meta`."""
    if name == "meta":  # with Field(alias=...) type checkers would refuse `meta=`
        return "_meta"
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def tolerantly(kind: Any, validator: Any, data: Any) -> Any:
    """Read `data` leniently as `kind`, a class or a union, with `validator`. Raises `pydantic.ValidationError`."""
    try:
        return validator.validate_python(data, by_alias=True, by_name=False)
    except ValidationError as error:
        from acp_server.schema.reading import forgiven  # imported here, since a valid message never needs it

        return forgiven(kind, validator, data, error)


class Record(BaseModel, **SHOWN):
    """An object of the protocol: `snake_case` attributes in Python, `camelCase` keys on the wire."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_wire_name, defer_build=True, extra="allow", validate_by_alias=True, validate_by_name=True
    )

    NULLABLE: ClassVar[frozenset[str]] = frozenset()
    """Attributes in which null has its own meaning; see `NULL`."""

    if not TYPE_CHECKING:  # to type checkers a constructor has the fields as parameters

        def __init__(self, /, **data: Any) -> None:
            names = _names(type(self))
            for name, value in data.items():
                if value is None or value is NULL or name not in names:
                    data = _given(type(self), data)
                    break
            self.__pydantic_validator__.validate_python(data, self_instance=self, context=BUILT)

        # Without this, pydantic would call it for each object that is read, although it does nothing there.
        __init__.__pydantic_base_init__ = True

        def __setattr__(self, name: str, value: Any) -> None:
            kind = type(self)
            field = kind.__pydantic_fields__.get(name)
            if field is None and not name.startswith("_") and name not in (self.__pydantic_extra__ or ()):
                raise AttributeError(f"{kind.__name__} has no field {name!r}{_instead(kind, name)}")
            is_unset = value is None and field is not None and not field.is_required()
            if value is NULL and not self.may_be_null(name):
                raise AttributeError(f"{kind.__name__}.{name} cannot be null; use None to leave the field out")
            if value is NULL:
                value = None
            elif is_unset:
                value = field.get_default(call_default_factory=True, validated_data={})
            if (own := _checked(kind).get(name)) is not None:
                own.check(value)
            super().__setattr__(name, value)
            if is_unset:
                self.__pydantic_fields_set__.discard(name)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the attributes in `update` set. Raises AttributeError for a name that is not a field."""
        copied = super().model_copy(deep=deep)
        for name, value in (update or {}).items():
            setattr(copied, name, value)
        return copied

    def is_null(self, name: str) -> bool:
        """Whether the attribute is null, where null has its own meaning. A null attribute reads as None, like an unset
        one."""
        return name in self.__pydantic_fields_set__ and getattr(self, name) is None and self.may_be_null(name)

    @classmethod
    def may_be_null(cls, name: str) -> bool:
        """Whether null has its own meaning for this attribute."""
        return name in cls.NULLABLE

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return first_problem(handler(source), Record)

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """Build the validator and serializer of the type at its first use. Only one thread builds at a time, because
        pydantic before 2.14 requires that."""
        with _building:
            # One frame more: pydantic looks type names up in the caller's frame.
            return super().model_rebuild(_parent_namespace_depth=_parent_namespace_depth + 1, **options)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Return only the attributes that are set, because most objects have few of their fields."""
        return [(name, value) for name, value in super().__repr_args__() if value is not None]

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a received object, which is a parsed JSON value. `None` counts as an object without fields.

        Only the keys of the wire are accepted. Raises `pydantic.ValidationError` if the object is invalid even with all
        lenient fields dropped. `acp_server.schema.explain` describes the error briefly.
        """
        return tolerantly(cls, cls.__pydantic_validator__, data)

    def to_wire(self) -> JsonObject:
        """Return this object as JSON-ready values under the keys of the wire. Unset fields are omitted.

        Raises `pydantic_core.PydanticSerializationError` for a value that JSON cannot express, and ValueError for a
        value that is nested more than about 250 deep.
        """
        try:
            return self.__pydantic_serializer__.to_python(self, mode="json", by_alias=True, exclude_none=True)
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            # A key with half of a surrogate pair: the only text that pydantic does not write. If a class has its own
            # serializer, the error is within another one.
            if "surrogates not allowed" not in str(error):
                raise
            mended = _with_whole_keys(self)
            return mended.__pydantic_serializer__.to_python(mended, mode="json", by_alias=True, exclude_none=True)
        except TypeError:
            # pydantic before 2.14 can only report an error in a member of a union that has been built.
            if not build_all(self):
                raise
            return self.to_wire()


def build_all(value: Any) -> bool:
    """Build the types of a record and of all records in it. Returns whether this call built any of them."""
    if isinstance(value, Record):
        return any([type(value).model_rebuild() is True, *map(build_all, value.__dict__.values())])
    return isinstance(value, list) and any([*map(build_all, cast("list[Any]", value))])


def _with_whole_keys(value: Any) -> Any:
    """Return a copy with keys that UTF-8 can express. The nesting is bounded, see `to_wire`."""
    if isinstance(value, Record):
        copy = value.model_copy()
        object.__setattr__(copy, "__dict__", _with_whole_keys(dict(copy.__dict__)))
        if copy.__pydantic_extra__:
            object.__setattr__(copy, "__pydantic_extra__", _with_whole_keys(copy.__pydantic_extra__))
        return copy
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {whole(key) if isinstance(key, str) else key: _with_whole_keys(item) for key, item in items}
    return [_with_whole_keys(item) for item in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


@cache
def _checked(cls: type[Record]) -> dict[str, Own]:
    """Return the attributes that Python code may not set to every value of their type, with their checks."""
    found = ((name, own_of(field.annotation, field.metadata)) for name, field in cls.model_fields.items())
    return {name: own for name, own in found if own is not None}


@cache
def _names(cls: type[Record]) -> frozenset[str]:
    """Return the names of a constructor's arguments: the attributes and the keys of the wire."""
    return frozenset((*attributes(cls), *cls.model_fields))


def _given(cls: type[Record], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments `data` of a constructor, without unset ones, and with null as None. Raises ValidationError
    for names that are not fields, and for null where it has no meaning."""
    given: dict[str, Any] = {}
    problems: list[InitErrorDetails] = []
    for key, value in data.items():
        name = attributes(cls).get(key, key)
        field = cls.model_fields.get(name)
        if field is None:
            wrong = PydanticCustomError(
                "unexpected_name", "There is no such field{instead}", {"instead": _instead(cls, key)}
            )
            problems.append(InitErrorDetails(type=wrong, loc=(key,), input=value))
        elif value is NULL and not cls.may_be_null(name):
            wrong = PydanticCustomError("null", "Null has no meaning here; omit the field, or set None")
            problems.append(InitErrorDetails(type=wrong, loc=(key,), input=None))
        elif value is not None or field.is_required():
            given[key] = None if value is NULL else value
    if problems:
        raise ValidationError.from_exception_data(cls.__name__, problems)
    return given


def _instead(cls: type[Record], name: str) -> str:
    """Return a suggestion for a wrong name, as the end of a message."""
    from difflib import get_close_matches  # imported here, since only a mistake needs it

    # The official SDK has a field `field_meta`.
    near = get_close_matches(name.removeprefix("field_"), cls.model_fields, 1) or get_close_matches(
        name.lower(), cls.model_fields, 1
    )
    return f"; did you mean {near[0]!r}?" if near else ""


_COLLECTIONS: Final = frozenset(
    ("list", "dict", "tuple", "set", "frozenset", "deque", "ordered-dict", "counter", "frozendict")
)
NO_SCHEMAS: Final = ("metadata", "default", "expected", "members", "config", "serialization")
"""Members of a schema that are not schemas."""


def first_problem(schema: Any, done: type | None = None) -> Any:
    """Return a copy of a pydantic schema in which validation ends at the first wrong item of a collection. Models of
    the kind `done` within the schema are left unchanged."""

    def copy(value: Any, top: bool) -> Any:
        if isinstance(value, (list, tuple)):
            items = [copy(item, top) for item in cast("Sequence[Any]", value)]
            return items if isinstance(value, list) else tuple(items)
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        kind = fields.get("type")
        if not isinstance(kind, str):  # a table of fields or choices, which may have any names
            return {key: copy(each, top) for key, each in fields.items()}
        if kind == "model":
            if done is not None and not top and issubclass(fields["cls"], done):
                return fields
            top = False
        copied = {key: each if key in NO_SCHEMAS else copy(each, top) for key, each in fields.items()}
        return {**copied, "fail_fast": True} if kind in _COLLECTIONS else copied

    return copy(schema, True)


class _MetaOrNothing:
    """Reads anything but an object as None, because extension data must never make a message invalid."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_default_schema(handler(source), default=None, on_error="default")


class Model(Record):
    """An object with `_meta`, which holds extension data (protocol: extensibility)."""

    meta: Annotated[dict[str, Any] | None, _MetaOrNothing(), Wire(on_error=True)] = None
    """Extension data, by key. It is never mixed with parameters. None if absent or not an object."""


class Sparse(Record):
    """A record in which absent fields read as a useful default (`[]`, `False`), but stay absent when they are written.
    Null is written where it has its own meaning."""

    @model_serializer(mode="wrap")
    def _write_what_was_set(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if not info.exclude_none:  # a plain model_dump shows everything
            return data
        was_set = self.__pydantic_fields_set__
        defaults, nullable = _presence(type(self))
        for key, name, default in defaults:
            written = key if info.by_alias else name
            if name not in was_set and data.get(written) == default:  # it may have been filled in place
                data.pop(written, None)
        for key, name in nullable:
            if name in was_set and getattr(self, name) is None:
                data[key if info.by_alias else name] = None
        return data


@cache
def attributes(cls: type[Record]) -> dict[str, str]:
    """Return the attribute for each key of the wire."""
    return {field.alias or name: name for name, field in cls.model_fields.items()}


@cache
def _presence(cls: type[Sparse]) -> tuple[list[tuple[str, str, Any]], list[tuple[str, str]]]:
    """Return two lists: (key, attribute, default as written) of fields that are omitted unless set, and (key,
    attribute) of fields that may be null."""
    defaults: list[tuple[str, str, Any]] = []
    for key, name in attributes(cls).items():
        field = cls.model_fields[name]
        default = field.get_default(call_default_factory=True, validated_data={})
        if default is not None and not any(isinstance(note, Wire) and note.required for note in field.metadata):
            defaults.append((key, name, default.to_wire() if isinstance(default, Record) else default))
    return defaults, [(key, name) for key, name in attributes(cls).items() if name in cls.NULLABLE]


class Unknown(Record):
    """A member of a union that this version of the protocol does not have. It is kept and written again unchanged.

    The member's tag is an attribute, as in all members of the union, and also `tag`. All other members are in `fields`,
    under their keys on the wire. A constructor accepts any keyword arguments at run time; for type checkers, unknown
    fields are only possible through `from_wire`.
    """

    if not TYPE_CHECKING:

        def __init__(self, /, **data: Any) -> None:
            self.__pydantic_validator__.validate_python(data, self_instance=self)

        __init__.__pydantic_base_init__ = True

    @property
    def tag(self) -> str:
        """The tag of the member; "" if the union has no tags. For type checkers the tag's own attribute is a
        literal."""
        return next(
            (getattr(self, name) for name, field in type(self).model_fields.items() if "tag" in field.metadata), ""
        )

    @property
    def fields(self) -> JsonObject:
        """All members except the tag, as received."""
        return self.__pydantic_extra__ or {}

    @property
    def meta(self) -> dict[str, Any] | None:
        """The member's `_meta`, as in all members of the union; None if it is missing or malformed."""
        meta: Any = self.fields.get("_meta")
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else None

    @model_serializer(mode="plain")
    def _as_it_came(self) -> dict[str, Any]:
        return {key: getattr(self, name) for key, name in attributes(type(self)).items()} | self.fields

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: Any) -> Any:
        # Published schemas have only what may be sent.
        raise PydanticOmit
