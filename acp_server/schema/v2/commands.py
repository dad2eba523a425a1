"""Commands that the user can give by their names (ACP v2, slash commands)."""

from typing import Annotated, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, Model, Sent, Unknown
from acp_server.schema.unions import Tagged


class TextCommandInput(Model):
    """The command takes whatever is typed after its name."""

    type: Sent[Literal["text"]] = "text"
    hint: str
    """Shown while nothing has been typed."""


class UnknownCommandInput(Unknown):
    """Input in a form that this version does not have."""

    type: str


AvailableCommandInput = TypeAliasType(
    "AvailableCommandInput", Annotated[TextCommandInput | UnknownCommandInput, Tagged("type", extensible=True)]
)
"""What a command takes, told apart by `type`."""


class Command(Model):
    """A command that is typed with a slash before its name."""

    type: Sent[Literal["command"]] = "command"
    name: str
    """The name, without the slash."""
    description: str
    """What the command does."""
    input: Lenient[AvailableCommandInput | None] = None
    """What it takes; None for nothing."""


class UnknownCommand(Unknown):
    """A kind of command that this version does not have."""

    type: str
    name: str
    """The name."""
    description: str
    """What the command does."""


AvailableCommand = TypeAliasType(
    "AvailableCommand", Annotated[Command | UnknownCommand, Tagged("type", extensible=True)]
)
"""A command, told apart by `type`."""
