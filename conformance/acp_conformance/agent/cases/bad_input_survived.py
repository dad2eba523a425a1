"""Malformed input, after which the agent serves the next request."""

from __future__ import annotations

from acp_conformance.agent.cases.bad_input import ERRORS, GARBAGE, NOTIFICATION, RPC, UNKNOWN
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import MUST, SHOULD


async def _survived(agent: Agent, line: bytes) -> None:
    """Send a line. The agent must serve the next request."""
    await agent.initialize()
    await agent.raw(line)
    await agent.fence()


@case("bad-input/not-json-survives", level=MUST, source=RPC, section=ERRORS, shared=True)
async def not_json_survives(agent: Agent) -> None:
    """After a line that is not JSON, the next request is served."""
    await _survived(agent, GARBAGE)


@case(
    "bad-input/invalid-utf-8-survives",
    level=MUST,
    source="ACP v1",
    section="Transports",
    shared=True,
)
async def invalid_utf_8_survives(agent: Agent) -> None:
    """After a line that is not UTF-8, the next request is served."""
    await _survived(agent, b'{"jsonrpc":"2.0","method":"_conformance/\xff\xfe","params":{}}\n')


@case("bad-input/scalar-survives", level=MUST, source=RPC, section=ERRORS, shared=True)
async def scalar_survives(agent: Agent) -> None:
    """After lines that are JSON but not objects, the next request is served."""
    await _survived(agent, b'42\nnull\ntrue\n"x"\n')


@case("bad-input/invalid-request-survives", level=MUST, source=RPC, section=ERRORS, shared=True)
async def invalid_request_survives(agent: Agent) -> None:
    """After objects that are not messages, the next request is served."""
    await _survived(agent, b'{}\n{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0","method":{}}\n{"jsonrpc":2,"method":"x"}\n')


@case("bad-input/bad-params-survive", level=MUST, source=RPC, section=ERRORS, shared=True)
async def bad_params_survive(agent: Agent) -> None:
    """After a request with invalid parameters, the next request is served."""
    await agent.initialize()
    await agent.request("session/prompt", {"sessionId": {"a": 1}, "prompt": 3})
    await agent.request("session/new", {"cwd": None})
    await agent.fence()


@case(
    "bad-input/notification-bad-params-survives",
    level=MUST,
    source=RPC,
    section=NOTIFICATION,
    shared=True,
)
async def notification_bad_params_survives(agent: Agent) -> None:
    """After notifications with invalid parameters, the next request is served."""
    await agent.initialize()
    for params in ({"sessionId": 5}, {}, [], None):
        await agent.notify("session/cancel", params)
    await agent.fence()


@case(
    "bad-input/bad-response-survives",
    level=MUST,
    source=RPC,
    section="5 Response object",
    shared=True,
)
async def bad_response_survives(agent: Agent) -> None:
    """After responses that are malformed or unexpected, the next request is served."""
    await _survived(
        agent,
        b'{"jsonrpc":"2.0","id":0,"error":"nope"}\n'
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}\n'
        b'{"jsonrpc":"2.0","id":"abc","result":null}\n'
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'
        b'{"jsonrpc":"2.0","id":[1],"result":{}}\n',
    )


@case(
    "bad-input/blank-lines-survive",
    level=MUST,
    source="RFC 8259",
    section="2 JSON Grammar",
    shared=True,
)
async def blank_lines_survive(agent: Agent) -> None:
    """After blank lines, the next request is served."""
    await _survived(agent, b"\n\r\n   \n\t\n")


@case(
    "bad-input/byte-order-mark-survives",
    level=MUST,
    source="RFC 8259",
    section="8.1 Encoding",
    shared=True,
)
async def byte_order_mark_survives(agent: Agent) -> None:
    """After a line that begins with a byte order mark, the next request is served."""
    await _survived(agent, b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"_conformance/note"}\n')


@case("bad-input/nul-survives", level=MUST, source=RPC, section=ERRORS, shared=True)
async def nul_survives(agent: Agent) -> None:
    """After a line of NUL bytes, the next request is served."""
    await _survived(agent, b"\0\0\0\0\n")


@case("bad-input/long-garbage-survives", level=MUST, source=RPC, section=ERRORS, shared=True)
async def long_garbage_survives(agent: Agent) -> None:
    """After a megabyte that is not JSON, the next request is served."""
    await _survived(agent, b"x" * 1_000_000 + b"\n")


@case(
    "bad-input/deep-nesting-survives",
    level=SHOULD,
    source="RFC 8259",
    section="9 Parsers",
    shared=True,
)
async def deep_nesting_survives(agent: Agent) -> None:
    """After JSON that is nested 100,000 deep, which a parser may refuse, the next request is served."""
    params = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    await _survived(agent, b'{"jsonrpc":"2.0","method":"_conformance/note","params":' + params + b"}\n")


@case(
    "bad-input/huge-number-survives",
    level=SHOULD,
    source="RFC 8259",
    section="9 Parsers",
    shared=True,
)
async def huge_number_survives(agent: Agent) -> None:
    """After a number of 10,000 digits, which a parser may refuse, the next request is served."""
    await _survived(agent, b'{"jsonrpc":"2.0","method":"_conformance/note","params":{"n":' + b"9" * 10_000 + b"}}\n")


@case(
    "bad-input/duplicate-names-survive",
    level=MUST,
    source="RFC 8259",
    section="4 Objects",
    shared=True,
)
async def duplicate_names_survive(agent: Agent) -> None:
    """After an object that has a name twice, the next request is served."""
    await _survived(agent, b'{"jsonrpc":"2.0","method":"_conformance/note","method":"_conformance/note2"}\n')


@case(
    "bad-input/lone-surrogate-survives",
    level=MUST,
    source="RFC 8259",
    section="8.2 Unicode",
    shared=True,
)
async def lone_surrogate_survives(agent: Agent) -> None:
    """After a request whose id is a lone surrogate, the next request is served."""
    await agent.initialize()
    agent.expect("\ud800", UNKNOWN)
    await agent.raw(b'{"jsonrpc":"2.0","id":"\\ud800","method":"_conformance/unknown","params":{}}\n')
    await agent.fence()
