"""Ways to authenticate, `authenticate` and `logout` (protocol: authentication)."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from acp_server.schema.base import Model, Sparse, Unknown
from acp_server.schema.markers import Lenient, NullIsDefault, Sent
from acp_server.schema.types import AuthMethodId
from acp_server.schema.unions import Tagged

__all__ = [
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodTerminal",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "LogoutRequest",
    "LogoutResponse",
    "UnknownAuthMethod",
]


class AuthMethodAgent(Model):
    """The agent authenticates by itself when the client calls `authenticate`."""

    type: SkipJsonSchema[Literal["agent"] | None] = None
    """Absent in the protocol, where a method without a type is this one; some agents write it."""
    id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what will happen."""


class AuthMethodTerminal(Sparse, Model):
    """The client runs the agent's command once more, in an interactive terminal; exit status 0 means success.

    Announced only to clients with `auth.terminal`, and never passed to `authenticate`.
    """

    type: Sent[Literal["terminal"]] = "terminal"
    id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what will happen."""
    args: NullIsDefault[list[str]] = Field(default_factory=list[str])
    """Arguments to add to the agent's own."""
    env: NullIsDefault[dict[str, str]] = Field(default_factory=dict[str, str])
    """Variables to add to the agent's environment; they replace those of the same name."""


class UnknownAuthMethod(Unknown):
    """A way to authenticate that this version does not have."""

    type: str


AuthMethod = TypeAliasType(
    "AuthMethod", Annotated[AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod, Tagged("type")]
)
"""A way to authenticate, told apart by `type`; without one the agent does it by itself."""


class AuthenticateRequest(Model):
    """Parameters of `authenticate`: authenticate now, in this way."""

    method_id: AuthMethodId
    """One of the methods that the agent announced."""


class AuthenticateResponse(Model):
    """Result of `authenticate`: it worked."""


class LogoutRequest(Model):
    """Parameters of `logout`: forget who the user is."""


class LogoutResponse(Model):
    """Result of `logout`: it worked."""
