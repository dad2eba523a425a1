"""Malformed input, which the agent answers as JSON-RPC requires, or does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail

RPC = "JSON-RPC 2.0"
ERRORS = "5.1 Error object"
NOTIFICATION = "4.1 Notification"
UNKNOWN = "_conformance/unknown"

GARBAGE = b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]\n'


async def _refused(agent: Agent, line: bytes, *codes: int, id: int | None = None) -> Mapping[str, Any]:
    """Send a line. The response must have one of `codes`, and the id null or `id`."""
    await agent.initialize()
    since = len(agent.received)
    echoed = agent.expect(id, "the line") if id is not None else None
    await agent.raw(line)

    def find() -> Mapping[str, Any] | None:
        return next(iter([*agent.null_answers(since), *(echoed.answers if echoed else ())]), None)

    answer = await agent.comes(find)
    if answer is None:
        for other in agent.unasked(since):
            fail(f"the answer is {other.line[:300].decode('utf-8', 'replace')}", at=other.position)
        fail("there is no answer")
    error = answer.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if code not in codes:
        fail(f"instead of {' or '.join(map(str, codes))} the answer is {answer!r:.300}")
    return answer


async def _unanswered(agent: Agent, line: bytes) -> None:
    """Send a line. The agent must not answer."""
    await agent.initialize()
    since = len(agent.received)
    await agent.raw(line)
    await agent.fence()
    await agent.settle()
    if answers := agent.unasked(since):
        fail(f"it is answered: {answers[0].line[:300].decode('utf-8', 'replace')}", at=answers[0].position)


@case(
    "bad-input/not-json",
    level=MUST,
    source=RPC,
    after="bad-input/not-json-survives",
    section=ERRORS,
    shared=True,
)
async def not_json(agent: Agent) -> None:
    """A line that is not JSON is answered with -32700 and the id null."""
    await _refused(agent, GARBAGE, -32700)


@case(
    "bad-input/cut-short",
    level=MUST,
    source=RPC,
    after="bad-input/not-json-survives",
    section=ERRORS,
    shared=True,
)
async def cut_short(agent: Agent) -> None:
    """A message that is cut short is answered with -32700 and the id null, even if its id can be read."""
    await _refused(agent, b'{"jsonrpc":"2.0","id":77,"method":"_conformance/unknown","params":{\n', -32700)


@case(
    "bad-input/invalid-utf-8",
    level=SHOULD,
    source="ACP v1",
    after="bad-input/invalid-utf-8-survives",
    section="Transports",
    shared=True,
)
async def invalid_utf_8(agent: Agent) -> None:
    """A line that is not UTF-8 is answered with -32700 and the id null."""
    await _refused(agent, b'{"jsonrpc":"2.0","id":77,"method":"_conformance/\xff\xfe","params":{}}\n', -32700)


@case(
    "bad-input/number",
    level=MUST,
    source=RPC,
    after="bad-input/scalar-survives",
    section=ERRORS,
    shared=True,
)
async def number(agent: Agent) -> None:
    """A line that is a number is answered with -32600 and the id null."""
    await _refused(agent, b"42\n", -32600)


@case(
    "bad-input/string",
    level=MUST,
    source=RPC,
    after="bad-input/scalar-survives",
    section=ERRORS,
    shared=True,
)
async def string(agent: Agent) -> None:
    """A line that is a string is answered with -32600 and the id null."""
    await _refused(agent, b'"initialize"\n', -32600)


@case(
    "bad-input/null",
    level=MUST,
    source=RPC,
    after="bad-input/scalar-survives",
    section=ERRORS,
    shared=True,
)
async def null(agent: Agent) -> None:
    """A line that is null is answered with -32600 and the id null."""
    await _refused(agent, b"null\n", -32600)


@case(
    "bad-input/no-version",
    level=CHOICE,
    source=RPC,
    after="bad-input/invalid-request-survives",
    section="3 Compatibility",
    shared=True,
)
async def no_version(agent: Agent) -> None:
    """A request without `jsonrpc`, as in JSON-RPC 1.0, is refused or served."""
    await agent.initialize()
    since = len(agent.received)
    echoed = agent.expect(77, "the line")
    await agent.raw(b'{"id":77,"method":"_conformance/unknown","params":{}}\n')
    await agent.fence()
    answers = [*agent.null_answers(since), *echoed.answers]
    if not answers:
        choice("ignored")
    choice("refused" if code_of(answers[0]) == -32600 else "served")


@case(
    "bad-input/other-version",
    level=SHOULD,
    source=RPC,
    after="bad-input/invalid-request-survives",
    section="4 Request object: jsonrpc",
    shared=True,
)
async def other_version(agent: Agent) -> None:
    """A request whose `jsonrpc` is not exactly "2.0" is refused with -32600."""
    await _refused(agent, b'{"jsonrpc":"1.0","id":77,"method":"_conformance/unknown","params":{}}\n', -32600, id=77)


@case(
    "bad-input/method-no-string",
    level=MUST,
    source=RPC,
    after="bad-input/invalid-request-survives",
    section="4 Request object: method",
    shared=True,
)
async def method_no_string(agent: Agent) -> None:
    """A request whose method is not a string is refused with -32600."""
    await _refused(agent, b'{"jsonrpc":"2.0","id":77,"method":1,"params":{}}\n', -32600, id=77)


@case(
    "bad-input/params-no-structure",
    level=MUST,
    source=RPC,
    after="bad-input/bad-params-survive",
    section="4.2 Parameter Structures",
    shared=True,
)
async def params_no_structure(agent: Agent) -> None:
    """A request whose parameters are neither an object nor an array is refused with -32600 or -32602."""
    line = b'{"jsonrpc":"2.0","id":77,"method":"session/new","params":"bar"}\n'
    await _refused(agent, line, -32600, -32602, id=77)


@case(
    "bad-input/missing-param",
    level=MUST,
    source=RPC,
    after="bad-input/bad-params-survive",
    section=ERRORS,
    shared=True,
)
async def missing_param(agent: Agent) -> None:
    """A request without a required parameter is answered with -32602."""
    await agent.initialize()
    await (await agent.request("session/prompt", {})).error(-32602)


@case(
    "bad-input/wrong-param-type",
    level=MUST,
    source=RPC,
    after="bad-input/bad-params-survive",
    section=ERRORS,
    shared=True,
)
async def wrong_param_type(agent: Agent) -> None:
    """A request with a parameter of the wrong type is answered with -32602."""
    await agent.initialize()
    await (await agent.request("session/new", {"cwd": 5, "mcpServers": []})).error(-32602)


@case(
    "bad-input/wrong-nested-param",
    level=MUST,
    source=RPC,
    after="bad-input/bad-params-survive",
    section=ERRORS,
    shared=True,
)
async def wrong_nested_param(agent: Agent) -> None:
    """A prompt that is a string instead of content blocks is answered with -32602."""
    session = await agent.session()
    await (await agent.request("session/prompt", {"sessionId": session, "prompt": "hello"})).error(-32602)


@case(
    "bad-input/positional-params",
    level=MUST,
    source=RPC,
    after="bad-input/bad-params-survive",
    section=ERRORS,
    shared=True,
)
async def positional_params(agent: Agent) -> None:
    """Parameters by position, which no method of the protocol has, are answered with an error."""
    await agent.initialize()
    await (await agent.request("session/new", [str(agent.cwd), []])).error()


@case("bad-input/notification-bad-params", level=MUST, source=RPC, section=NOTIFICATION)
async def notification_bad_params(agent: Agent) -> None:
    """A notification with invalid parameters is not answered."""
    await _unanswered(agent, b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":5}}\n')


@case("bad-input/stray-response", level=MUST, source=RPC, section="5 Response object")
async def stray_response(agent: Agent) -> None:
    """A response without a request is not answered."""
    await _unanswered(agent, b'{"jsonrpc":"2.0","id":987654,"result":{}}\n')


@case("bad-input/stray-error", level=MUST, source=RPC, section="5 Response object")
async def stray_error(agent: Agent) -> None:
    """An error with the id null, which clients send for unreadable input, is not answered."""
    await _unanswered(agent, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n')


@case("bad-input/bad-response", level=MUST, source=RPC, section="5 Response object")
async def bad_response(agent: Agent) -> None:
    """A malformed response is not answered, because otherwise two peers could answer each other for ever."""
    await _unanswered(agent, b'{"jsonrpc":"2.0","id":987654,"result":1,"error":"boom"}\n')


@case("bad-input/blank-line", level=CHOICE, source=RPC, section=ERRORS, shared=True)
async def blank_line(agent: Agent) -> None:
    """A blank line is ignored, or answered like a line that is not JSON."""
    await agent.initialize()
    since = len(agent.received)
    await agent.raw(b"\n")
    await agent.fence()
    codes = [code_of(answer) for answer in agent.null_answers(since)]
    choice(f"answered with {codes[0]}" if codes else "ignored")


@case("bad-input/no-internals", level=CHOICE, source=RPC, section=ERRORS, shared=True)
async def no_internals(agent: Agent) -> None:
    """Errors may disclose the inside of the agent, such as a traceback or a path of its source."""
    await agent.initialize()
    await agent.request("session/prompt", {"sessionId": 5, "prompt": 3})
    await agent.request("session/new", {"cwd": None})
    await agent.request("session/prompt", {"sessionId": "none", "prompt": []})
    await agent.raw(GARBAGE)
    await agent.fence()
    for entry in agent.received:
        if b"Traceback" in entry.line or b'File \\"' in entry.line or b"site-packages" in entry.line:
            choice(f"they do: {entry.line[:300].decode('utf-8', 'replace')}")
