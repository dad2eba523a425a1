"""The negotiation of version 2, and messages that a connection of version 2 refuses."""

from __future__ import annotations

from acp_conformance.agent.subject import Agent, Pending
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    ANSWERS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED,
    agree,
    begin,
    hello,
    is_code,
    not_of_version_1,
    refused,
    short,
)
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable

SECTION = "Initialization"
MESSAGES = "Transports"


@case("v2-negotiation/answers", level=MUST, source=SOURCE, section=SECTION)
async def answers(agent: Agent) -> None:
    """An agent that speaks version 2 answers version 2 to a client that requests version 2."""
    await agree(agent)


@case("v2-negotiation/says-who", level=MUST, source=SOURCE, section=SECTION)
async def says_who(agent: Agent) -> None:
    """The response to initialize has the name and the version of the agent."""
    info = (await agree(agent)).get("info")
    if not (isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)):
        fail(f"info is {short(info)}")


@case("v2-negotiation/highest", level=MUST, source=SOURCE, section=SECTION)
async def highest(agent: Agent) -> None:
    """To a client that also speaks a later version, the agent answers the highest version that it speaks."""
    result = await (await agent.request("initialize", hello(65535))).result()
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version < 65535:
        fail(f"the answer to 65535 is {short(version)}")
    if version == 1:
        await agree(agent)  # it speaks no higher one, or it would have answered it
        fail("65535 is answered 1, and 2 is answered 2")


@case("v2-negotiation/lenient-above", level=SHOULD, source=SOURCE, section=SECTION)
async def lenient_above(agent: Agent) -> None:
    """The agent reads the data of a client of a later version as far as it knows their members."""
    await agree(agent, {**hello(65535), "info": 7, "capabilities": {"elicitation": "yes"}})


@case("v2-negotiation/strict", level=MUST, source=SOURCE, section=SECTION, after=ANSWERS)
async def strict(agent: Agent) -> None:
    """initialize of version 2 without the client's name is refused with -32602."""
    await refused(agent, "initialize", {"protocolVersion": 2, "capabilities": {}}, INVALID_PARAMS)


@case("v2-negotiation/none-in-common", level=MUST, source=SOURCE, section=SECTION, after=ANSWERS)
async def none_in_common(agent: Agent) -> None:
    """Without a common version, initialize is refused with -32022, and the data of the error lists the supported
    versions."""
    error = await refused(agent, "initialize", hello(0), UNSUPPORTED)
    data = error.get("data")
    if not isinstance(data, dict) or data.get("requested") != 0:
        fail(f"data is {short(data)}")
    if not isinstance(data.get("supported"), list) or 2 not in data["supported"]:
        fail(f"supported is {short(data.get('supported'))}")


@case("v2-negotiation/another-try", level=MUST, source=SOURCE, section=SECTION, after=ANSWERS)
async def another_try(agent: Agent) -> None:
    """After a refused initialize, the connection accepts another initialize."""
    await (await agent.request("initialize", hello(0))).error()
    await agree(agent)


@case("v2-negotiation/no-higher", level=MUST, source=SOURCE, section=SECTION, after=ANSWERS)
async def no_higher(agent: Agent) -> None:
    """To a client that requests version 1, the agent answers no higher version."""
    params = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "acp-conformance", "version": "1"}}
    answer = await (await agent.request("initialize", params)).answer()
    if is_code(answer, UNSUPPORTED):
        return
    result = answer.get("result")
    if not isinstance(result, dict) or result.get("protocolVersion") != 1:
        fail(f"the answer is {short(answer)}")


@case("v2-negotiation/nothing-before", level=MUST, source=SOURCE, section=SECTION)
async def nothing_before(agent: Agent) -> None:
    """Before initialize of version 2, every request is refused with -32600."""
    early = await (await agent.request("session/new", {"cwd": str(agent.cwd), "mcpServers": []})).answer()
    if is_code(early, INVALID_REQUEST):
        await agree(agent)
        return
    opened = await (await agent.request("initialize", hello())).answer()
    if is_code(opened, INVALID_REQUEST):
        not_applicable("a request before initialize makes the connection one of version 1")
    not_of_version_1(opened.get("result"))
    fail(f"the answer is {short(early)}, and initialize is answered with {short(opened)}")


@case("v2-negotiation/notifications-before", level=MUST, source=SOURCE, section=SECTION)
async def notifications_before(agent: Agent) -> None:
    """Notifications before initialize are ignored."""
    await agent.notify("session/cancel", {"sessionId": "none"})
    await agree(agent)
    if found := agent.null_answers():
        fail(f"a notification was answered: {short(found[0])}")


@case("v2-negotiation/not-again", level=SHOULD, source=SOURCE, section=SECTION)
async def not_again(agent: Agent) -> None:
    """After another request, initialize is refused with -32600, because the version of a connection cannot change."""
    await begin(agent)
    await (await agent.request("session/list", {})).answer()
    await refused(agent, "initialize", hello(), INVALID_REQUEST)


@case("v2-negotiation/repeated", level=SHOULD, source=SOURCE, section=SECTION, after=ANSWERS)
async def repeated(agent: Agent) -> None:
    """The client may repeat initialize before its first other request."""
    await agree(agent)
    await agree(agent)


@case("v2-negotiation/unknown-method", level=MUST, source=SOURCE, section="Methods")
async def unknown_method(agent: Agent) -> None:
    """A request of an unknown method is refused with -32601."""
    await begin(agent)
    await refused(agent, "_conformance/no-such-method", {}, METHOD_NOT_FOUND)


@case("v2-negotiation/unknown-notification", level=MUST, source=SOURCE, section=MESSAGES)
async def unknown_notification(agent: Agent) -> None:
    """A notification of an unknown method is not answered."""
    await begin(agent)
    await agent.notify("_conformance/no-such-notification", {})
    await agent.fence()
    if found := agent.null_answers():
        fail(f"a notification was answered: {short(found[0])}")


@case("v2-negotiation/text-id", level=MUST, source=SOURCE, section=MESSAGES)
async def text_id(agent: Agent) -> None:
    """A response has the id of its request, also if the id is a string or a negative number."""
    await begin(agent)
    for id in ("7", -7):
        asked: Pending = agent.expect(id, "session/list")
        await agent.send({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}})
        await asked.answer()


@case("v2-negotiation/not-json", level=MUST, source=SOURCE, section=MESSAGES)
async def not_json(agent: Agent) -> None:
    """A line that is not JSON is answered with -32700 and the id null, and the connection stays open."""
    await begin(agent)
    since = len(agent.received)
    await agent.raw(b'{"jsonrpc": "2.0", "id": 1, "method"\n')
    if not is_code(found := await agent.null_answer(since=since), PARSE_ERROR):
        fail(f"the answer is {short(found)}")
    await (await agent.request("session/list", {})).answer()


@case("v2-negotiation/batches", level=MUST, source=SOURCE, section=MESSAGES)
async def batches(agent: Agent) -> None:
    """An empty array is answered by one -32600 with the id null."""
    await agree(agent)
    since = len(agent.received)
    await agent.raw(b"[]\n")
    _is_refusal(await agent.null_answer(since=since))


@case("v2-negotiation/filled-batches", level=MUST, source=SOURCE, section=MESSAGES)
async def filled_batches(agent: Agent) -> None:
    """An array of requests is answered by one -32600 with the id null, and none of them is served."""
    await agree(agent)
    since = len(agent.received)
    asked: list[Pending] = [agent.expect(id, "session/list") for id in ("first", "second")]
    await agent.send([{"jsonrpc": "2.0", "id": each.id, "method": each.method, "params": {}} for each in asked])
    _is_refusal(await agent.null_answer(since=since))
    if served := [each for each in asked if each.answers]:
        fail(f"a request of the array was answered: {short(served[0].answers[0])}", at=served[0].position)


@case("v2-negotiation/null-id", level=MUST, source=SOURCE, section=MESSAGES)
async def null_id(agent: Agent) -> None:
    """A request with the id null is refused with -32600."""
    await _refuses_id(agent, None)


@case("v2-negotiation/fraction-id", level=MUST, source=SOURCE, section=MESSAGES)
async def fraction_id(agent: Agent) -> None:
    """A request whose id is a fraction is refused with -32600 and the id null."""
    await _refuses_id(agent, 1.5)


@case("v2-negotiation/gone-methods", level=MUST, source=SOURCE, section="Methods")
async def gone_methods(agent: Agent) -> None:
    """Methods that version 2 has removed are refused with -32601."""
    await agree(agent)
    for method in ("session/load", "session/set_mode", "authenticate"):
        await refused(agent, method, {}, METHOD_NOT_FOUND)


async def _refuses_id(agent: Agent, id: object) -> None:
    await agree(agent)
    since = len(agent.received)
    await agent.send({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}})
    _is_refusal(await agent.null_answer(since=since))


def _is_refusal(answer: object) -> None:
    if not is_code(answer, INVALID_REQUEST):
        fail(f"the answer is {short(answer)}")
