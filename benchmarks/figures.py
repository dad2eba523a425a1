"""The figures: the meaning, the unit, the workload and the goal of each.

A goal is the largest acceptable ratio of our cost to the official SDK. A figure without one is for orientation.
"""

from collections.abc import Callable
from dataclasses import dataclass

from . import workloads
from .workloads import Command, Costs, Counts


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    meaning: str
    unit: str
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """One run of one agent, and the figures it yields.

    `instead` is the official SDK's substitute for a workload that it does not support: the nearest workload that it
    does.
    """

    run: Callable[[Command, Counts], Costs]
    figures: tuple[Figure, ...]
    pinned: bool = False
    instead: Callable[[Command, Counts], Costs] | None = None


WORKLOADS = (
    Workload(
        workloads.start,
        (
            Figure("start", "spawn -> initialize answer", "ms", 0.22),
            Figure("start-cpu", "CPU, spawn -> initialize answer", "ms", 0.22),
            Figure("first-prompt-cpu", "CPU, spawn -> first prompt answered", "ms"),
            Figure("resident", "RSS after initialize", "MB", 0.65),
            Figure("first-prompt-resident", "RSS after a first prompt", "MB", 0.92),
        ),
    ),
    Workload(
        workloads.start_furnished,
        (
            Figure("start-furnished", "start with a method of its own and three tools", "ms", 0.22),
            Figure("resident-furnished", "RSS of that after initialize", "MB", 0.65),
        ),
    ),
    Workload(
        workloads.first_prompt,
        (Figure("first-prompt", "session and first prompt, 0.5 s after initialize", "ms"),),
    ),
    Workload(workloads.stream, (Figure("stream", "CPU per streamed session/update", "us", 0.1),)),
    Workload(
        workloads.pipelined("nothing", "pipelined"),
        (Figure("pipelined", "CPU per pipelined prompt, 64 in flight", "us", 0.6),),
    ),
    Workload(
        workloads.pipelined("echo", "pipelined-echo"),
        (Figure("pipelined-echo", "the same, each streams one update", "us"),),
    ),
    Workload(workloads.own, (Figure("own", "CPU per pipelined request of an author's method", "us", 0.65),)),
    Workload(workloads.unknown, (Figure("unknown", "CPU per pipelined method-not-found", "us"),)),
    Workload(
        workloads.sequential,
        (Figure("sequential", "CPU per sequential prompt, one core", "us", 0.45),),
        pinned=True,
    ),
    Workload(
        workloads.nested,
        (Figure("nested", "CPU per nested request, 500 at once, one core", "us", 0.5),),
        pinned=True,
    ),
    Workload(
        workloads.burst(by_request=False, name="burst"),
        (
            Figure("burst", "CPU per session/cancel, burst of 950", "us", 0.75),
            Figure("burst-last", "burst of 950 session/cancel -> last answer", "ms"),
        ),
    ),
    Workload(
        workloads.burst(by_request=True, name="burst-request"),
        (
            Figure("burst-request", "CPU per $/cancel_request (official: session/cancel)", "us", 0.75),
            Figure("burst-request-last", "burst of 950 of these -> last answer", "ms"),
        ),
        instead=workloads.burst(by_request=False, name="burst-request"),
    ),
    Workload(
        workloads.one_cancel,
        (
            Figure("one-cancel", "CPU per session/cancel, one among 1,000 that wait", "us", 0.7),
            Figure("one-cancel-wall", "the same, session/cancel -> answer, median", "us"),
        ),
        pinned=True,
    ),
    Workload(workloads.hanging, (Figure("hanging", "memory per hanging prompt, 5,000 of them", "kB", 1.2),)),
)
