"""The API as an ASGI application: its routes with their permissions, health probes, the access log, and metrics.

Every response has its log id in the `X-Tt-Logid` header and in its body. Neither messages nor tokens are logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acp_server.apps.gateway import endpoints
from acp_server.apps.gateway.auth import METRICS
from acp_server.apps.gateway.endpoints import Handler, endpoint, refuse
from acp_server.apps.gateway.errors import LOGID, ApiError, Code, new_logid
from acp_server.apps.gateway.gateway import Gateway
from acp_server.apps.gateway.records import Status

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway.access")

_REQUESTS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
_CHATS: Final = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600)
"""The bounds of the histogram buckets, in seconds."""

ROUTES: Final[tuple[tuple[str, str, str, Handler], ...]] = (
    ("POST", "/v3/chat", "chat", endpoints.create_chat),
    # Documented as GET, and called with POST by the official clients.
    ("GET", "/v3/chat/retrieve", "getChat", endpoints.retrieve_chat),
    ("POST", "/v3/chat/retrieve", "getChat", endpoints.retrieve_chat),
    ("GET", "/v3/chat/message/list", "listMessage", endpoints.list_chat_messages),
    ("POST", "/v3/chat/submit_tool_outputs", "chat", endpoints.submit_tool_outputs),
    ("POST", "/v3/chat/cancel", "cancelChat", endpoints.cancel_chat),
    ("POST", "/v1/conversation/create", "createConversation", endpoints.create_conversation),
    ("GET", "/v1/conversation/retrieve", "getConversation", endpoints.retrieve_conversation),
    ("GET", "/v1/conversations", "listConversation", endpoints.list_conversations),
    ("PUT", "/v1/conversations/{id}", "updateConversation", endpoints.rename_conversation),
    ("DELETE", "/v1/conversations/{id}", "deleteConversation", endpoints.delete_conversation),
    ("POST", "/v1/conversations/{id}/clear", "clearConversation", endpoints.clear_conversation),
    ("POST", "/v1/conversation/message/create", "createMessage", endpoints.create_message),
    ("POST", "/v1/conversation/message/list", "listMessage", endpoints.list_messages),
    ("GET", "/v1/conversation/message/retrieve", "getMessage", endpoints.retrieve_message),
    ("POST", "/v1/conversation/message/modify", "updateMessage", endpoints.modify_message),
    ("POST", "/v1/conversation/message/delete", "deleteMessage", endpoints.delete_message),
)


class _Route(Route):
    """A route that does not treat an escaped slash as a separator. No path of the API has an escaped slash."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See Route."""
        if b"%2f" in scope["raw_path"].lower():
            return Match.NONE, {}
        return super().matches(scope)


def _cors(origins: Sequence[str]) -> list[Middleware]:
    if not origins:
        return []
    methods = sorted({method for method, *_ in ROUTES})
    exposed = [LOGID.decode(), "Retry-After"]
    # Credentials would be cookies, which the API does not use.
    return [
        Middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=methods, allow_headers=["*"], expose_headers=exposed
        )
    ]


def _probes(gateway: Gateway, numbers: Metrics) -> list[BaseRoute]:
    """Return the routes of the probes. Health probes need no token, because a stranger cannot use their result. Metrics
    need a token with the permission `metrics`, even for local requests, because behind a proxy all requests are
    local."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_request: Request) -> Response:
        return PlainTextResponse("ending", 503) if gateway.is_draining else PlainTextResponse("ok")

    async def metrics(request: Request) -> Response:
        try:
            gateway.tokens.caller(request.headers.get("authorization")).need(METRICS)
        except ApiError as error:
            return PlainTextResponse(error.msg, 401 if error.code == Code.UNAUTHENTICATED else 403)
        return Response(numbers.text(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


def make_app(gateway: Gateway) -> Starlette:
    """Return the API as an ASGI application. Its lifespan runs `gateway`."""
    metrics = Metrics(gateway)
    gateway.chats.on_end = metrics.ended
    app = Starlette(
        routes=[
            _Route(path, endpoint(gateway, path, permission, handler), methods=[method])
            for method, path, permission, handler in ROUTES
        ]
        + _probes(gateway, metrics),
        middleware=[Middleware(Logged, answered=metrics.answered), *_cors(gateway.allow_origins)],
        exception_handlers={404: refuse, 405: refuse},
        lifespan=lambda _app: gateway.running(),
    )
    # The clients cannot follow a redirect.
    app.router.redirect_slashes = False
    return app


class Logged:
    """Gives each request a log id, in `scope["state"]`, and logs its response. For an event stream, the beginning is
    also logged, because the stream may last for a long time.

    The request's handler may store its `route`, its `caller` and the `code` of its response in that state. A request
    without a route is not a call of the API. Its success is not logged, because it may be a probe that comes every
    second.
    """

    def __init__(self, app: ASGIApp, answered: Callable[[str, int, float], None]) -> None:
        """`answered` is called with the route, the code and the seconds until the response."""
        self._app = app
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state["logid"] = logid = new_logid()
        began = time.perf_counter()
        status: int | None = None
        answered = 0.0

        def note(what: str) -> None:
            path, caller = ascii(scope["path"])[1:-1], state.get("caller", "-")
            level = logging.DEBUG if status == 200 and "route" not in state else logging.INFO
            logger.log(level, "%s %s by %s: %s, logid %s", scope["method"], path, caller, what, logid)

        async def send_with_logid(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = time.perf_counter() - began
                if dict(message.get("headers", ())).get(b"content-type", b"").startswith(b"text/event-stream"):
                    note(f"HTTP {status}, a stream begins")
                message["headers"] = [*message.get("headers", ()), (LOGID, logid.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_logid)
        finally:
            if status is not None:
                code = state.get("code", 0 if status < 400 else status)
                self._answered(state.get("route", "other"), code, answered)
            took = (time.perf_counter() - began) * 1000
            note(f"HTTP {status or 'none'}, code {state.get('code', 'none')}, {took:.0f} ms")


class Metrics(Collector):
    """All metrics of one gateway, in the format of Prometheus. No label has a value that a client chooses."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._registry = registry = CollectorRegistry()
        self._requests = Histogram(
            "acp_gateway_request_seconds",
            "Time to the answer, or to the beginning of a stream.",
            ["route"],
            buckets=_REQUESTS,
            registry=registry,
        )
        self._refusals = Counter(
            "acp_gateway_refusals", "Answers that are an error, by its code.", ["code"], registry=registry
        )
        self._chats = Histogram(
            "acp_gateway_chat_seconds",
            "Time from the beginning of a chat to its end, by how it ended.",
            ["status"],
            buckets=_CHATS,
            registry=registry,
        )
        registry.register(self)
        ProcessCollector(registry=registry)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route).observe(seconds)
        if code:
            self._refusals.labels(str(code)).inc()

    def ended(self, status: Status, seconds: float) -> None:
        """Count a chat that has ended and whose agent no longer works for it."""
        self._chats.labels(status.value).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics as text, of the type `CONTENT_TYPE_LATEST`."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics that are read on demand. See Collector."""
        chats = GaugeMetricFamily("acp_gateway_chats", "Chats that have not ended, by status.", labels=["status"])
        there = self._gateway.chats.statuses()
        for status in Status:
            chats.add_metric([status.value], there[status])
        agents = GaugeMetricFamily("acp_gateway_agents", "Processes of agents that run, by bot.", labels=["bot"])
        queue = GaugeMetricFamily("acp_gateway_queue", "Chats that wait for a session of their agent.", labels=["bot"])
        for bot, (running, waiting) in self._gateway.bots.running().items():
            agents.add_metric([bot], running)
            queue.add_metric([bot], waiting)
        starts = CounterMetricFamily("acp_gateway_agent_starts", "Processes of agents started.", labels=["bot"])
        ends = CounterMetricFamily("acp_gateway_agent_ends", "Processes of agents ended.", labels=["bot", "reason"])
        for bot, number in self._gateway.lives.starts.items():
            starts.add_metric([bot], number)
        for (bot, reason), number in self._gateway.lives.ends.items():
            ends.add_metric([bot, reason], number)
        return chats, agents, queue, starts, ends

    def describe(self) -> Iterable[Metric]:
        """Return nothing. See Collector. Without this method everything would be collected once at the start."""
        return ()
