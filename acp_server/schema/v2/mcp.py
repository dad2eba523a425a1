"""The MCP servers that a client asks the agent to connect to (ACP v2, session setup)."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema.base import Model, NullIsDefault, Sent, Sparse, Unknown
from acp_server.schema.session import EnvVariable, HttpHeader
from acp_server.schema.types import Uri
from acp_server.schema.unions import Tagged
from acp_server.schema.v2.types import AbsolutePath


class McpServerStdio(Sparse, Model):
    """An MCP server to start as a process and talk to over its standard streams. Only with `session.mcp.stdio`."""

    type: Sent[Literal["stdio"]] = "stdio"
    name: str
    """A name for the user."""
    command: AbsolutePath
    """The executable."""
    args: NullIsDefault[list[str]] = Field(default_factory=list[str])
    """Its arguments."""
    env: NullIsDefault[list[EnvVariable]] = Field(default_factory=list[EnvVariable])
    """Variables added to its environment."""


class McpServerHttp(Sparse, Model):
    """An MCP server reached over streamable HTTP. Only with `session.mcp.http`."""

    type: Sent[Literal["http"]] = "http"
    name: str
    """A name for the user."""
    url: Uri
    """Where it is."""
    headers: NullIsDefault[list[HttpHeader]] = Field(default_factory=list[HttpHeader])
    """Headers to send with every request."""


class UnknownMcpServer(Unknown):
    """An MCP server with a transport that this version does not have."""

    type: str


McpServer = TypeAliasType(
    "McpServer", Annotated[McpServerHttp | McpServerStdio | UnknownMcpServer, Tagged("type", extensible=True)]
)
"""An MCP server, told apart by `type`."""
