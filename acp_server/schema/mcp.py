"""The MCP servers that a client asks the agent to connect to (protocol: session setup)."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from acp_server.schema.base import Model, Unknown
from acp_server.schema.markers import NullIsDefault, Sent
from acp_server.schema.unions import Tagged

__all__ = [
    "EnvVariable",
    "HttpHeader",
    "McpServer",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "UnknownMcpServer",
]


class EnvVariable(Model):
    """One environment variable."""

    name: str
    """Its name."""
    value: str
    """Its value."""


class HttpHeader(Model):
    """One HTTP header."""

    name: str
    """Its name."""
    value: str
    """Its value."""


class McpServerStdio(Model):
    """An MCP server to start as a process and talk to over its standard streams. Every agent supports it."""

    type: SkipJsonSchema[Literal["stdio"] | None] = None
    """Absent in the protocol, where a server without a type is this one; some clients write it."""
    name: str
    """A name for the user."""
    command: str
    """Absolute path of the executable."""
    args: Sent[NullIsDefault[list[str]]] = Field(default_factory=list[str])
    """Its arguments."""
    env: Sent[NullIsDefault[list[EnvVariable]]] = Field(default_factory=list[EnvVariable])
    """Variables added to its environment."""


class McpServerHttp(Model):
    """An MCP server reached over streamable HTTP. Only if the agent announced `http`."""

    type: Sent[Literal["http"]] = "http"
    name: str
    """A name for the user."""
    url: str
    """Where it is."""
    headers: Sent[NullIsDefault[list[HttpHeader]]] = Field(default_factory=list[HttpHeader])
    """Headers to send with every request."""


class McpServerSse(Model):
    """An MCP server reached over HTTP with server-sent events. Only if the agent announced `sse`."""

    type: Sent[Literal["sse"]] = "sse"
    name: str
    """A name for the user."""
    url: str
    """Where it is."""
    headers: Sent[NullIsDefault[list[HttpHeader]]] = Field(default_factory=list[HttpHeader])
    """Headers to send with every request."""


class UnknownMcpServer(Unknown):
    """An MCP server with a transport that this version does not have."""

    type: str


McpServer = TypeAliasType(
    "McpServer",
    Annotated[McpServerHttp | McpServerSse | McpServerStdio | UnknownMcpServer, Tagged("type")],
)
"""An MCP server, told apart by `type`; without one it is started over stdio."""
