"""The pieces of work an agent is given, and what it cost to do each.

A workload takes the command of an agent, starts it, does some of the work to warm it up, then all of it, and
returns its costs by figure name. Each checks that the work was really done: so many updates, so many reads,
this stop reason.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Self, TypeAlias

from .subject import Subject, SubjectError

MICRO = 1e6
MILLI = 1e3
KILO = 1e-3
MEGA = 1e-6

Command: TypeAlias = Sequence[str]
Costs: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much of each kind of work."""

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

    def scaled(self, factor: float) -> Self:
        """The same work, so many times as much of it; at least two of everything."""
        return type(self)(*(max(2, round(getattr(self, count.name) * factor)) for count in fields(self)))


def start(command: Command, counts: Counts) -> Costs:
    """From the spawn to the answer of `initialize`, then to the end of a first prompt.

    Of several starts the fastest counts: what else the machine does can only make one slower.
    """
    starts = [_start(command) for _ in range(counts.starts)]
    return min(starts, key=lambda costs: costs["start"])


def _start(command: Command) -> Costs:
    spawned = time.perf_counter()
    with Subject(command) as subject:
        _initialize(subject)
        wall = time.perf_counter() - spawned
        cpu, resident = subject.cpu_seconds, subject.resident_bytes
        (session,) = _sessions(subject, 1)
        _prompt_all(subject, [session], "echo")
        return {
            "start": wall * MILLI,
            "start-cpu": cpu * MILLI,
            "first-prompt-cpu": subject.cpu_seconds * MILLI,
            "resident": resident * MEGA,
            "first-prompt-resident": subject.resident_bytes * MEGA,
        }


def stream(command: Command, counts: Counts) -> Costs:
    """One prompt that streams many text chunks."""
    with _started(command) as subject:
        sessions = _sessions(subject, 1)

        def work(amount: int) -> None:
            updates = _prompt_all(subject, sessions, f"stream {amount}")
            _expect(updates, amount, "updates")

        work(counts.updates // 10)
        return {"stream": _cpu(subject, lambda: work(counts.updates)) / counts.updates * MICRO}


def pipelined(text: str, name: str) -> Callable[[Command, Counts], Costs]:
    """Prompts of many sessions, so many in flight; `text` is what each asks for."""

    def run(command: Command, counts: Counts) -> Costs:
        with _started(command) as subject:
            sessions = _sessions(subject, counts.in_flight)
            _prompt_pipelined(subject, sessions, text, counts.prompts // 10)
            cpu = _cpu(subject, lambda: _prompt_pipelined(subject, sessions, text, counts.prompts))
            return {name: cpu / counts.prompts * MICRO}

    return run


def unknown(command: Command, counts: Counts) -> Costs:
    """Requests for a method that does not exist, so many in flight."""
    with _started(command) as subject:

        def work(amount: int) -> None:
            sent = min(amount, counts.in_flight)
            for _ in range(sent):
                subject.request("bench/unknown", {"number": 1})
            for refused, message in enumerate(subject.messages(), 1):
                _expect(message.get("error", {}).get("code"), -32601, "error code")
                if refused == amount:
                    return
                if sent < amount:
                    subject.request("bench/unknown", {"number": 1})
                    sent += 1

        work(counts.prompts // 10)
        return {"unknown": _cpu(subject, lambda: work(counts.prompts)) / counts.prompts * MICRO}


def sequential(command: Command, counts: Counts) -> Costs:
    """Prompts one after the other, nothing else in flight."""
    with _started(command) as subject:
        sessions = _sessions(subject, 1)

        def work(amount: int) -> None:
            for _ in range(amount):
                _prompt_all(subject, sessions, "nothing")

        work(counts.sequential // 10)
        return {"sequential": _cpu(subject, lambda: work(counts.sequential)) / counts.sequential * MICRO}


def nested(command: Command, counts: Counts) -> Costs:
    """Prompts that read many files through the client, all at once; the client answers each."""
    with _started(command) as subject:
        (session,) = _sessions(subject, 1)

        def work() -> None:
            wanted = _prompt(subject, session, f"nested {counts.nested}")
            paths: set[str] = set()
            for message in subject.messages():
                match message:
                    case {"method": "fs/read_text_file", "params": {"path": path}}:
                        paths.add(path)
                        subject.answer(message, {"content": "print('hello')\n"})
                    case {"id": answered} if answered == wanted:
                        _expect(subject.result(message).get("stopReason"), "end_turn", "stop reason")
                        _expect(len(paths), counts.nested, "reads")
                        return
                    case _:
                        pass

        def all_of_it() -> None:
            for _ in range(counts.nested_times):
                work()

        work()
        return {"nested": _cpu(subject, all_of_it) / (counts.nested_times * counts.nested) * MICRO}


def burst(by_request: bool, name: str) -> Callable[[Command, Counts], Costs]:
    """Many hanging prompts, all cancelled in one burst: by `session/cancel`, or by `$/cancel_request`."""

    def run(command: Command, counts: Counts) -> Costs:
        with _started(command) as subject:
            sessions = _sessions(subject, counts.cancels)
            cpu = wall = 0.0
            for time_ in range(counts.cancel_times + 1):
                prompts = [_prompt(subject, session, "hang") for session in sessions]
                subject.settle()
                for prompt, session in zip(prompts, sessions, strict=True):
                    if by_request:
                        subject.notify("$/cancel_request", {"requestId": prompt})
                    else:
                        subject.notify("session/cancel", {"sessionId": session})
                began, cpu_before = time.perf_counter(), subject.cpu_seconds
                _answers(subject, prompts, "cancelled")
                if time_ > 0:  # the first one warms up
                    wall += time.perf_counter() - began
                    subject.settle()
                    cpu += subject.cpu_seconds - cpu_before
            cancels = counts.cancels * counts.cancel_times
            return {name: cpu / cancels * MICRO, f"{name}-last": wall / counts.cancel_times * MILLI}

    return run


def hanging(command: Command, counts: Counts) -> Costs:
    """What a request that waits keeps in memory."""
    with _started(command) as subject:
        sessions = _sessions(subject, counts.hanging)
        subject.settle()
        before = subject.resident_bytes
        prompts = [_prompt(subject, session, "hang") for session in sessions]
        subject.settle()
        grown = subject.resident_bytes - before
        for session in sessions:
            subject.notify("session/cancel", {"sessionId": session})
        _answers(subject, prompts, "cancelled")
        return {"hanging": grown / counts.hanging * KILO}


@contextmanager
def _started(command: Command) -> Iterator[Subject]:
    with Subject(command) as subject:
        _initialize(subject)
        yield subject


def _initialize(subject: Subject) -> None:
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    answer = subject.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    _expect(answer.get("protocolVersion"), 1, "protocol version")


def _sessions(subject: Subject, amount: int) -> list[str]:
    wanted = {subject.request("session/new", {"cwd": "/project", "mcpServers": []}) for _ in range(amount)}
    opened: list[str] = []
    for message in subject.messages():
        if message.get("id") in wanted:
            opened.append(subject.result(message)["sessionId"])
            if len(opened) == amount:
                break
    return opened


def _prompt(subject: Subject, session: str, text: str) -> int:
    content = {"type": "text", "text": text}
    return subject.request("session/prompt", {"sessionId": session, "prompt": [content]})


def _prompt_all(subject: Subject, sessions: list[str], text: str) -> int:
    """Prompt each session once and return how many text chunks they sent."""
    return _answers(subject, [_prompt(subject, session, text) for session in sessions], "end_turn")


def _prompt_pipelined(subject: Subject, sessions: list[str], text: str, amount: int) -> None:
    """One prompt in flight for each session, until there were `amount`."""
    owner = {_prompt(subject, session, text): session for session in sessions[:amount]}
    sent, answered = len(owner), 0
    for message in subject.messages():
        session = owner.pop(message["id"], None) if "id" in message else None
        if session is None:
            continue
        _expect(subject.result(message).get("stopReason"), "end_turn", "stop reason")
        answered += 1
        if answered == amount:
            return
        if sent < amount:
            owner[_prompt(subject, session, text)] = session
            sent += 1


def _answers(subject: Subject, prompts: list[int], stop_reason: str) -> int:
    waiting, chunks = set(prompts), 0
    for message in subject.messages():
        match message:
            case {"params": {"update": {"sessionUpdate": "agent_message_chunk"}}}:
                chunks += 1
            case {"id": answered} if answered in waiting:
                _expect(subject.result(message).get("stopReason"), stop_reason, "stop reason")
                waiting.remove(answered)
                if not waiting:
                    break
            case _:
                pass
    return chunks


def _cpu(subject: Subject, work: Callable[[], None]) -> float:
    subject.settle()
    before = subject.cpu_seconds
    work()
    subject.settle()
    return subject.cpu_seconds - before


def _expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise SubjectError(f"{what}: expected {wanted!r}, got {found!r}")
