"""How a client requests version 2, and reacts to an agent of another version."""

from acp_conformance.client.cases import load
from acp_conformance.client.conversation import Ended
from acp_conformance.client.subject import Client, brief
from acp_conformance.client.v2.registry import SOURCE, case, same_as
from acp_conformance.core.case import MUST, fail

_SECTION = "Initialization"
_OLD = load()

same_as(_OLD["initialize/names-itself"], "v2-negotiation/names-itself", _SECTION, level=MUST)
same_as(_OLD["initialize/awaits-the-answer"], "v2-negotiation/awaits-the-answer", _SECTION)
same_as(_OLD["initialize/unsupported-version"], "v2-negotiation/unsupported-version", _SECTION)


@case("v2-negotiation/version-1", level=MUST, source=SOURCE, section=_SECTION)
async def version_1(client: Client) -> None:
    """A client whose agent answers version 1 continues with version 1, or closes the connection."""
    request = await client.greeting()
    client.begin_trial()
    await client.conversation.release("initialize")
    await client.conversation.reply(request, {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
    try:
        opened = await client.conversation.receive("session/new")
    except Ended:
        return
    if not isinstance(servers := opened.param("mcpServers"), list):
        fail(f"the agent answered 1, and mcpServers is {brief(servers)}")


@case("v2-negotiation/refused", level=MUST, source=SOURCE, section=_SECTION)
async def refused(client: Client) -> None:
    """A client whose agent refuses version 2 requests a lower version, or closes the connection."""
    conversation = client.conversation
    request = await client.greeting()
    client.begin_trial()
    error = {"code": -32022, "message": "Unsupported protocol version", "data": {"requested": 2, "supported": [1]}}
    await conversation.send({"jsonrpc": "2.0", "id": request.value["id"], "error": error})
    try:
        again = await conversation.any_of("initialize", "session/new", "session/list", "session/resume")
    except Ended:
        return
    if again.method != "initialize":
        fail(f"{again.method} was sent although no version is agreed on")
    version = again.param("protocolVersion")
    if version != 1 or isinstance(version, bool):
        fail(f"the agent speaks 1 alone, and the client requests {brief(version)}")
