"""Initialization: versions, capabilities, the agent's name."""

from __future__ import annotations

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import AUTH_REQUIRED, VERSION, Agent, Pending
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail, not_applicable, skip

SOURCE = "ACP v1"
SECTION = "Initialization"
NEGOTIATION = "Initialization, Version Negotiation"
CAPABILITIES = "Initialization, Capabilities"
UNSUPPORTED_VERSION = -32022


async def _version(pending: Pending) -> int:
    result = await pending.result()
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        fail(f"protocolVersion is not an integer: {version!r}")
    return version


@case("initialize/answers", level=MUST, source=SOURCE, section=SECTION)
async def answers(agent: Agent) -> None:
    """The initialize request is answered with a result."""
    if not isinstance(await (await agent.ask_initialize()).result(), dict):
        fail("the result is not an object")


@case("initialize/same-version", level=MUST, source=SOURCE, section=NEGOTIATION)
async def same_version(agent: Agent) -> None:
    """The response has the requested version, if the agent speaks that version."""
    version = await _version(await agent.ask_initialize())
    if version != VERSION:
        fail(f"requested version {VERSION}, it answers {version}")


@case("initialize/newer-version", level=MUST, source=SOURCE, section=NEGOTIATION)
async def newer_version(agent: Agent) -> None:
    """To a client of a future version, the agent answers the latest version that it speaks."""
    version = await _version(await agent.ask_initialize(version=65535))
    if not 0 <= version < 65535:
        fail(f"it agrees to version {version}")


@case("initialize/newer-version-then-works", level=MUST, source=SOURCE, section=NEGOTIATION)
async def newer_version_then_works(agent: Agent) -> None:
    """After a response with another version, a client that supports that version continues as usual."""
    version = await _version(await agent.ask_initialize(version=65535))
    if version != VERSION:
        choice(f"it speaks version {version}")
    agent.initialized = {}
    await agent.log_in()
    await agent.session(cwd=str(agent.cwd))


@case("initialize/older-version", level=MUST, source=SOURCE, section=NEGOTIATION)
async def older_version(agent: Agent) -> None:
    """To a version that the agent does not speak, it answers the latest version that it speaks, not an error.

    Agents that also speak version 2 refuse the request as version 2 requires, and name the versions that they speak.
    """
    pending = await agent.ask_initialize(version=0)
    answer = await pending.answer()
    refused = answer.get("error")
    if isinstance(refused, dict) and refused.get("code") == UNSUPPORTED_VERSION:
        known = (refused.get("data") or {}).get("supported")
        if known == [1, 2]:
            choice("refused as version 2 requires, because it speaks 1 and 2")
    await _version(pending)


@case("initialize/version-as-text", level=CHOICE, source=SOURCE, section=SECTION)
async def version_as_text(agent: Agent) -> None:
    """A protocolVersion that is a string is refused or read leniently."""
    answer = await (await agent.ask_initialize(version="1")).answer()
    choice(f"refused with {code_of(answer)}" if "error" in answer else "read leniently")


@case("initialize/missing-version", level=CHOICE, source=SOURCE, section=SECTION)
async def missing_version(agent: Agent) -> None:
    """A protocolVersion that is missing is refused or read leniently."""
    answer = await (await agent.ask_initialize(version=None)).answer()
    choice(f"refused with {code_of(answer)}" if "error" in answer else "read leniently")


@case("initialize/no-capabilities", level=MUST, source=SOURCE, section=CAPABILITIES)
async def no_capabilities(agent: Agent) -> None:
    """A client need not list its capabilities, because a missing capability means that it is unsupported."""
    pending = await agent.request(
        "initialize", {"protocolVersion": VERSION, "clientInfo": {"name": "a", "version": "1"}}
    )
    await pending.result()


@case("initialize/no-client-info", level=MUST, source=SOURCE, section="Initialization, Implementation Information")
async def no_client_info(agent: Agent) -> None:
    """A client need not name its program."""
    await (await agent.ask_initialize(clientInfo=None)).result()


@case("initialize/null-members", level=MUST, source=SOURCE, section="Schema, InitializeRequest")
async def null_members(agent: Agent) -> None:
    """The agent accepts null for members that may be null by the schema."""
    params = {"protocolVersion": VERSION, "clientCapabilities": {"_meta": None}, "clientInfo": None, "_meta": None}
    await (await agent.request("initialize", params)).result()


@case("initialize/unknown-capabilities", level=MUST, source=SOURCE, section=CAPABILITIES)
async def unknown_capabilities(agent: Agent) -> None:
    """An agent does not refuse a client for unknown capabilities."""
    capabilities = {"fs": {"readTextFile": True, "watch": {}}, "telepathy": {"range": 5}, "teleport": True}
    await (await agent.ask_initialize(capabilities=capabilities)).result()


@case("initialize/meta", level=MUST, source=SOURCE, section="Extensibility, The _meta Field")
async def meta(agent: Agent) -> None:
    """`_meta` is accepted on the parameters and on the objects inside them."""
    mark = {"conformance.example/mark": [1, {"deep": None}], "traceparent": "00-80e1-7a08-01"}
    pending = await agent.ask_initialize(
        capabilities={"_meta": mark, "fs": {"_meta": mark}},
        clientInfo={"name": "acp-conformance", "version": "1", "_meta": mark},
        _meta=mark,
    )
    await pending.result()


@case("initialize/unknown-members", level=MUST, source=SOURCE, section="Extensibility, The _meta Field")
async def unknown_members(agent: Agent) -> None:
    """An agent does not refuse a client for unknown members, because a later revision may add any name."""
    await (await agent.ask_initialize(ofALaterRevision={"a": 1})).result()


@case("initialize/agent-info", level=SHOULD, source=SOURCE, section="Initialization, Implementation Information")
async def agent_info(agent: Agent) -> None:
    """The agent sends its name and its version."""
    info = (await agent.initialize()).get("agentInfo")
    if not isinstance(info, dict) or not info.get("name") or not info.get("version"):
        fail(f"agentInfo is {info!r}")


@case("initialize/capabilities-listed", level=SHOULD, source=SOURCE, section=SECTION)
async def capabilities_listed(agent: Agent) -> None:
    """The agent answers with the capabilities that it supports."""
    if not isinstance((await agent.initialize()).get("agentCapabilities"), dict):
        fail("there are no agentCapabilities")


@case("initialize/twice", level=CHOICE, source=SOURCE, section=SECTION)
async def twice(agent: Agent) -> None:
    """A second initialize is answered, with a result or an error."""
    await agent.initialize()
    answer = await (await agent.ask_initialize()).answer()
    choice(f"refused with {code_of(answer)}" if "error" in answer else "answered again")


@case("initialize/session-first", level=CHOICE, source=SOURCE, section=SECTION)
async def session_first(agent: Agent) -> None:
    """The specification leaves open whether a session that is requested before initialize is refused."""
    answer = await (await agent.request("session/new", {"cwd": str(agent.cwd), "mcpServers": []})).answer()
    choice(f"refused with {code_of(answer)}" if "error" in answer else "made")


AUTHENTICATION = "Authentication"


async def _ways(agent: Agent) -> list[str]:
    """Return the ids of the ways to log in that the agent offers."""
    result = await (await agent.ask_initialize()).result()
    offered = result.get("authMethods") if isinstance(result, dict) else None
    ways = [str(each.get("id")) for each in offered or () if isinstance(each, dict)]
    if not ways:
        not_applicable("it offers no way to log in")
    return ways


@case("initialize/authenticates", level=MUST, source=SOURCE, section=AUTHENTICATION)
async def authenticates(agent: Agent) -> None:
    """The agent offers the way to log in that the profile names, and creates sessions after the login."""
    way = agent.profile.authenticate
    if way is None:
        await _ways(agent)
        skip("the profile names no way to log in ([setup] authenticate)")
    if way not in (ways := await _ways(agent)):
        fail(f"it offers {', '.join(ways)}, and not {way}")
    await (await agent.request("authenticate", {"methodId": way})).result()
    answer = await (await agent.request("session/new", {"cwd": str(agent.cwd), "mcpServers": []})).answer()
    if code_of(answer) == AUTH_REQUIRED:
        fail("after authenticate, session/new still wants the user to authenticate")


@case("initialize/logs-out", level=MUST, source=SOURCE, section="Authentication, Logging Out")
async def logs_out(agent: Agent) -> None:
    """After `logout` the user can log in again, and the agent creates sessions."""
    await agent.session()
    if not agent.can("auth.logout"):
        not_applicable("auth.logout is not announced")
    if agent.profile.authenticate is None:
        skip("the profile names no way to log in ([setup] authenticate)")
    await (await agent.request("logout", {})).result()
    new = {"cwd": str(agent.cwd), "mcpServers": []}
    without = await (await agent.request("session/new", new)).answer()
    if "error" in without and code_of(without) != AUTH_REQUIRED:
        fail(f"session/new is answered with {without['error']!s:.200} instead of {AUTH_REQUIRED}")
    await agent.log_in()
    if code_of(await (await agent.request("session/new", new)).answer()) == AUTH_REQUIRED:
        fail("once the user has logged in again, session/new still wants the user to authenticate")


@case("initialize/unknown-authentication", level=SHOULD, source=SOURCE, section=AUTHENTICATION)
async def unknown_authentication(agent: Agent) -> None:
    """authenticate with a method that was not offered is refused."""
    await _ways(agent)
    await (await agent.request("authenticate", {"methodId": "conformance-no-such-way"})).error()
