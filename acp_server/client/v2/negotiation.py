"""Negotiates version 2 with an agent.

The request has the members of both versions. If an agent answers with version 1, the request has everything that
version 1 requires, and the connection continues with version 1 (ACP v2, initialization).
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
    """Return the parameters of `initialize` that request version 2, made from the request of version 1."""
    told = request.to_wire()
    capabilities: dict[str, Any] = {}
    if request.client_capabilities.auth.terminal:
        capabilities["auth"] = {"terminal": {}}
    if (elicitation := request.client_capabilities.elicitation) is not None:
        capabilities["elicitation"] = elicitation.to_wire()
    return {**told, "protocolVersion": 2, "info": told["clientInfo"], "capabilities": capabilities}


async def ask(side: Side, request: InitializeRequest, timeout: float | None) -> InitializeResponse | None:
    """See `Version.ask` of `acp_server.client.versions`.

    Returns None if version 1 must be requested next: the agent refused version 2, exited and was restarted, or only
    echoed the version number. Raises ConnectionClosed if the agent cannot be restarted, MalformedResponse and
    RequestTimeout.
    """
    try:
        answer = await side.link.request("initialize", offer(request), timeout=timeout)
    except RpcError as error:
        logger.info("the agent refuses version 2; requesting version 1: %s", error)
        return None
    except ConnectionClosed as error:
        if side.start_over is None:
            raise
        logger.info("the agent exited when version 2 was requested; restarting it: %s", error)
        await side.start_over()
        return None
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    if told.get("protocolVersion") != v2.PROTOCOL_VERSION:
        return read_result(InitializeResponse, "initialize", answer)
    if "info" not in told:
        # Version 2 requires it. Agents that only support version 1 and echo every number are common.
        logger.info("the agent echoes version 2, but its response is not of version 2; requesting version 1")
        return None
    said: v2.InitializeResponse = read_result(v2.InitializeResponse, "initialize", answer)
    side.link.connection.endpoint.strict = True
    side.speak(Version2(side, said))
    return _as_v1(said)


_SAME: Final = ("systemPrompt", "fork", "title", "archive", "status", "options")
"""The session capabilities that have the same form in both versions."""


def _as_v1(told: v2.InitializeResponse) -> InitializeResponse:
    plain = {
        "protocolVersion": told.protocol_version,
        "agentInfo": told.info.to_wire(),
        "agentCapabilities": _capabilities(told),
        # Only the member for its id has another name.
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
