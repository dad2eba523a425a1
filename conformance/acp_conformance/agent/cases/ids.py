"""The ids of requests: echoed exactly, of the right types, separate for each direction."""

from __future__ import annotations

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.observed import Observed
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, prompt_params
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail
from acp_conformance.core.schema import JsonId, same_id

ACP = "ACP v1"
RPC = "JSON-RPC 2.0"
SECTION = "5 Response object: id"
SCHEMA = "Schema, RequestId"
UNKNOWN = "_conformance/unknown"


async def _echoed(agent: Agent, id: JsonId) -> None:
    await agent.initialize()
    pending = await agent.request(UNKNOWN, {}, id=id) if id is not None else agent.expect(None, UNKNOWN)
    if id is None:
        await agent.send({"jsonrpc": "2.0", "id": None, "method": UNKNOWN, "params": {}})
    if await agent.comes(lambda: pending.position) is None:
        others = [entry.line[:200].decode("utf-8", "replace") for entry in agent.received[pending.since :][:1]]
        fail(
            f"the request with the id {id!r:.100} has no answer with that id"
            + (f"; there is {others[0]}" if others else "")
        )


@case("ids/integer", level=MUST, source=RPC, section=SECTION, shared=True)
async def integer(agent: Agent) -> None:
    """An integer id comes back as that integer."""
    await _echoed(agent, 1234567)


@case("ids/zero", level=MUST, source=RPC, section=SECTION, shared=True)
async def zero(agent: Agent) -> None:
    """The id 0 is an id like any other."""
    await _echoed(agent, 0)


@case("ids/negative", level=MUST, source=ACP, section=SCHEMA, shared=True)
async def negative(agent: Agent) -> None:
    """The response to a request with a negative id has the same id."""
    await _echoed(agent, -5)


@case("ids/wide", level=MUST, source=ACP, section=SCHEMA, shared=True)
async def wide(agent: Agent) -> None:
    """The response to a request with an id beyond 32 bits has the same id."""
    await _echoed(agent, 2**53 - 1)


@case("ids/widest", level=SHOULD, source=ACP, section=SCHEMA, shared=True)
async def widest(agent: Agent) -> None:
    """The error for a request whose id is the largest 64-bit integer has the same id."""
    await _echoed(agent, 2**63 - 1)


@case("ids/string", level=MUST, source=RPC, section=SECTION, shared=True)
async def string(agent: Agent) -> None:
    """The response to a request with a string id has the same string."""
    await _echoed(agent, "2f1c9a1e-5b1d-4a57-9c5e-3a8a6c0f1b77")


@case("ids/digits", level=MUST, source=RPC, section=SECTION, shared=True)
async def digits(agent: Agent) -> None:
    """The response to a request with an id like "7" has a string as its id."""
    await _echoed(agent, "7")


@case("ids/empty-string", level=MUST, source=RPC, section=SECTION, shared=True)
async def empty_string(agent: Agent) -> None:
    """The empty string is a valid id."""
    await _echoed(agent, "")


@case("ids/any-text", level=MUST, source=RPC, section=SECTION, shared=True)
async def any_text(agent: Agent) -> None:
    """A string id with quotes, newlines, control characters and characters of any script is returned unchanged."""
    await _echoed(agent, 'a"b\\c\nd\te\x00f\u2028g é 漢 🦊')


@case("ids/long-string", level=MUST, source=RPC, section=SECTION, shared=True)
async def long_string(agent: Agent) -> None:
    """A string id of a few thousand characters is returned completely."""
    await _echoed(agent, "0123456789abcdef" * 256)


@case("ids/null", level=SHOULD, source=ACP, section=SCHEMA, shared=True)
async def null(agent: Agent) -> None:
    """A request with the id null, which is allowed but discouraged, is answered with the id null."""
    await _echoed(agent, None)


@case("ids/result-too", level=MUST, source=RPC, section=SECTION)
async def result_too(agent: Agent) -> None:
    """A result has the id of its request."""
    pending = await agent.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, id="start")
    await pending.result()
    await agent.log_in()
    for id in ("7", "", 0, -5, 2**53 - 1):
        await _made(agent, id)


@case(
    "ids/widest-result",
    level=SHOULD,
    source=ACP,
    section=SCHEMA,
    after="ids/widest",
    shared=True,
)
async def widest_result(agent: Agent) -> None:
    """The result of a request whose id is the largest 64-bit integer has the same id."""
    await agent.initialize()
    await _made(agent, 2**63 - 1)


async def _made(agent: Agent, id: JsonId) -> None:
    """Return a session that was created by a request with this id."""
    await (await agent.request("session/new", {"cwd": str(agent.cwd), "mcpServers": []}, id=id)).result()


@case("ids/types-apart", level=MUST, source=RPC, section=SECTION)
async def types_apart(agent: Agent) -> None:
    """Two concurrent requests with the ids 7 and "7" get separate responses."""
    await agent.initialize()
    number, text = agent.expect(7, UNKNOWN), agent.expect("7", UNKNOWN)
    await agent.raw(
        f'{{"jsonrpc":"2.0","id":7,"method":"{UNKNOWN}"}}\n{{"jsonrpc":"2.0","id":"7","method":"{UNKNOWN}"}}\n'.encode()
    )
    await number.answer()
    await text.answer()
    await agent.settle()
    if len(number.answers) != 1 or len(text.answers) != 1:
        fail(f"{len(number.answers)} answers to 7 and {len(text.answers)} to '7'")


@case("ids/types-apart-in-flight", level=MUST, source=RPC, section=SECTION, needs="hang", shared=True)
async def types_apart_in_flight(agent: Agent) -> None:
    """While the prompt with the id 7007 runs, a request with the id "7007" is served, and the prompt continues."""
    session = await agent.session()
    prompt = await agent.request("session/prompt", prompt_params(session, agent.text_of("hang")), id=7007)
    await agent.wait_for(lambda: agent.spoken(session) or None, "the first update of the turn")
    await (await agent.request("conformance/unknown", {}, id="7007")).error(-32601)
    if prompt.answers:
        fail("the prompt was answered with it")


async def _refused(agent: Agent, id: str) -> None:
    await agent.initialize()
    since = len(agent.received)
    await agent.raw(f'{{"jsonrpc":"2.0","id":{id},"method":"{UNKNOWN}","params":{{}}}}\n'.encode())
    answer = await agent.null_answer(since=since)
    if answer is None:
        others = [entry.line[:200].decode("utf-8", "replace") for entry in agent.unasked(since)[:1]]
        fail("there is no error with the id null" + (f"; there is {others[0]}" if others else ""))
    if code_of(answer) != -32600:
        fail(f"the error is {answer.get('error')!r:.200}")


@case("ids/boolean", level=SHOULD, source=RPC, section="4 Request object: id", shared=True)
async def boolean(agent: Agent) -> None:
    """A request whose id is a boolean is refused with -32600 and the id null."""
    await _refused(agent, "true")


@case("ids/object", level=SHOULD, source=RPC, section="4 Request object: id", shared=True)
async def object_(agent: Agent) -> None:
    """A request whose id is an object is refused with -32600 and the id null."""
    await _refused(agent, '{"a":1}')


@case("ids/array", level=SHOULD, source=RPC, section="4 Request object: id", shared=True)
async def array(agent: Agent) -> None:
    """A request whose id is an array is refused with -32600 and the id null."""
    await _refused(agent, "[1]")


@case("ids/fraction", level=CHOICE, source=ACP, section=SCHEMA, shared=True)
async def fraction(agent: Agent) -> None:
    """A request whose id has a fractional part is refused or served. JSON-RPC discourages such ids, and ACP excludes
    them."""
    await agent.initialize()
    since = len(agent.received)
    await agent.raw(f'{{"jsonrpc":"2.0","id":1.5,"method":"{UNKNOWN}","params":{{}}}}\n'.encode())
    await agent.fence()
    for entry in agent.received[since:]:
        if isinstance(entry.message, dict) and entry.message.get("id") == 1.5:
            choice("served")
    choice("refused" if agent.null_answers(since) else "ignored")


@case("ids/own-types", level=MUST, source=ACP, section=SCHEMA, whole_run=True)
async def own_types(observed: Observed) -> None:
    """Every id on the agent's messages is a string, an integer or null."""
    observed.forbid("id-type")


@case("ids/own-unique", level=MUST, source=RPC, section="4 Request object: id", whole_run=True)
async def own_unique(observed: Observed) -> None:
    """No two open requests of the agent share an id."""
    observed.forbid("reused-id")


@case("ids/own-in-flight", level=MUST, source=RPC, section="4 Request object: id", needs="permission")
async def own_in_flight(agent: Agent) -> None:
    """Two concurrent requests of the agent have two ids."""
    first, second = await agent.session(), await agent.session()
    agent.hold("session/request_permission")
    await agent.prompt(first, "permission")
    one = await agent.next_request("session/request_permission")
    await agent.prompt(second, "permission")
    other = await agent.next_request("session/request_permission")
    if same_id(one.id, other.id):
        fail(f"both have the id {one.id!r}")


@case("ids/directions-apart", level=MUST, source=RPC, section=SECTION, needs="permission")
async def directions_apart(agent: Agent) -> None:
    """A request of the client is served although an open request of the agent has the same id."""
    session = await agent.session()
    agent.hold("session/request_permission")
    prompt = await agent.prompt(session, "permission")
    asked = await agent.next_request("session/request_permission")
    await (await agent.request("conformance/unknown", {}, id=asked.id)).error(-32601)
    await asked.answer({"outcome": {"outcome": "cancelled"}})
    await prompt.answer()


@case("ids/duplicate", level=CHOICE, source=RPC, section="4 Request object: id", needs="hang")
async def duplicate(agent: Agent) -> None:
    """A second request with the id of an open request is refused or served."""
    session = await agent.session()
    prompt = await agent.prompt(session, "hang")
    await agent.said_something(prompt)
    since = len(agent.received)
    await agent.request("conformance/unknown", {}, id=prompt.id)
    await agent.fence()
    codes = [code_of(answer) for answer in agent.null_answers(since)]
    choice(f"refused with {codes[0]}" if codes else "served" if prompt.answers else "ignored")
