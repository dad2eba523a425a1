"""How a client begins: the first message, the version, the data about the client, and its reaction to the response."""

from acp_conformance.client.conversation import Ended, Silent
from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client, brief
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail

_ACP = "ACP v1"


@case("initialize/first", level=MUST, source=_ACP, section="Initialization")
async def first(client: Client) -> None:
    """The first message of a client is an initialize request."""
    conversation = client.conversation
    message = await conversation.until(
        lambda: conversation.first, "a message of the client", conversation.pace.starting
    )
    if message.get("method") != "initialize" or "id" not in message:
        fail(f"the first message was {brief(message)}")


@case("initialize/awaits-the-answer", level=MUST, source=_ACP, section="Initialization")
async def awaits_the_answer(client: Client) -> None:
    """A client sends no message about sessions before the response to initialize."""
    conversation = client.conversation
    request = await client.greeting()
    client.begin_trial()
    # An error: a client that reads it goes no further; a client that does not wait has sent the next request anyway.
    await conversation.refuse(request, -32603, "Internal error")
    await conversation.close_output()
    try:
        early = await conversation.until(
            lambda: next((name for name in conversation.log if name.startswith(("session/", "auth"))), None), "nothing"
        )
    except (Ended, Silent):
        return
    fail(f"{early} was sent although initialize had not been answered, and then failed")


@case("initialize/version-is-an-integer", level=MUST, source=_ACP, section="Initialization, Protocol version")
async def version_is_an_integer(client: Client) -> None:
    """The protocol version in initialize is an integer."""
    request = await client.greeting()
    version = request.param("protocolVersion")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= 65535:
        fail(f"protocolVersion is {version!r}")


@case("initialize/names-itself", level=SHOULD, source=_ACP, section="Initialization, Implementation Information")
async def names_itself(client: Client) -> None:
    """A client sends its name and its version."""
    request = await client.greeting()
    info = request.param(client.dialect.info)
    if not isinstance(info, dict) or not all(isinstance(info.get(key), str) for key in ("name", "version")):
        fail(f"{client.dialect.info} is {brief(info)}")


@case("initialize/unsupported-version", level=SHOULD, source=_ACP, section="Initialization, Version Negotiation")
async def unsupported_version(client: Client) -> None:
    """A client closes the connection to an agent whose version it does not support."""
    await client.initialize(protocolVersion=9999)
    client.begin_trial()
    try:
        await client.conversation.receive("session/new")
    except Ended:
        return
    except Silent:
        fail("the agent answered version 9999; the connection is neither used nor closed")
    fail("the agent answered version 9999, and the client went on with session/new")


@case(
    "initialize/lower-version",
    level=CHOICE,
    source=_ACP,
    section="Initialization, Version Negotiation",
    after="initialize/unsupported-version",
)
async def lower_version(client: Client) -> None:
    """The specification leaves open how a client reacts to a lower version than it requested."""
    request = await client.greeting()
    client.begin_trial()
    asked = request.param("protocolVersion")
    version = asked - 1 if isinstance(asked, int) and asked > 0 else 0
    await client.welcome(request, protocolVersion=version)
    try:
        await client.conversation.receive("session/new")
    except Ended:
        choice(f"requested {asked}, answered {version}: closes the connection")
    choice(f"requested {asked}, answered {version}: goes on")


@case("initialize/bare-answer", level=MUST, source=_ACP, section="Initialization, Capabilities")
async def bare_answer(client: Client) -> None:
    """A client uses an agent that answers only with its version, and treats omitted features as unsupported."""
    request = await client.greeting()
    client.begin_trial()
    await client.welcome(request, agentCapabilities=None, agentInfo=None, authMethods=None)
    await client.session()


@case("initialize/unknown-capabilities", level=MUST, source=_ACP, section="Initialization, Capabilities")
async def unknown_capabilities(client: Client) -> None:
    """A client ignores unknown capabilities and _meta."""
    request = await client.greeting()
    client.begin_trial()
    await client.welcome(
        request,
        agentCapabilities={
            "loadSession": False,
            "promptCapabilities": {"smell": True, "_meta": {"conformance": [1]}},
            "sessionCapabilities": {"rewind": {}, "_meta": None},
            "telepathy": {"range": 3},
            "_meta": {"conformance": {"a": None}},
        },
        _meta={"conformance": "é"},
    )
    await client.session()
