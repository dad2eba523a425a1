"""How a client and an agent agree on version 2.

The offer of it has both forms: an agent that answers 1 finds in it what version 1 wants to know, and the same
connection goes on (ACP v2, initialization).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

from acp_server.client.v2.dialect import Version2
from acp_server.errors import ConnectionClosed, RpcError
from acp_server.schema import InitializeRequest, InitializeResponse, v2
from acp_server.schema.reading import read_result

if TYPE_CHECKING:
    from acp_server.client.versions import Side

logger: logging.Logger = logging.getLogger("acp_server.client")


def offer(request: InitializeRequest) -> dict[str, Any]:
    """The parameters of `initialize` that ask for version 2, out of those that ask for version 1."""
    told = request.to_wire()
    capabilities: dict[str, Any] = {}
    if request.client_capabilities.auth.terminal:
        capabilities["auth"] = {"terminal": {}}
    if (elicitation := request.client_capabilities.elicitation) is not None:
        capabilities["elicitation"] = elicitation.to_wire()
    return {**told, "protocolVersion": 2, "info": told["clientInfo"], "capabilities": capabilities}


async def ask(side: Side, request: InitializeRequest, timeout: float | None) -> InitializeResponse | None:
    """See `Version.ask` of `acp_server.client.versions`.

    None if version 1 is to be asked for, since the agent refuses, has ended and was started anew, or only repeats the
    number. Raises ConnectionClosed if it cannot be started anew, MalformedResponse and RequestTimeout.
    """
    try:
        answer = await side.link.request("initialize", offer(request), timeout=timeout)
    except RpcError as error:
        logger.info("the agent refuses version 2; it is asked for version 1: %s", error)
        return None
    except ConnectionClosed as error:
        if side.start_over is None:
            raise
        logger.info("the agent ended when it was asked for version 2; it is started anew: %s", error)
        await side.start_over()
        return None
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    if told.get("protocolVersion") != v2.PROTOCOL_VERSION:
        return read_result(InitializeResponse, "initialize", answer)
    if "info" not in told:
        # Version 2 demands it. Agents that know version 1 alone and say every number back are common.
        logger.info("the agent repeats the number 2, and its answer is not of version 2; it is asked for version 1")
        return None
    said: v2.InitializeResponse = read_result(v2.InitializeResponse, "initialize", answer)
    side.link.connection.endpoint.strict = True
    side.speak(Version2(side, said))
    return _as_v1(said)


_SAME: Final = ("systemPrompt", "fork", "title", "archive", "status")
"""What is announced of sessions in the same form in both versions."""


def _as_v1(told: v2.InitializeResponse) -> InitializeResponse:
    plain = {
        "protocolVersion": told.protocol_version,
        "agentInfo": told.info.to_wire(),
        "agentCapabilities": _capabilities(told),
        # A method has another name for its id, and all the rest alike.
        "authMethods": [{**method, "id": method["methodId"]} for method in (m.to_wire() for m in told.auth_methods)],
        "_meta": told.meta,
    }
    return InitializeResponse.from_wire(plain)


def _capabilities(told: v2.InitializeResponse) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    session = told.capabilities.session
    if session is not None:
        prompt, mcp = session.prompt or v2.PromptCapabilities(), session.mcp or v2.McpCapabilities()
        optional = {"delete": session.delete, "additionalDirectories": session.additional_directories}
        same = session.to_wire()
        plain = {
            "loadSession": True,
            "promptCapabilities": {
                "image": prompt.image is not None,
                "audio": prompt.audio is not None,
                "embeddedContext": prompt.embedded_context is not None,
            },
            "mcpCapabilities": {"http": mcp.http is not None},
            "sessionCapabilities": {
                **{name: {} for name in ("list", "resume", "close")},
                **{name: {} for name, announced in optional.items() if announced is not None},
                **{key: same[key] for key in _SAME if key in same},
            },
        }
    if told.auth_methods:
        plain["auth"] = {"logout": {}}
    if told.capabilities.meta is not None:
        plain["_meta"] = told.capabilities.meta
    return plain
