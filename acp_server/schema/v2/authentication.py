"""Ways to authenticate, `auth/login` and `auth/logout` (ACP v2, authentication).

An agent that lists a method answers both; a client may call neither while the list is empty.
"""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, Model, NullIsDefault, Sent, Sparse, Unknown
from acp_server.schema.session import EnvVariable
from acp_server.schema.unions import Tagged
from acp_server.schema.v2.types import AuthMethodId


class _Method(Model):
    """What every way to authenticate has."""

    method_id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what will happen."""


class AuthMethodAgent(_Method):
    """The agent authenticates by itself when the client calls `auth/login`."""

    type: Sent[Literal["agent"]] = "agent"


class AuthMethodTerminal(Sparse, _Method):
    """The client runs the agent's command once more, in an interactive terminal. Only with `auth.terminal`."""

    type: Sent[Literal["terminal"]] = "terminal"
    args: NullIsDefault[list[str]] = Field(default_factory=list[str])
    """Arguments to add to the agent's own."""
    env: NullIsDefault[list[EnvVariable]] = Field(default_factory=list[EnvVariable])
    """Variables to add to the agent's environment; they replace those of the same name."""


class UnknownAuthMethod(Unknown):
    """A way to authenticate that this version does not have."""

    type: str
    method_id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""


AuthMethod = TypeAliasType(
    "AuthMethod",
    Annotated[AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod, Tagged("type", extensible=True)],
)
"""A way to authenticate, told apart by `type`."""


class LoginAuthRequest(Model):
    """Parameters of `auth/login`: authenticate now, in this way."""

    method_id: AuthMethodId
    """One of the methods that the agent listed."""


class LoginAuthResponse(Model):
    """Result of `auth/login`: it worked."""


class LogoutAuthRequest(Model):
    """Parameters of `auth/logout`: forget who the user is."""


class LogoutAuthResponse(Model):
    """Result of `auth/logout`: it worked."""
