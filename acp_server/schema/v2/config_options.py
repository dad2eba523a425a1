"""Settings of a session that the user can change (ACP v2, session config options). Modes are options here."""

from typing import Annotated, Any, Literal

from pydantic import Field, Tag
from typing_extensions import TypeAliasType

from acp_server.schema.base import FirstProblem, Lenient, LenientItems, Model, Sent, Unknown, Wire
from acp_server.schema.config_options import SessionConfigOptionCategory, SessionConfigSelectOption, by_first_item
from acp_server.schema.types import Bool, Tagged
from acp_server.schema.v2.types import SessionConfigGroupId, SessionConfigId, SessionConfigValueId, SessionId


class SessionConfigSelectGroup(Model):
    """Values shown under a heading."""

    group_id: SessionConfigGroupId
    """Names the group."""
    name: str
    """The heading."""
    # An empty list is not refused: it is what is left when every item was wrong.
    options: LenientItems[Annotated[list[SessionConfigSelectOption], Field(json_schema_extra={"minItems": 1})]]
    """The values, in order."""


SessionConfigSelectOptions = TypeAliasType(
    "SessionConfigSelectOptions",
    Annotated[
        Annotated[list[SessionConfigSelectOption], Field(min_length=1), Tag("SessionConfigSelectOption")]
        | Annotated[list[SessionConfigSelectGroup], Field(min_length=1), Tag("SessionConfigSelectGroup")],
        by_first_item("groupId"),
        FirstProblem(),
    ],
)
"""The values to choose from: all under headings, or none."""


class _ConfigOption(Model):
    """What every configuration option has."""

    config_id: SessionConfigId
    """Names the option."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what it changes."""
    category: Lenient[SessionConfigOptionCategory | None] = None
    """What it is about."""


class SessionConfigSelect(_ConfigOption):
    """An option with one value out of a list."""

    type: Sent[Literal["select"]] = "select"
    current_value: SessionConfigValueId
    """The value it has."""
    options: SessionConfigSelectOptions
    """The values to choose from."""


class SessionConfigBoolean(_ConfigOption):
    """An option that is on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    current_value: Bool
    """Whether it is on."""


class UnknownSessionConfigOption(Unknown):
    """A kind of option that this version does not have; it keeps its value."""

    type: str
    config_id: SessionConfigId
    """Names the option."""
    name: str
    """A name for the user."""


SessionConfigOption = TypeAliasType(
    "SessionConfigOption",
    Annotated[SessionConfigSelect | SessionConfigBoolean | UnknownSessionConfigOption, Tagged("type", extensible=True)],
)
"""A configuration option and its present value, told apart by `type`."""


class _SetOption(Model):
    """What every change of an option has."""

    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option to change."""


class SetSessionConfigValue(_SetOption):
    """Give an option one of its values."""

    type: Sent[Literal["id"]] = "id"
    value: SessionConfigValueId
    """The value to give it."""


class SetSessionConfigBoolean(_SetOption):
    """Switch an option on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    value: Bool
    """Whether it is on."""


class UnknownSessionConfigValue(Unknown):
    """A kind of value that this version does not have."""

    type: str
    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option to change."""
    value: Any
    """The value to give it, any JSON."""


SetSessionConfigOptionRequest = TypeAliasType(
    "SetSessionConfigOptionRequest",
    Annotated[
        SetSessionConfigValue | SetSessionConfigBoolean | UnknownSessionConfigValue, Tagged("type", extensible=True)
    ],
)
"""Parameters of `session/set_config_option`, told apart by `type`."""


class SetSessionConfigOptionResponse(Model):
    """Result of `session/set_config_option`."""

    config_options: Annotated[list[SessionConfigOption], Wire(skip_items=True)]
    """All options with their present values; a change of one may have changed others."""
