"""What is known of each request: its log id, its line of the log, and the numbers for a monitor.

Every answer has its log id in the `X-Tt-Logid` header and in its body. Nothing of what was said is logged, no token is,
and no label of a number is anything that a client has chosen. The numbers have the format of Prometheus; who may read
them is decided in `acp_server.gateway.endpoints`.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acp_server.gateway.pool import Lives
from acp_server.gateway.records import Status

logger = logging.getLogger("acp_server.gateway.access")

HEADER: Final = b"x-tt-logid"


def new_logid() -> str:
    """The time, and something that nothing else has."""
    return time.strftime("%Y%m%d%H%M%S") + secrets.token_hex(10).upper()


class Logged:
    """Gives each request its log id, in `scope["state"]`, and a line in the log when it is answered. A stream of events
    has one more when it begins, since it may last for long.

    The request's handler may leave its `route`, its `caller` and the `code` of its answer there. A request
    without a route is not a call of the API, such as a probe that comes every second; a good answer is not logged.
    """

    def __init__(self, app: ASGIApp, answered: Callable[[str, int, float], None]) -> None:
        """`answered` is told the route, the code and the seconds to the answer."""
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
                message["headers"] = [*message.get("headers", ()), (HEADER, logid.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_logid)
        finally:
            if status is not None:
                code = state.get("code", 0 if status < 400 else status)
                self._answered(state.get("route", "other"), code, answered)
            took = (time.perf_counter() - began) * 1000
            note(f"HTTP {status or 'none'}, code {state.get('code', 'none')}, {took:.0f} ms")


CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_REQUESTS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
_CHATS: Final = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600)


class Present(Protocol):
    """What is not counted here, but looked at."""

    lives: Lives
    """What has become of the processes of agents."""

    def chats(self) -> Tally[Status]:
        """How many chats there are that have not ended, by their status."""
        ...

    def agents(self) -> Mapping[str, tuple[int, int]]:
        """For each bot, how many processes run, and how many chats wait for a session of one."""
        ...


class Metrics:
    """All numbers of one gateway."""

    def __init__(self, present: Present) -> None:
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
        registry.register(_Looked(present))
        ProcessCollector(registry=registry)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """A request has its answer."""
        self._requests.labels(route).observe(seconds)
        if code:
            self._refusals.labels(str(code)).inc()

    def ended(self, status: Status, seconds: float) -> None:
        """A chat is over, and its agent works for it no more."""
        self._chats.labels(status.value).observe(seconds)

    def text(self) -> bytes:
        """All of it, of the type `CONTENT_TYPE`."""
        return generate_latest(self._registry)


class _Looked(Collector):
    def __init__(self, present: Present) -> None:
        self._present = present

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        chats = GaugeMetricFamily("acp_gateway_chats", "Chats that have not ended, by status.", labels=["status"])
        there = self._present.chats()
        for status in Status:
            chats.add_metric([status.value], there[status])
        agents = GaugeMetricFamily("acp_gateway_agents", "Processes of agents that run, by bot.", labels=["bot"])
        queue = GaugeMetricFamily("acp_gateway_queue", "Chats that wait for a session of their agent.", labels=["bot"])
        for bot, (running, waiting) in self._present.agents().items():
            agents.add_metric([bot], running)
            queue.add_metric([bot], waiting)
        starts = CounterMetricFamily("acp_gateway_agent_starts", "Processes of agents started.", labels=["bot"])
        ends = CounterMetricFamily("acp_gateway_agent_ends", "Processes of agents ended.", labels=["bot", "reason"])
        for bot, number in self._present.lives.starts.items():
            starts.add_metric([bot], number)
        for (bot, reason), number in self._present.lives.ends.items():
            ends.add_metric([bot, reason], number)
        return chats, agents, queue, starts, ends

    def describe(self) -> Iterable[Metric]:
        """See Collector. Without it everything would be collected once at the start."""
        return ()
