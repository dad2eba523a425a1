"""JSON-RPC messages: their framing, and which of them have a response."""

from __future__ import annotations

import json
from collections.abc import Mapping

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.observed import Observed
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable

ACP = "ACP v1"
RPC = "JSON-RPC 2.0"
STDIO = "Transports, stdio"
UNKNOWN = "_conformance/unknown"


@case("envelope/utf-8", level=MUST, source=ACP, section="Transports", whole_run=True)
async def utf_8(observed: Observed) -> None:
    """Everything on standard output is UTF-8."""
    observed.forbid("utf-8")


@case("envelope/json-lines", level=MUST, source=ACP, section=STDIO, whole_run=True)
async def json_lines(observed: Observed) -> None:
    """Every line on standard output is one JSON value: no logs, no headers, no message over several lines, no NaN."""
    observed.forbid("json")


@case("envelope/last-line", level=MUST, source=ACP, section=STDIO, whole_run=True)
async def last_line(observed: Observed) -> None:
    """Every message ends with a newline, also the last one."""
    observed.forbid("newline")


@case("envelope/individual", level=MUST, source=ACP, section=STDIO, whole_run=True)
async def individual(observed: Observed) -> None:
    """The agent sends an array only as the response to an array."""
    observed.forbid("batch")


@case("envelope/version", level=MUST, source=RPC, section="4, 5: jsonrpc", whole_run=True)
async def version(observed: Observed) -> None:
    """Every message has `"jsonrpc": "2.0"`."""
    observed.forbid("version")


@case("envelope/kinds", level=MUST, source=RPC, section="4, 5", whole_run=True)
async def kinds(observed: Observed) -> None:
    """Every message is a request, a notification, or a response with an id and either a result or an error."""
    observed.forbid("message", "kind")


@case("envelope/params", level=MUST, source=RPC, section="4.2 Parameter Structures", whole_run=True)
async def params(observed: Observed) -> None:
    """Parameters are an object or an array."""
    observed.forbid("params-structured")


@case("envelope/error-objects", level=MUST, source=RPC, section="5.1 Error object", whole_run=True)
async def error_objects(observed: Observed) -> None:
    """Every error is an object with an integer code and a message."""
    observed.forbid("error-object")


@case(
    "envelope/only-what-was-asked",
    level=MUST,
    source=RPC,
    section="5 Response object",
    whole_run=True,
)
async def only_what_was_asked(observed: Observed) -> None:
    """Every response has the id of a request."""
    observed.forbid("unasked-answer")


@case("envelope/one-answer", level=MUST, source=RPC, section="5 Response object", whole_run=True)
async def one_answer(observed: Observed) -> None:
    """No request is answered twice."""
    observed.forbid("answered-twice")


@case("envelope/method-names", level=MUST, source=ACP, section="Extensibility, Extension Methods", whole_run=True)
async def method_names(observed: Observed) -> None:
    """Every method that the agent calls belongs to the protocol or begins with an underscore."""
    observed.forbid("method-name")


@case("envelope/directions", level=MUST, source=ACP, section="Overview, Client", whole_run=True)
async def directions(observed: Observed) -> None:
    """The agent calls only methods of clients: requests with an id, notifications without an id."""
    observed.forbid("direction")


@case("envelope/unknown-method", level=MUST, source=RPC, section="5.1 Error object", shared=True)
async def unknown_method(agent: Agent) -> None:
    """A request with an unknown method is answered with -32601."""
    await agent.initialize()
    await (await agent.request("conformance/unknown", {})).error(-32601)


@case(
    "envelope/extension-answered",
    level=MUST,
    source=RPC,
    section="5 Response object",
    after="envelope/unknown-method",
    shared=True,
)
async def extension_answered(agent: Agent) -> None:
    """A request with an unknown extension method is answered."""
    await agent.initialize()
    await (await agent.request(UNKNOWN, {})).answer()


@case(
    "envelope/unknown-extension",
    level=SHOULD,
    source=ACP,
    section="Extensibility, Custom Requests",
    after="envelope/extension-answered",
    shared=True,
)
async def unknown_extension(agent: Agent) -> None:
    """A request with an unknown extension method is answered with -32601."""
    await agent.initialize()
    await (await agent.request(UNKNOWN, {})).error(-32601)


@case(
    "envelope/unknown-protocol-request",
    level=MUST,
    source=RPC,
    section="5.1 Error object",
    after="envelope/unknown-method",
    shared=True,
)
async def unknown_protocol_request(agent: Agent) -> None:
    """A request whose method begins with `$/` is answered with -32601 like any unknown method."""
    await agent.initialize()
    await (await agent.request("$/conformance", {})).error(-32601)


@case("envelope/unknown-method-survives", level=MUST, source=RPC, section="5.1 Error object")
async def unknown_method_survives(agent: Agent) -> None:
    """After a request with an unknown method, the next request is served."""
    await agent.initialize()
    await agent.request("conformance/unknown", {})
    await (await agent.request("session/new", {"cwd": str(agent.cwd), "mcpServers": []})).answer()


@case("envelope/unknown-notification", level=MUST, source=RPC, section="4.1 Notification")
async def unknown_notification(agent: Agent) -> None:
    """An unknown notification is not answered."""
    await agent.initialize()
    await _unanswered(
        agent, {"method": "_conformance/note", "params": {"text": "hello"}}, {"method": "conformance/note"}
    )


@case("envelope/unknown-protocol-notification", level=MUST, source=RPC, section="4.1 Notification")
async def unknown_protocol_notification(agent: Agent) -> None:
    """An unknown notification whose method begins with `$/` is not answered."""
    await agent.initialize()
    await _unanswered(agent, {"method": "$/conformance", "params": {"text": "hello"}})


@case("envelope/request-as-notification", level=MUST, source=RPC, section="4.1 Notification")
async def request_as_notification(agent: Agent) -> None:
    """A message without an id is not answered, even if its method is that of a request."""
    await agent.initialize()
    await _unanswered(agent, {"method": "session/new", "params": {"cwd": str(agent.cwd), "mcpServers": []}})


async def _unanswered(agent: Agent, *notifications: Mapping[str, object]) -> None:
    since = len(agent.received)
    for each in notifications:
        await agent.send({"jsonrpc": "2.0", **each})
    await agent.fence()
    await agent.settle()
    if answers := agent.unasked(since):
        fail(f"a notification was answered: {answers[0].line[:300].decode('utf-8', 'replace')}", at=answers[0].position)


@case("envelope/empty-params", level=MUST, source=RPC, section="4 Request object", shared=True)
async def empty_params(agent: Agent) -> None:
    """A request without parameters is answered, possibly with an error."""
    await agent.initialize()
    await (await agent.request("session/new")).answer()


@case("envelope/whitespace", level=MUST, source="RFC 8259", section="2 JSON Grammar", shared=True)
async def whitespace(agent: Agent) -> None:
    """Whitespace between the tokens of a message, and a carriage return at its end, have no meaning."""
    await agent.initialize()
    pending = agent.expect(agent.new_id(), UNKNOWN)
    line = f' {{ "jsonrpc" :\t"2.0" , "id" : {pending.id} , "method" : "{UNKNOWN}" , "params" : {{ }} }} \r\n'
    await agent.raw(line.encode())
    await pending.answer()


@case("envelope/member-order", level=MUST, source="RFC 8259", section="4 Objects", shared=True)
async def member_order(agent: Agent) -> None:
    """The members of a message may come in any order."""
    await agent.initialize()
    pending = agent.expect(agent.new_id(), UNKNOWN)
    await agent.raw(f'{{"params":{{}},"method":"{UNKNOWN}","id":{pending.id},"jsonrpc":"2.0"}}\n'.encode())
    await pending.answer()


@case("envelope/escapes", level=MUST, source="RFC 8259", section="7 Strings, 8.3 String Comparison", shared=True)
async def escapes(agent: Agent) -> None:
    """A method name written with escapes is the same method."""
    await agent.initialize()
    pending = agent.expect(agent.new_id(), "session/new")
    method = "".join(f"\\u{ord(character):04x}" for character in "session/new")
    params = json.dumps({"cwd": str(agent.cwd), "mcpServers": []})
    await agent.raw(f'{{"jsonrpc":"2.0","id":{pending.id},"method":"{method}","params":{params}}}\n'.encode())
    if code_of(await pending.answer()) == -32601:
        fail("session/new is not known where its name is written with escapes")


@case("envelope/pieces", level=MUST, source=ACP, section=STDIO, shared=True)
async def pieces(agent: Agent) -> None:
    """A message that arrives in several writes, cut inside a character, is read as one message."""
    await agent.initialize()
    id = "grüße 🦊"
    pending = agent.expect(id, UNKNOWN)
    line = (
        json.dumps({"jsonrpc": "2.0", "id": id, "method": UNKNOWN, "params": {}}, ensure_ascii=False).encode() + b"\n"
    )
    fox = line.index("🦊".encode())
    for piece in (line[:1], line[1 : fox + 2], line[fox + 2 : -1], line[-1:]):
        await agent.raw(piece)
    await pending.answer()


@case("envelope/several-at-once", level=MUST, source=ACP, section=STDIO, shared=True)
async def several_at_once(agent: Agent) -> None:
    """Messages that arrive in one write are all read."""
    await agent.initialize()
    pending = [agent.expect(agent.new_id(), UNKNOWN) for _ in range(5)]
    lines = [f'{{"jsonrpc":"2.0","id":{each.id},"method":"{UNKNOWN}","params":{{}}}}\n' for each in pending]
    await agent.raw("".join(lines).encode())
    for each in pending:
        await each.answer()


@case("envelope/long-line", level=MUST, source=ACP, section=STDIO, shared=True)
async def long_line(agent: Agent) -> None:
    """A message of a megabyte is read, because the protocol has no limit."""
    await agent.initialize()
    pending = await agent.request(UNKNOWN, {"text": "x" * 1_000_000})
    await pending.answer()


@case(
    "envelope/long-answer",
    level=MUST,
    source=RPC,
    section="5 Response object: id",
    after="ids/long-string",
    shared=True,
)
async def long_answer(agent: Agent) -> None:
    """A response of several hundred kilobytes is written completely, on one line."""
    await agent.initialize()
    text = "".join(f"{number:09} " for number in range(30_000))
    since = len(agent.received)
    agent.checker.adverse = True  # an agent may refuse an id of this length, which it cannot repeat then
    pending = await agent.request(UNKNOWN, {}, id=text)
    await agent.fence()
    if any("error" in answer for answer in agent.null_answers(since)):
        not_applicable("it refuses an id of this length")
    if not pending.answers:
        lines = [len(entry.line) for entry in agent.received[since:]]
        fail(f"an id of {len(text):,} characters does not come back; the lines that come have {lines!s:.80} bytes")
