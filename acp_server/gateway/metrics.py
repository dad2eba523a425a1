"""What a monitor wants to know, in the format of Prometheus. Each gateway has numbers of its own.

Who may read them is decided in `acp_server.gateway.endpoints`. No label is anything that a client has chosen.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from acp_server.gateway.records import Status

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_REQUESTS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
_CHATS: Final = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600)


class Present(Protocol):
    """What the gauges show: how it is at the moment."""

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
        registry.register(_Gauges(present))
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


class _Gauges(Collector):
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
        return chats, agents, queue

    def describe(self) -> Iterable[Metric]:
        """See Collector. Without it everything would be collected once at the start."""
        return ()
