"""The workloads of an agent, and the cost of each.

A workload takes the command of an agent, starts it, does some of the work to warm it up, then all of it, and returns
its costs by figure name. Each checks that the work was really done: the number of updates, the number of reads, the
stop reason.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Self, TypeAlias

from . import talk
from .subject import Message, Subject

MICRO = 1e6
MILLI = 1e3
KILO = 1e-3
MEGA = 1e-6

Command: TypeAlias = Sequence[str]
Costs: TypeAlias = dict[str, float]

FURNISHED = "furnished"
"""An agent started with this argument has a custom method, and tools if it supports them."""
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Counts:
    """The amount of each kind of work."""

    starts: int = 3
    updates: int = 20_000
    prompts: int = 6_400
    in_flight: int = 64
    sequential: int = 3_000
    nested: int = 500
    nested_times: int = 10
    cancels: int = 950
    cancel_times: int = 4
    hanging: int = 5_000
    waiting: int = 1_000
    single_cancels: int = 200

    def scaled(self, factor: float) -> Self:
        """The same work, that many times as much of it; at least two of everything."""
        return type(self)(*(max(2, round(getattr(self, count.name) * factor)) for count in fields(self)))


def start(command: Command, counts: Counts) -> Costs:
    """From the spawn to the response to `initialize`, then to the end of a first prompt.

    Of several starts the fastest counts, because other load can only make one slower.
    """
    starts = [_start(command) for _ in range(counts.starts)]
    return min(starts, key=lambda costs: costs["start"])


def start_furnished(command: Command, counts: Counts) -> Costs:
    """The same start of an agent that registers a custom method and three tools."""
    costs = start((*command, FURNISHED), counts)
    return {"start-furnished": costs["start"], "resident-furnished": costs["resident"]}


def _start(command: Command) -> Costs:
    spawned = time.perf_counter()
    with Subject(command) as subject:
        talk.initialize(subject)
        wall = time.perf_counter() - spawned
        cpu, resident = subject.cpu_seconds, subject.resident_bytes
        (session,) = talk.sessions(subject, 1)
        talk.prompt_all(subject, [session], "echo")
        return {
            "start": wall * MILLI,
            "start-cpu": cpu * MILLI,
            "first-prompt-cpu": subject.cpu_seconds * MILLI,
            "resident": resident * MEGA,
            "first-prompt-resident": subject.resident_bytes * MEGA,
        }


def first_prompt(command: Command, counts: Counts) -> Costs:
    """A user who types after the agent has started: a session and a first prompt, after an idle time."""
    with talk.started(command) as subject:
        time.sleep(_PAUSE)
        began = time.perf_counter()
        (session,) = talk.sessions(subject, 1)
        talk.prompt_all(subject, [session], "echo")
        return {"first-prompt": (time.perf_counter() - began) * MILLI}


def stream(command: Command, counts: Counts) -> Costs:
    """One prompt that streams many text chunks."""
    with talk.started(command) as subject:
        sessions = talk.sessions(subject, 1)

        def work(amount: int) -> None:
            updates = talk.prompt_all(subject, sessions, f"stream {amount}")
            talk.expect(updates, amount, "updates")

        work(counts.updates // 10)
        return {"stream": talk.cpu(subject, lambda: work(counts.updates)) / counts.updates * MICRO}


def pipelined(text: str, name: str) -> Callable[[Command, Counts], Costs]:
    """Prompts of many sessions, up to a number in flight; `text` is the prompt."""

    def run(command: Command, counts: Counts) -> Costs:
        with talk.started(command) as subject:
            sessions = talk.sessions(subject, counts.in_flight)
            talk.prompt_pipelined(subject, sessions, text, counts.prompts // 10)
            cpu = talk.cpu(subject, lambda: talk.prompt_pipelined(subject, sessions, text, counts.prompts))
            return {name: cpu / counts.prompts * MICRO}

    return run


def unknown(command: Command, counts: Counts) -> Costs:
    """Requests for an unknown method, up to a number in flight."""

    def check(message: Message) -> None:
        talk.expect(message.get("error", {}).get("code"), -32601, "error code")

    with talk.started(command) as subject:
        cpu = _requests(subject, counts, "bench/unknown", check)
        return {"unknown": cpu / counts.prompts * MICRO}


def own(command: Command, counts: Counts) -> Costs:
    """Requests for a method that the agent's author registered, up to a number in flight."""
    with talk.started((*command, FURNISHED)) as subject:

        def check(message: Message) -> None:
            talk.expect(subject.result(message), {"number": 2}, "result")

        return {"own": _requests(subject, counts, "_bench/own", check) / counts.prompts * MICRO}


def _requests(subject: Subject, counts: Counts, method: str, check: Callable[[Message], None]) -> float:
    """The CPU time of `counts.prompts` requests, after a tenth of them to warm up."""

    def work(amount: int) -> None:
        talk.request_pipelined(subject, method, {"number": 1}, amount, counts.in_flight, check)

    work(counts.prompts // 10)
    return talk.cpu(subject, lambda: work(counts.prompts))


def sequential(command: Command, counts: Counts) -> Costs:
    """Prompts one after the other, nothing else in flight."""
    with talk.started(command) as subject:
        sessions = talk.sessions(subject, 1)

        def work(amount: int) -> None:
            for _ in range(amount):
                talk.prompt_all(subject, sessions, "nothing")

        work(counts.sequential // 10)
        return {"sequential": talk.cpu(subject, lambda: work(counts.sequential)) / counts.sequential * MICRO}


def nested(command: Command, counts: Counts) -> Costs:
    """Prompts that read many files through the client concurrently; the client answers each."""
    with talk.started(command) as subject:
        (session,) = talk.sessions(subject, 1)

        def work() -> None:
            wanted = talk.prompt(subject, session, f"nested {counts.nested}")
            paths: set[str] = set()
            for message in subject.messages():
                match message:
                    case {"method": "fs/read_text_file", "params": {"path": path}}:
                        paths.add(path)
                        subject.answer(message, {"content": "print('hello')\n"})
                    case {"id": answered} if answered == wanted:
                        talk.expect(subject.result(message).get("stopReason"), "end_turn", "stop reason")
                        talk.expect(len(paths), counts.nested, "reads")
                        return
                    case _:
                        pass

        def all_of_it() -> None:
            for _ in range(counts.nested_times):
                work()

        work()
        return {"nested": talk.cpu(subject, all_of_it) / (counts.nested_times * counts.nested) * MICRO}


def burst(by_request: bool, name: str) -> Callable[[Command, Counts], Costs]:
    """Many hanging prompts, all cancelled in one burst: by `session/cancel`, or by `$/cancel_request`."""

    def run(command: Command, counts: Counts) -> Costs:
        with talk.started(command) as subject:
            sessions = talk.sessions(subject, counts.cancels)
            cpu = wall = 0.0
            for time_ in range(counts.cancel_times + 1):
                prompts = [talk.prompt(subject, session, "hang") for session in sessions]
                subject.settle()
                for prompt, session in zip(prompts, sessions, strict=True):
                    if by_request:
                        subject.notify("$/cancel_request", {"requestId": prompt})
                    else:
                        subject.notify("session/cancel", {"sessionId": session})
                began, cpu_before = time.perf_counter(), subject.cpu_seconds
                talk.answers(subject, prompts, "cancelled")
                if time_ > 0:  # the first one warms up
                    wall += time.perf_counter() - began
                    subject.settle()
                    cpu += subject.cpu_seconds - cpu_before
            cancels = counts.cancels * counts.cancel_times
            return {name: cpu / cancels * MICRO, f"{name}-last": wall / counts.cancel_times * MILLI}

    return run


def one_cancel(command: Command, counts: Counts) -> Costs:
    """One prompt after the other cancelled alone, by `session/cancel`, among many pending ones."""
    with talk.started(command) as subject:
        sessions = talk.sessions(subject, counts.waiting)
        prompts = {session: talk.prompt(subject, session, "hang") for session in sessions}
        subject.settle()
        times: list[float] = []

        def work(amount: int) -> None:
            for session in sessions[:amount]:
                began = time.perf_counter()
                subject.notify("session/cancel", {"sessionId": session})
                talk.answers(subject, [prompts[session]], "cancelled")
                times.append(time.perf_counter() - began)

        def renew(amount: int) -> None:
            prompts.update({session: talk.prompt(subject, session, "hang") for session in sessions[:amount]})

        warm = max(1, counts.single_cancels // 10)
        work(warm)
        renew(warm)
        times.clear()
        cpu = talk.cpu(subject, lambda: work(counts.single_cancels))
        renew(counts.single_cancels)
        subject.settle()
        for session in sessions:
            subject.notify("session/cancel", {"sessionId": session})
        talk.answers(subject, list(prompts.values()), "cancelled")
        return {"one-cancel": cpu / counts.single_cancels * MICRO, "one-cancel-wall": median(times) * MICRO}


def hanging(command: Command, counts: Counts) -> Costs:
    """The memory of a pending request."""
    with talk.started(command) as subject:
        sessions = talk.sessions(subject, counts.hanging)
        subject.settle()
        before = subject.resident_bytes
        prompts = [talk.prompt(subject, session, "hang") for session in sessions]
        subject.settle()
        grown = subject.resident_bytes - before
        for session in sessions:
            subject.notify("session/cancel", {"sessionId": session})
        talk.answers(subject, prompts, "cancelled")
        return {"hanging": grown / counts.hanging * KILO}
