"""Settings of a session that the user can change: config options and modes.

Protocol: session config options, session modes.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Discriminator, GetJsonSchemaHandler, Tag, model_validator
from pydantic_core import CoreSchema, PydanticCustomError
from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    Expect,
    Items,
    JsonObject,
    Lenient,
    LenientItems,
    Model,
    Record,
    Sent,
    Unknown,
    UnknownTag,
    attributes,
)
from acp_server.schema.types import (
    Bool,
    FirstProblem,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
    SessionModeId,
    Tagged,
)
from acp_server.schema.words import OpenEnum


class SessionMode(Model):
    """A way in which the agent works, such as asking first or working on its own."""

    id: SessionModeId
    """Identifies the mode."""
    name: str
    """The name to show the user."""
    description: Lenient[str | None] = None
    """A short description of how the agent works in this mode."""


class SessionModeState(Model):
    """The modes of a session and the current one."""

    current_mode_id: SessionModeId
    """The current mode."""
    available_modes: LenientItems[Items[SessionMode]]
    """The available modes."""


class SetSessionModeRequest(Model):
    """Parameters of `session/set_mode`."""

    session_id: SessionId
    """The session."""
    mode_id: SessionModeId
    """The mode to enter."""


class SetSessionModeResponse(Model):
    """Result of `session/set_mode`: the session has entered the mode."""


SessionConfigOptionCategory = TypeAliasType(
    "SessionConfigOptionCategory",
    Annotated[Literal["mode", "model", "model_config", "thought_level"] | str, OpenEnum(extensible=True)],
)
"""The subject of an option. It only determines the option's icon and position on the screen. Custom categories begin
with `_`."""


class SessionConfigSelectOption(Model):
    """A value to choose."""

    value: SessionConfigValueId
    """Identifies the value."""
    name: str
    """The name to show the user."""
    description: Lenient[str | None] = None
    """A short description of its meaning."""


class SessionConfigSelectGroup(Model):
    """Values shown under a heading."""

    group: SessionConfigGroupId
    """Identifies the group."""
    name: str
    """The heading."""
    options: LenientItems[Items[SessionConfigSelectOption]]
    """The values, in order."""


def by_first_item(key: str) -> Discriminator:
    """Return a discriminator that distinguishes a list of groups from a list of options. It is a list of groups if its
    first item has `key`."""

    def tag(value: Any) -> str | None:
        if not isinstance(value, list):
            return None
        for item in cast("list[Any]", value)[:1]:
            keys = attributes(type(item)) if isinstance(item, Record) else item
            if isinstance(keys, dict) and key in keys:
                return "SessionConfigSelectGroup"
        return "SessionConfigSelectOption"

    return Discriminator(
        tag, custom_error_type="expected", custom_error_message="Input should be a list of options or of groups"
    )


SessionConfigSelectOptions = TypeAliasType(
    "SessionConfigSelectOptions",
    Annotated[
        Annotated[list[SessionConfigSelectOption], Tag("SessionConfigSelectOption")]
        | Annotated[list[SessionConfigSelectGroup], Tag("SessionConfigSelectGroup")],
        by_first_item("group"),
        FirstProblem(),
    ],
)
"""The available values. Either all of them are under headings, or none."""


class _ConfigOption(Model):
    """The members of every config option."""

    id: SessionConfigId
    """Identifies the option."""
    name: str
    """The name to show the user."""
    description: Lenient[str | None] = None
    """A short description of its effect."""
    category: Lenient[SessionConfigOptionCategory | None] = None
    """Its subject."""


class SessionConfigSelect(_ConfigOption):
    """A config option with one value out of a list."""

    type: Sent[Literal["select"]] = "select"
    current_value: SessionConfigValueId
    """The current value."""
    options: SessionConfigSelectOptions
    """The available values."""

    @classmethod
    def of(
        cls,
        id: str,
        values: Iterable[str] | Mapping[str, str],
        *,
        name: str | None = None,
        current: str | None = None,
        description: str | None = None,
        category: str | None = None,
    ) -> Self:
        """Make an option in one line: `SessionConfigSelect.of("style", ["short", "full"])`.

        `values`: the available values, or a mapping from the values to their names for the user. By default the name of
        a value, and of the option, is the value or the id with a capital letter. `current`: the current value, by
        default the first. Raises ValueError if there are no values, and for a single string.
        """
        if isinstance(values, str) or not (names := _named(values)):
            raise ValueError(f"a config option needs a list of values to choose from, not {values!r}")
        return cls(
            id=id,
            name=_spoken(id) if name is None else name,
            current_value=next(iter(names)) if current is None else current,
            options=[SessionConfigSelectOption(value=value, name=names[value]) for value in names],
            description=description,
            category=category,
        )


def _named(values: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(values, Mapping):
        return dict(cast("Mapping[str, str]", values))
    return {value: _spoken(value) for value in values}


def _spoken(word: str) -> str:
    return word.replace("_", " ").capitalize()


class SessionConfigBoolean(_ConfigOption):
    """A config option that is on or off. Only for clients with `session.configOptions.boolean`."""

    type: Sent[Literal["boolean"]] = "boolean"
    current_value: Bool
    """Whether it is on."""


class UnknownSessionConfigOption(Unknown):
    """A kind of config option that this version does not have."""

    type: UnknownTag


SessionConfigOption = TypeAliasType(
    "SessionConfigOption",
    Annotated[SessionConfigSelect | SessionConfigBoolean | UnknownSessionConfigOption, Tagged("type")],
)
"""A config option and its current value, distinguished by `type`."""


class SetSessionConfigOptionRequest(Model):
    """Parameters of `session/set_config_option`: the id of a value, or a boolean for a boolean option."""

    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option to change."""
    type: str | None = None
    """`boolean` for a boolean value, which sets `type` automatically. Absent, or any other text, for the id of a
    value."""
    value: Annotated[Bool | SessionConfigValueId, Expect("a string or a boolean")]
    """The new value."""

    @model_validator(mode="after")
    def _type_and_value_agree(self) -> "SetSessionConfigOptionRequest":
        is_boolean = isinstance(self.value, bool)
        if is_boolean and self.type is None:
            self.type = "boolean"
        if is_boolean != (self.type == "boolean"):
            raise PydanticCustomError("config_value", "A boolean value belongs to the type 'boolean', and only to it")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        """Return the two forms: a typed boolean, or the id of a value."""
        written = handler.resolve_ref_schema(handler(schema))
        properties = written["properties"]
        del properties["type"]
        boolean, value_id = properties.pop("value")["anyOf"]
        tag = {"const": "boolean", "type": "string"}
        written["required"].remove("value")
        written["anyOf"] = [
            {"type": "object", "properties": {"type": tag, "value": boolean}, "required": ["type", "value"]},
            {"type": "object", "properties": {"value": value_id}, "required": ["value"]},
        ]
        return written


class InitialSessionConfigOption(Model):
    """A config option's value at the start of a session. Only for agents with `options`.

    An agent ignores an option that it does not offer, and a value that the option does not have.
    """

    config_id: SessionConfigId
    """The option."""
    type: str | None = None
    """`boolean` for a boolean value; absent or any other text for the id of a value."""
    value: Annotated[Bool | SessionConfigValueId, Expect("a string or a boolean")]
    """Its value."""


class SetSessionConfigOptionResponse(Model):
    """Result of `session/set_config_option`."""

    config_options: LenientItems[Items[SessionConfigOption]]
    """All options with their current values. Changing one option may have changed others."""
