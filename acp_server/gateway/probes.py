"""What is asked of the gateway itself, and not of the API: whether it lives, whether it takes chats, its numbers.

The first two say nothing that is of use to a stranger, so they want no token. The numbers want one that permits
`metrics`: behind a proxy every request comes from this machine, so that says nothing about the client.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from acp_server.gateway.auth import METRICS
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.gateway import Gateway
from acp_server.gateway.metrics import CONTENT_TYPE


def probes(gateway: Gateway) -> list[BaseRoute]:
    """Their routes."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_request: Request) -> Response:
        return PlainTextResponse("ending", 503) if gateway.is_draining else PlainTextResponse("ok")

    async def metrics(request: Request) -> Response:
        try:
            gateway.tokens.caller(request.headers.get("authorization")).need(METRICS)
        except ApiError as error:
            return PlainTextResponse(error.msg, 401 if error.code == Code.UNAUTHENTICATED else 403)
        return Response(gateway.metrics.text(), media_type=CONTENT_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
