"""How a client opens a session, and authenticates before that if necessary."""

from pathlib import PurePosixPath, PureWindowsPath

from acp_conformance.client.conversation import Ended, Message, Silent
from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client, brief
from acp_conformance.core.case import MUST, choice, fail

_ACP = "ACP v1"
_LOGIN = "log-in/é"
_ATTEMPTS = 3


@case("sessions/absolute-cwd", level=MUST, source=_ACP, section="Session Setup, Working Directory")
async def absolute_cwd(client: Client) -> None:
    """The working directory of a session is an absolute path."""
    await client.initialize()
    request = await client.session()
    cwd = request.param("cwd")
    if not isinstance(cwd, str) or not (PurePosixPath(cwd).is_absolute() or PureWindowsPath(cwd).is_absolute()):
        fail(f"cwd is {cwd!r}")


@case("sessions/mcp-servers", level=MUST, source=_ACP, section="Session Setup, MCP Servers")
async def mcp_servers(client: Client) -> None:
    """A new session has a list of MCP servers, which may be empty."""
    await client.initialize()
    request = await client.session()
    if not isinstance(servers := request.param("mcpServers"), list):
        fail(f"mcpServers is {brief(servers)}")


@case("sessions/authenticates-as-offered", level=MUST, source=_ACP, section="Authentication")
async def authenticates_as_offered(client: Client) -> None:
    """A client authenticates by a method that the agent offers."""
    conversation = client.conversation
    conversation.hold("authenticate")
    await client.initialize(authMethods=[{"id": _LOGIN, "name": "Log in", "description": "By the agent"}])
    client.begin_trial()
    for _ in range(_ATTEMPTS):
        try:
            message: Message = await conversation.any_of("authenticate", "session/new")
        except Ended:
            choice("does not authenticate by itself: ends")
        except Silent:
            await client.alive()
            choice("does not authenticate by itself: waits")
        if message.method == "authenticate":
            if message.param("methodId") != _LOGIN:
                fail(f"methodId is {message.param('methodId')!r}, offered was {_LOGIN!r}")
            return
        await conversation.refuse(message, -32000, "Authentication required")
    choice("does not authenticate by itself: tries again without")


@case(
    "sessions/terminal-login-is-no-request", level=MUST, source=_ACP, section="Authentication, Terminal authentication"
)
async def terminal_login_is_no_request(client: Client) -> None:
    """A client that supports logins in a terminal sends no authenticate request for such a login."""
    greeting = await client.greeting()
    client.require("auth.terminal")
    client.conversation.hold("authenticate")
    ways = [{"id": "terminal", "name": "In a terminal", "type": "terminal"}, {"id": _LOGIN, "name": "By the agent"}]
    await client.welcome(greeting, authMethods=ways)
    client.begin_trial()
    for _ in range(_ATTEMPTS):
        try:
            message = await client.conversation.any_of("authenticate", "session/new")
        except (Ended, Silent):
            return  # its user decides, or logs in elsewhere
        if message.method == "authenticate":
            if message.param("methodId") == "terminal":
                fail("authenticate names the way that is of the type terminal")
            return
        await client.conversation.refuse(message, -32000, "Authentication required")
