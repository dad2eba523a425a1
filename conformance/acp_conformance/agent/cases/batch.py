"""Batches: arrays of messages.

ACP v1 says that messages are individual, and also that it follows JSON-RPC 2.0, which has batches. So an agent may
accept batches, or refuse each batch as a whole with one -32600. Any other response is wrong. These rules are as binding
as those of JSON-RPC only with `--strict`, because the transport of ACP has individual messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import CHOICE, MUST, SHOULD, belongs_to, choice, fail, not_applicable

RPC = "JSON-RPC 2.0"
BATCH = "6 Batch"
UNKNOWN = "_conformance/unknown"


def _request(agent: Agent) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": agent.new_id(), "method": UNKNOWN, "params": {}}


NOTE: dict[str, Any] = {"jsonrpc": "2.0", "method": "_conformance/note", "params": {}}


async def _answered(agent: Agent, batch: Sequence[object]) -> list[Any]:
    """Return the lines that respond to an array: all lines that are not calls."""
    since = len(agent.received)
    await agent.send(batch)
    await agent.fence()
    await agent.settle()
    return [entry.message for entry in agent.unasked(since)]


def _refusal(answers: list[Any]) -> bool:
    """Whether the response refuses the array as a whole, by one -32600 with the id null."""
    match answers:
        case [{"id": None, "error": {"code": -32600}}]:
            return True
        case _:
            return False


def _silence() -> NoReturn:
    """End the case because the array has no response. One case reports an agent that never answers arrays."""
    with belongs_to("batch/one-array"):
        fail("there is no answer")


async def _taken(agent: Agent, batch: Sequence[object]) -> list[Any]:
    """Return the response to an array. The case does not apply to an agent that refuses batches."""
    await agent.initialize()
    answers = await _answered(agent, batch)
    if _refusal(answers):
        not_applicable("it refuses batches")
    return answers


@case(
    "batch/taken-or-refused",
    level=CHOICE,
    source="ACP v1",
    after="batch/survives",
    section="Transports, stdio",
)
async def taken_or_refused(agent: Agent) -> None:
    """An agent accepts or refuses batches."""
    await agent.initialize()
    answers = await _answered(agent, [_request(agent)])
    choice(
        "refused with -32600"
        if _refusal(answers)
        else "taken"
        if answers and isinstance(answers[0], list)
        else "neither"
    )


@case("batch/survives", level=SHOULD, strict=MUST, source=RPC, section=BATCH)
async def survives(agent: Agent) -> None:
    """After an array, the next request is served."""
    await agent.initialize()
    await agent.send([NOTE])
    await agent.fence()


@case(
    "batch/invalid-survives",
    level=SHOULD,
    strict=MUST,
    source=RPC,
    after="batch/survives",
    section=BATCH,
)
async def invalid_survives(agent: Agent) -> None:
    """After an array of values that are not messages, the next request is served."""
    await agent.initialize()
    await agent.send([1, None, "x", [], {}])
    await agent.fence()


@case(
    "batch/one-array",
    level=SHOULD,
    strict=MUST,
    source=RPC,
    after="batch/survives",
    section=BATCH,
)
async def one_array(agent: Agent) -> None:
    """An array of requests is answered with one array, or refused as a whole with one -32600."""
    await agent.initialize()
    answers = await _answered(agent, [_request(agent), _request(agent)])
    if not _refusal(answers) and not (len(answers) == 1 and isinstance(answers[0], list)):
        fail(f"the answer is {answers!r:.300}" if answers else "there is no answer")


@case(
    "batch/each-request",
    level=SHOULD,
    strict=MUST,
    source=RPC,
    after="batch/survives",
    section=BATCH,
)
async def each_request(agent: Agent) -> None:
    """The array has one response for each request, with its id."""
    batch = [_request(agent) for _ in range(3)]
    answers = await _taken(agent, batch) or _silence()
    array = answers[0] if answers and isinstance(answers[0], list) else []
    ids = sorted(str(each.get("id")) for each in array if isinstance(each, dict))
    if ids != sorted(str(each["id"]) for each in batch):
        fail(f"the responses have the ids {ids}")


@case(
    "batch/no-response-to-notifications",
    level=SHOULD,
    strict=MUST,
    source=RPC,
    after="batch/survives",
    section=BATCH,
)
async def no_response_to_notifications(agent: Agent) -> None:
    """In an array of requests and notifications, only the requests have a response."""
    answers = await _taken(agent, [NOTE, _request(agent), NOTE]) or _silence()
    array = answers[0] if answers and isinstance(answers[0], list) else []
    if len(array) != 1:
        fail(f"one request and two notifications are answered with {answers!r:.300}")


@case(
    "batch/only-notifications",
    level=SHOULD,
    strict=MUST,
    source=RPC,
    after="batch/survives",
    section=BATCH,
)
async def only_notifications(agent: Agent) -> None:
    """An array of notifications only is not answered, not even with an empty array."""
    if answers := await _taken(agent, [NOTE, NOTE]):
        fail(f"the answer is {answers!r:.300}")


@case("batch/empty", level=SHOULD, strict=MUST, source=RPC, after="batch/survives", section=BATCH)
async def empty(agent: Agent) -> None:
    """An empty array is answered with one -32600, which is not an array."""
    await agent.initialize()
    answers = await _answered(agent, []) or _silence()
    if not _refusal(answers):
        fail(f"the answer is {answers!r:.300}")


@case(
    "batch/invalid-members",
    level=SHOULD,
    strict=MUST,
    source=RPC,
    after="batch/invalid-survives",
    section=BATCH,
)
async def invalid_members(agent: Agent) -> None:
    """Each member of an array that is not a message is answered with a separate -32600."""
    await _takes_batches(agent)
    answers = await _answered(agent, [1, 2, 3])
    match answers:
        case [[{"error": {"code": -32600}}, {"error": {"code": -32600}}, {"error": {"code": -32600}}]]:
            return
        case _:
            fail(f"the answer is {answers!r:.300}" if answers else "there is no answer")


@case(
    "batch/mixed",
    level=SHOULD,
    strict=MUST,
    source=RPC,
    after="batch/invalid-survives",
    section=BATCH,
)
async def mixed(agent: Agent) -> None:
    """In an array with a member that is not a message, the other members are served."""
    await _takes_batches(agent)
    request = _request(agent)
    answers = await _answered(agent, [request, {"foo": "boo"}, NOTE])
    array = answers[0] if len(answers) == 1 and isinstance(answers[0], list) else []
    codes = {str(each.get("id")): code_of(each) for each in array if isinstance(each, dict)}
    if len(array) != 2 or str(request["id"]) not in codes or codes.get("None") != -32600:
        fail(f"a request, an invalid member and a notification are answered with {answers!r:.300}")


@case("batch/responses", level=SHOULD, strict=MUST, source=RPC, after="batch/survives", section=BATCH)
async def responses(agent: Agent) -> None:
    """An array of unexpected responses is not answered, if the agent accepts batches."""
    await _takes_batches(agent)
    stray = {"jsonrpc": "2.0", "id": 987654, "result": {}}
    if answers := await _answered(agent, [stray, {**stray, "id": 987655}]):
        fail(f"the answer is {answers!r:.300}")


@case(
    "batch/slow-member",
    level=SHOULD,
    source=RPC,
    after="batch/survives",
    section=BATCH,
    needs="hang",
)
async def slow_member(agent: Agent) -> None:
    """While a member of an array is slow, requests outside the array are served."""
    await _takes_batches(agent)
    session = await agent.session()
    text = [{"type": "text", "text": agent.text_of("hang")}]
    hanging = agent.expect(agent.new_id(), "session/prompt")
    params = {"sessionId": session, "prompt": text}
    prompt = {"jsonrpc": "2.0", "id": hanging.id, "method": "session/prompt", "params": params}
    await agent.send([prompt, _request(agent)])
    await agent.wait_for(lambda: agent.spoken(session) or None, "the first update of the turn")
    await agent.fence()
    await agent.cancel(session)
    await agent.next_array(since=hanging.since)


async def _takes_batches(agent: Agent) -> None:
    """End the case as not applicable if the agent does not answer an array with an array."""
    await agent.initialize()
    since = len(agent.received)
    await agent.send([_request(agent)])
    await agent.fence()
    if not any(isinstance(entry.message, list) for entry in agent.received[since:]):
        not_applicable("it refuses batches")
