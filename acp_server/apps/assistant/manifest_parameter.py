"""One parameter in a tool's manifest: its JSON Schema for a model, and the validation of an argument.

A parameter does not know the others. `acp_server.apps.assistant.manifest` has them all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, model_validator
from pydantic.alias_generators import to_camel

from acp_server.tools.parameters import RULE, is_name


def _is_name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"should be {RULE}")
    return text


Name = Annotated[str, AfterValidator(_is_name)]

ValueType = Literal["string", "number", "integer", "boolean", "array", "object"]


class Part(BaseModel):
    """A part of a manifest. Its keys are in camel case, its attributes in snake case. Unknown keys are kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,
        extra="allow",
        frozen=True,
        validate_by_alias=True,
        validate_by_name=True,
    )


class Value(Part):
    """Describes the expected values by a JSON type, and for an array also by its items."""

    type: ValueType
    """The JSON type. A `number` may be an integer, an `integer` may be written as `3.0`."""
    enum: list[Any] | None = Field(default=None, min_length=1)
    """The only allowed values; not for arrays and objects."""
    items: Value | None = None
    """The items of an array; without it, items may have any type."""

    @model_validator(mode="after")
    def _enum_and_items_fit(self) -> Value:
        if self.enum is not None:
            if self.type in ("array", "object"):
                raise ValueError(f"'enum' is not allowed with the type {self.type!r}")
            if any(not _TYPES[self.type](value) for value in self.enum):
                raise ValueError(f"every value of 'enum' must be of the type {self.type!r}")
        if self.items is not None and self.type != "array":
            raise ValueError(f"'items' is allowed only with the type 'array', not {self.type!r}")
        return self

    def schema_of(self) -> dict[str, Any]:
        """Return the JSON Schema of the values."""
        schema: dict[str, Any] = {"type": self.type}
        if self.enum is not None:
            schema["enum"] = list(self.enum)
        if self.items is not None:
            schema["items"] = self.items.schema_of()
        return schema

    def problems(self, value: Any, path: str) -> Iterator[tuple[str, str]]:
        """Yield each problem of `value`, a parsed JSON value, as a path and a sentence without a subject."""
        if not _TYPES[self.type](value):
            yield path, f"should be {_ARTICLES[self.type]}, not {excerpt(value)}"
        elif self.enum is not None and value not in self.enum:
            yield path, f"should be one of {', '.join(map(excerpt, self.enum))}, not {excerpt(value)}"
        elif self.items is not None:
            for index, item in enumerate(value):
                yield from self.items.problems(item, f"{path}[{index}]")

    def plain(self, value: Any) -> Any:
        """Return a valid `value`, with whole numbers as `int` where integers are expected."""
        if self.type == "integer":
            return int(value)
        if self.items is not None:
            return [self.items.plain(item) for item in value]
        return value


class Parameter(Value):
    """One parameter."""

    name: Name
    """The parameter's name, which is a key of `params` in the function."""
    description: str = ""
    """The parameter's description for the model."""
    required: StrictBool | None = None
    """Whether a call must have this parameter. By default that is so if the parameter has no default value."""
    default: Any = None
    """The value if a call omits the parameter. Without a default, an omitted parameter is not in `params`."""

    @model_validator(mode="after")
    def _default_fits(self) -> Parameter:
        if self.has_default:
            if self.required:
                raise ValueError("'default' is not allowed with 'required: true'")
            for path, problem in self.problems(self.default, "default"):
                raise ValueError(f"{path} {problem}")
        return self

    @property
    def has_default(self) -> bool:
        """Whether the parameter has a default value."""
        return self.default is not None

    @property
    def is_required(self) -> bool:
        """Whether a call must have this parameter."""
        return not self.has_default if self.required is None else self.required

    def schema_of(self) -> dict[str, Any]:
        """See `Value.schema_of`. The schema also has the description and the default, for the model."""
        schema = super().schema_of()
        if self.description:
            schema["description"] = self.description
        if self.has_default:
            schema["default"] = self.default
        return schema


def excerpt(value: Any) -> str:
    """Return a value as JSON, shortened, for an error message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in cast("Mapping[Any, Any]", value))


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": _is_object,
}
_ARTICLES: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
}
