"""The types of fields besides objects: identifiers, numbers, open unions and enumerations, and the error object.

For type checkers an identifier is a string. Its type name says what it identifies; the name is also in the published
schema.

Unknown values of newer peers are kept, known values are validated. `Tagged` and `ByKey` are metadata of a union of
models. They look at the data to choose the one member that validates it. So an error names the intended member, and a
known member with an invalid payload is an error. `OpenEnum` is metadata of a `Literal[...] | str`. Any string is
accepted; editors complete the known strings, and the published schema lists them.

Code that raises and catches errors uses `acp_server.errors`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, StrictBool, StrictStr, WithJsonSchema
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypeAliasType

from acp_server.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from acp_server.schema.base import Expect, JsonObject, Lenient, Record, Unknown, attributes, first_problem
from acp_server.schema.words import Absolute, Address, Base64, FromOne, MediaType, literals

Bool = StrictBool
"""`true` or `false`. Values that could be converted to a boolean are refused."""

# `strict` refuses booleans, fractions and digit strings. The bounds follow from the width, which the published schema
# has as a format.
Int32 = Annotated[
    int, Field(strict=True, ge=-(2**31), le=2**31 - 1), WithJsonSchema({"type": "integer", "format": "int32"})
]
Int64 = Annotated[
    int, Field(strict=True, ge=-(2**63), le=2**63 - 1), WithJsonSchema({"type": "integer", "format": "int64"})
]
UInt32 = Annotated[
    int, Field(strict=True, ge=0, le=2**32 - 1), WithJsonSchema({"type": "integer", "format": "uint32", "minimum": 0})
]
UInt64 = Annotated[
    int, Field(strict=True, ge=0, le=2**64 - 1), WithJsonSchema({"type": "integer", "format": "uint64", "minimum": 0})
]
Double = Annotated[
    float, Field(strict=True, allow_inf_nan=False), WithJsonSchema({"type": "number", "format": "double"})
]
FilePath = Annotated[str, Absolute()]
"""An absolute path. Received values are not checked."""
Line = Annotated[UInt32, FromOne()]
"""A line, counted from 1. Received values are not checked."""
Base64Text = Annotated[str, Base64()]
"""Bytes as base64. Received values are not checked. The same holds for the next two types."""
MediaTypeName = Annotated[str, MediaType()]
"""A media type."""
UriText = Annotated[str, Address()]
"""A URI; any string in the published schema."""
Uri = Annotated[UriText, WithJsonSchema({"type": "string", "format": "uri"})]

SessionId = TypeAliasType("SessionId", str)
"""Identifies a session. The agent chooses it; it is opaque to clients."""

ToolCallId = TypeAliasType("ToolCallId", str)
"""Identifies a tool call within its session."""

MessageId = TypeAliasType("MessageId", str)
"""Identifies a message within its session."""

TerminalId = TypeAliasType("TerminalId", str)
"""Identifies a terminal that the client runs."""

ElicitationId = TypeAliasType("ElicitationId", str)
"""Identifies an elicitation that is completed outside of the protocol, at a URL."""

CompactionId = TypeAliasType("CompactionId", str)
"""Identifies a compaction within its session."""

AuthMethodId = TypeAliasType("AuthMethodId", str)
"""Identifies a login method."""

PermissionOptionId = TypeAliasType("PermissionOptionId", str)
"""Identifies an option within its permission request."""

SessionModeId = TypeAliasType("SessionModeId", str)
"""Identifies a mode of a session."""

SessionConfigId = TypeAliasType("SessionConfigId", str)
"""Identifies a config option of a session."""

SessionConfigGroupId = TypeAliasType("SessionConfigGroupId", str)
"""Identifies a group of values of a config option."""

SessionConfigValueId = TypeAliasType("SessionConfigValueId", str)
"""Identifies a value of a config option."""

RequestId = TypeAliasType(
    "RequestId", Annotated[Int64 | StrictStr | None, Expect("a string, a 64-bit integer or null")]
)
"""The id of a JSON-RPC request: a 64-bit integer, a string, or null. Null is discouraged."""

ProtocolVersion = TypeAliasType(
    "ProtocolVersion",
    Annotated[
        int,
        Field(strict=True, ge=0, le=2**16 - 1),
        WithJsonSchema({"type": "integer", "format": "uint16", "minimum": 0, "maximum": 65535}),
    ],
)
"""The major version of the protocol. Smaller changes are negotiated by capabilities."""

KNOWN_ERRORS = (
    PARSE_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
    AUTH_REQUIRED,
    RESOURCE_NOT_FOUND,
)


def error_code(*known: int) -> WithJsonSchema:
    """Return the published schema of an error code. It lists the known codes; any other code may be sent as well."""
    code = {"format": "int32", "type": "integer"}
    return WithJsonSchema({"anyOf": [*({"const": number, **code} for number in known), code]})


ErrorCode = TypeAliasType("ErrorCode", Annotated[Int32, error_code(*KNOWN_ERRORS)])
"""The kind of an error. `acp_server.errors` has an exception for each known code."""

PROTOCOL_VERSION: Literal[1] = 1
"""The version that these types describe."""


class Error(Record):
    """Why a request failed (JSON-RPC 2.0, section 5.1)."""

    code: ErrorCode
    """The kind of the error."""
    message: str
    """One sentence."""
    data: Lenient[Any] = None
    """Details, any JSON."""


Choose = Callable[[JsonObject], str | None]
"""A function that returns the name of the member to read a received object as; None if no member matches."""


class _Union(ABC):
    """A union of models whose member is chosen by a function of the received object."""

    expected = "an object"
    """The description of the expected value in the error if no member could be chosen."""
    members: tuple[type[Record], ...] = ()

    @abstractmethod
    def chooser(self) -> Choose:
        """Return the function that chooses among `members`."""

    @property
    def unknown(self) -> str | None:
        """The name of the member for values that no other member accepts."""
        return next((member.__name__ for member in self.members if issubclass(member, Unknown)), None)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        self.members = get_args(source)
        choose = self.chooser()
        names: dict[Any, str] = {member: member.__name__ for member in self.members}

        def name_of(value: Any) -> str | None:
            if isinstance(value, dict):
                return choose(cast("JsonObject", value))
            return names.get(value.__class__) or next(
                (name for member, name in names.items() if isinstance(value, member)), None
            )

        known = ", ".join(name for member, name in names.items() if not issubclass(member, Unknown))
        return core_schema.tagged_union_schema(
            {name: handler.generate_schema(member) for member, name in names.items()},
            discriminator=name_of,
            custom_error_type="union_member",
            custom_error_message=f"Input should be {self.expected} ({known})",
        )


class Tagged(_Union):
    """A union in which the string under `key` chooses the member. An `Unknown` member takes tags that no other member
    has.

    If the tag is absent, the chosen member is the member without a tag, or the member whose tag may be None.
    `extensible`: whether the protocol lets peers send custom tags.
    """

    def __init__(self, key: str, *, extensible: bool = False) -> None:
        self.key = key
        self.extensible = extensible
        self.expected: str = f"an object with a string {key!r}"

    def tags(self) -> dict[str | None, str]:
        """Return the name of the member for each tag, with None for an absent tag."""
        return {
            tag: member.__name__
            for member in self.members
            if not issubclass(member, Unknown)
            for tag in self._tags_of(member)
        }

    def _tags_of(self, member: type[Record]) -> tuple[str | None, ...]:
        name = attributes(member).get(self.key)
        return (None,) if name is None else tuple(literals(member.model_fields[name].annotation))

    def chooser(self) -> Choose:
        """Return a function that looks up the tag. A value that is not a string is not a tag; the member without a tag
        refuses such a value unless it is null."""
        key, tags, unknown = self.key, self.tags(), self.unknown
        untagged = tags.get(None)

        def choose(value: JsonObject) -> str | None:
            tag = value.get(key)
            return tags.get(tag, unknown) if type(tag) is str else untagged

        return choose

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        """Return the schema of the known members. For an extensible union it also allows any object that has another
        tag and the required members of `Unknown`."""
        from pydantic import TypeAdapter  # imported here, since only the exporter needs it

        written = handler(schema)
        tags = self.tags()
        members: list[Any] = written.pop("oneOf")
        if not self.extensible:
            if None not in tags:
                return {**written, "oneOf": members, "discriminator": {"propertyName": self.key}}
            # The member without a tag may match a tagged object too.
            return {**written, "anyOf": members}
        other: JsonObject = {self.key: {"type": "string", "not": {"enum": [tag for tag in tags if tag is not None]}}}
        for member in self.members:
            if issubclass(member, Unknown):
                for key, name in attributes(member).items():
                    kind: Any = member.model_fields[name].annotation
                    other.setdefault(key, handler(TypeAdapter[Any](kind).core_schema))
        members.append({"type": "object", "properties": other, "required": [*other]})
        return {**written, "anyOf": members}


class ByKey(_Union):
    """A union in which each member has a key that no other member has. `keys` lists these keys in the order of the
    members."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self.expected: str = f"an object with one of the keys {', '.join(keys)}"

    def chooser(self) -> Choose:
        """Return a function that chooses the first member whose key is present."""
        pairs = tuple((key, member.__name__) for key, member in zip(self.keys, self.members, strict=False))
        unknown = self.unknown

        def choose(value: JsonObject) -> str | None:
            for key, name in pairs:
                if key in value:
                    return name
            return unknown

        return choose

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        """Return the schema of the known members."""
        written = handler(schema)
        return {**written, "anyOf": written.pop("oneOf")}


@dataclass(frozen=True, slots=True)
class FirstProblem:
    """Metadata for a type that no class contains, such as a named union: see `first_problem`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return first_problem(handler(source), Record)
