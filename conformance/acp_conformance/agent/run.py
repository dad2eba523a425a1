"""Runs cases, a few at a time and each with a time-out, and returns the `Run` for the reports.

Before the cases, the *probe* finds out whether the command can be run, so that a broken command has one clear reason
instead of a hundred time-outs. The probe also measures the agent's speed, from which every time-out is derived. Each
case has its own process, except for `shared` cases. These run one after the other in one process as long as they pass.
A shared case that fails is judged again in a new process. Cases of the whole run are judged last, over all
conversations and the *tour*. A run reports its progress to a `Progress`.
"""

from __future__ import annotations

import time
import traceback
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import anyio

from acp_conformance.core.case import Case, Outcome, Verdict
from acp_conformance.core.causes import ACCUSING, with_causes
from acp_conformance.core.process import CannotStart, Start, end_strays, spawn
from acp_conformance.core.progress import Progress
from acp_conformance.core.result import CaseResult, Level, Run
from acp_conformance.core.violation import Rule, Violation

from .exchange import NoAnswer
from .judged import Judged, because_of, result_of, untried
from .launch import open_agent
from .observed import Conduct, Observed
from .probe import Probe, probe
from .profile import Profile
from .situation import missing
from .subject import FENCE, VERSION, Agent
from .tour import tour
from .v2.tour import tour as tour_of_version_2
from .watch import Watched, watch

FIRST = {1: "initialize/answers", 2: "v2-negotiation/answers"}
"""The case that represents all others if `initialize` is never answered."""

EXTENSION = "envelope/extension-answered"
"""The case that represents all others with a request of an extension, if no such request is answered."""

_SHAPES: Mapping[Rule, tuple[str, str]] = {
    "result": ("schema/results", "v2-schema/results"),
    "request": ("schema/requests", "v2-schema/requests"),
    "update": ("schema/updates", "v2-schema/updates"),
    "error-object": ("envelope/error-objects", "v2-envelope/error-objects"),
    "kind": ("envelope/kinds", "v2-envelope/messages"),
}
"""By version, the case about messages of the wrong shape: a case that meets one can only end."""

_BRIEF = 1.0
"""The least time-out of a wait in a quick run, in seconds; a case that fails there is judged again with more patience.
"""

_END = 0.2
_ANSWERS = 4
"""Seconds that a process takes to end, and the responses that a case waits for: for the estimate."""

_LINES = ("utf-8", "json-lines", "last-line", "kinds", "messages")
_WIRE = frozenset(f"{group}/{rule}" for group in ("envelope", "v2-envelope") for rule in _LINES)
"""The cases about the definition of a message: a conversation that broke them proves little else."""

_STEPS = 6
"""Waits in a row, each up to its time-out, after which a case ends as too slow."""


@dataclass
class AgentRun:
    """One run of the suite against an agent."""

    command: Sequence[str]
    profile: Profile = field(default_factory=Profile)
    timeout: float = 10.0
    """The least time-out of the agent's start, in seconds; half of it for any later response."""
    jobs: int = 3
    """Cases at a time."""
    watching: bool = False
    """Whether one conversation finds the prompts for situations, which then are the profile."""
    quick: bool = False
    """Whether all shared cases follow each other in one process."""
    patient: float = 6.0
    """The very first start, from which the others are measured, may take this many times `timeout`."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    observed: Observed = field(default_factory=Observed)
    start: Start = spawn
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of the suite; the variables of the profile come before it."""
    interrupted: bool = False
    _probe: Probe = field(default_factory=Probe)
    _watched: Watched | None = None
    _results: dict[str, CaseResult] = field(default_factory=dict)
    _mishaps: list[str] = field(default_factory=list)
    """Faults of the suite outside of a case: the findings about the agent are incomplete."""
    _chosen: frozenset[str] = frozenset()
    _broken_in: dict[str, str] = field(default_factory=dict)
    """By the case of a conversation, the case about the wire that was broken in it."""
    _missing: dict[tuple[str, int], str] = field(default_factory=dict)
    """Why a situation does not work in a version of the protocol, if that was tried."""
    _trying: dict[tuple[str, int], anyio.Lock] = field(default_factory=dict)
    _scope: anyio.CancelScope | None = None

    async def run(self, cases: Iterable[Case], progress: Progress | None = None) -> Run:
        """Run the cases, and return the results in the order of the cases."""
        chosen = list(cases)
        self._chosen = frozenset(case.id for case in chosen)
        started, began = datetime.now(UTC), time.monotonic()
        if progress is not None:
            progress.begin(len(chosen))
        try:
            with anyio.CancelScope() as self._scope:
                await self._all(chosen, progress)
        finally:
            with anyio.CancelScope(shield=True):
                await end_strays(self.token)
        for case in chosen:
            if case.id not in self._results:
                self._results[case.id] = result_of(case, Judged(Verdict.SKIP, "the run was interrupted"), 0.0)
        run = Run(
            kind="agent",
            command=tuple(self.command),
            subject=self._probe.subject,
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 3),
            cases=tuple(with_causes((self._results[case.id] for case in chosen), self._broken_in)),
            interrupted=self.interrupted,
        )
        if progress is not None:
            progress.end(run)
        return run

    def stop(self) -> None:
        """End the run now. Cases without a verdict are skipped."""
        self.interrupted = True
        if self._scope is not None:
            self._scope.cancel()

    @property
    def _able(self) -> bool:
        return not (self._probe.cannot_run or self._probe.deaf)

    def _expected(self, chosen: Sequence[Case]) -> float:
        """Return the estimated seconds of the cases: a start of the agent and a few responses for each case."""
        able = [case for case in chosen if self.profile.situations.keys() >= set(case.needs) and not case.whole_run]
        groups = {"" if self.quick else case.group for case in able if case.shared}
        starts = len(groups) + sum(not case.shared for case in able) + 1
        return (starts * (self._probe.start + _END) + len(able) * _ANSWERS * self._probe.latency) / self.jobs

    @property
    def _patience(self) -> float:
        return max(self.timeout / 2, 5 * self._probe.latency)

    @property
    def _start_patience(self) -> float:
        return max(self.timeout, 3 * self._probe.start)

    @property
    def _limit(self) -> float:
        return self._start_patience + _STEPS * self._patience

    async def _all(self, chosen: Sequence[Case], progress: Progress | None) -> None:
        self._probe = await self._find_out(watching=self.watching and any(case.needs for case in chosen))
        if progress is not None and self._able:
            progress.expect(self._expected(chosen))
        slots = anyio.Semaphore(self.jobs)
        ended = {case.id: anyio.Event() for case in chosen}

        async def tell(case: Case, judged: Judged, seconds: float) -> None:
            # One fault, one report: if the fault belongs to another case, that one reports it first.
            root = judged.root or case.after
            accused = not judged.stands and judged.verdict is not Verdict.UNREACHED and root != case.id
            if accused and root in ended:
                await ended[root].wait()
                judged = because_of(self._results[root], judged)
            elif accused and judged.root:
                judged = replace(judged, verdict=Verdict.SKIP)  # its rule could not be tried
            self._results[case.id] = result = result_of(case, judged, seconds)
            ended[case.id].set()
            if progress is not None:
                progress.finished(result)

        async def alone(case: Case, doubted: bool = False) -> None:
            if doubted and self.quick and case.after in ended:
                await ended[case.after].wait()
                if (root := self._results[case.after]).verdict in ACCUSING:
                    await tell(case, Judged(Verdict.UNREACHED, root.reason, root.id), 0.0)
                    return
            async with slots:
                if progress is not None:
                    progress.started(case.id)
                began = time.monotonic()
                judged = await self._judge(case)
            await tell(case, judged, time.monotonic() - began)

        async def together(cases: deque[Case]) -> None:
            while cases:
                doubted: Case | None = None
                try:
                    async with slots, self._open(brief=self.quick) as agent:
                        agent.brief = self.quick
                        while cases and doubted is None and not agent.ended:
                            case = doubted = cases.popleft()
                            if progress is not None:
                                progress.started(case.id)
                            began, messages = time.monotonic(), agent.begin_case()
                            judged = await self._outcome(case, agent)
                            if judged.stands:
                                doubted = None
                                self._observe(case, judged, agent, messages)
                                judged = replace(judged, transcript=agent.transcript.lines())
                                await tell(case, judged, time.monotonic() - began)
                            elif self.quick:
                                doubted = None
                                tasks.start_soon(alone, case, True)
                        agent.begin_case()
                    self._observed_in(f"the end of a process that served {case.group}", agent)
                except CannotStart:
                    doubted = doubted or cases.popleft()  # and it says so when it is judged alone
                except Exception:
                    self._mishaps.append(traceback.format_exc(limit=-3))
                if doubted is not None:
                    tasks.start_soon(alone, doubted)

        able = self._able
        own = [case for case in chosen if not case.whole_run]
        shared: dict[str, list[Case]] = {}
        async with anyio.create_task_group() as tasks:
            for version in {case.protocol for case in chosen if case.whole_run} if able else ():
                tasks.start_soon(self._tour, version, slots)
            for case in own:
                if able and case.shared and self.profile.situations.keys() >= set(case.needs):
                    shared.setdefault("" if self.quick else case.group, []).append(case)
                else:
                    tasks.start_soon(alone, case)
            for cases in shared.values():
                tasks.start_soon(together, deque(cases))
        if self.profile.situations and not self.watching and able:
            tries = anyio.Semaphore(self.jobs)

            async def find_missing(name: str, version: int) -> str:
                async with tries:
                    return await self._find_missing(name, version)

            self.observed.missing = find_missing
            self.observed.doubted = {version: self._doubted(own, version) for version in (1, 2)}
        self.observed.failed = {id for id, result in self._results.items() if result.verdict is Verdict.FAIL}
        for case in filter(lambda case: case.whole_run, chosen):
            await alone(case)

    def _open(self, *, first: bool = False, brief: bool = False) -> AbstractAsyncContextManager[Agent]:
        return open_agent(
            self.command,
            self.profile,
            patience=max(_BRIEF, 5 * self._probe.latency) if brief else self._patience,
            start_patience=self.patient * self.timeout if first else self._start_patience,
            token=self.token,
            fence_method=self._probe.fence_method,
            start=self.start,
            env=self.env,
        )

    async def _find_out(self, *, watching: bool) -> Probe:
        try:
            async with self._open(first=True) as agent:
                found = await probe(agent, short=min(2.0, self.timeout / 2))
                if watching and not (found.cannot_run or found.deaf) and agent.checker.spoken == VERSION:
                    seen = self._watched = await watch(
                        agent, tools=not self.quick, within=2 * self.timeout, limit=6 * self.timeout
                    )
                    found = replace(found, latency=max(found.latency, seen.slowest))
                    self.profile = replace(self.profile, situations=seen.situations)
            self._observed_in("the first conversation", agent)
            # Read again: its standard error at the end explains the most.
            return replace(found, stderr=agent.process.stderr)
        except CannotStart as error:
            return Probe(cannot_run=f"the command cannot be started: {error}")
        except Exception:
            self._mishaps.append(traceback.format_exc(limit=-3))
            return Probe()

    async def _judge(self, case: Case) -> Judged:
        found = self._probe
        if found.cannot_run:
            return Judged(Verdict.ERROR, found.cannot_run, stderr=found.stderr)
        first = FIRST[case.protocol]
        if found.deaf and case.id != first and not case.whole_run:
            verdict = Verdict.UNREACHED if first in self._chosen else Verdict.SKIP
            return Judged(verdict, found.deaf, root=first, stderr=found.stderr)
        if unknown := [need for need in case.needs if need not in self.profile.situations]:
            return untried(unknown, self._watched)
        if case.whole_run:
            judged = await self._outcome(case, self.observed)
            if self._mishaps and judged.verdict is Verdict.PASS:
                return Judged(Verdict.SUITE_ERROR, self._mishaps[0])
            if judged.verdict is Verdict.PASS:
                return judged
            if judged.accuses and case.id in _WIRE:
                self._broken_in = dict.fromkeys((case.id, *self.observed.affected), case.id) | self._broken_in
            return replace(judged, transcript=self.observed.exhibit, guilty=self.observed.guilty)
        agent: Agent | None = None
        judged = Judged(Verdict.SUITE_ERROR)
        try:
            async with self._open() as agent:
                judged = await self._outcome(case, agent)
        except CannotStart as error:
            return Judged(Verdict.ERROR, f"the command cannot be started: {error}")
        except Exception:  # an exception in reading or answering ends the case, and is the suite's fault
            judged = Judged(Verdict.SUITE_ERROR, traceback.format_exc(limit=-3))
        if agent is None:
            return judged
        self._observe(case, judged, agent)
        if judged.accuses and (why := await self._missing_of(case, agent.version)):
            judged = Judged(Verdict.SKIP, why)
        return replace(judged, transcript=agent.transcript.lines(), stderr=agent.process.stderr)

    def _doubted(self, cases: Sequence[Case], version: int) -> Sequence[str]:
        """Return the situations of the profile that no case needs, or that are needed only by a case which had nothing
        to judge."""
        known = [case for case in cases if case.protocol == version]
        idle = [case for case in known if self._results[case.id].verdict in (Verdict.SKIP, Verdict.NOT_APPLICABLE)]
        needed, unused = ({need for case in some for need in case.needs} for some in (known, idle))
        return [name for name in self.profile.situations if name not in needed or name in unused]

    async def _missing_of(self, case: Case, version: int) -> str:
        """Return why a situation that the case needs does not work."""
        for name in case.needs:
            if why := await self._find_missing(name, version):
                return why
        return ""

    async def _find_missing(self, name: str, version: int) -> str:
        """Return why a situation does not work. Each situation is tried once, alone."""
        async with self._trying.setdefault((name, version), anyio.Lock()):
            if (name, version) not in self._missing:
                self._missing[name, version] = await self._try(name, version)
        return self._missing[name, version]

    async def _try(self, name: str, version: int) -> str:
        try:
            async with self._open() as agent:
                return await missing(agent, name, version)
        except CannotStart:
            return ""  # each case reports it
        except Exception:
            self._mishaps.append(traceback.format_exc(limit=-3))
            return ""

    async def _outcome(self, case: Case, subject: Agent | Observed) -> Judged:
        try:
            # Cases over all conversations end by themselves.
            with anyio.move_on_after(self._limit if isinstance(subject, Agent) else None) as scope:
                try:
                    await case.function(subject)
                except NoAnswer as missing:
                    if isinstance(subject, Agent) and await subject.comes_late(missing):
                        return Judged(Verdict.SLOW, f"{missing.what} came later than the suite waits")
                    raise
        except Outcome as outcome:
            guilty = ""
            if outcome.at is not None and isinstance(subject, Agent):
                guilty = subject.received[outcome.at].line[:500].decode("utf-8", "backslashreplace")
            root = outcome.root or self._root_of_silence(subject)
            return Judged(case.judged(outcome), outcome.reason, root, guilty=guilty)
        except Exception:  # an exception in a case is the suite's fault, unless a malformed message caused it
            found = subject.violations if isinstance(subject, Agent) else ()
            for violation in found:
                if violation.rule in _SHAPES:
                    root = _SHAPES[violation.rule][case.protocol - 1]
                    return Judged(Verdict.UNREACHED, f"{violation.what}: {violation.line:.200}", root)
            return Judged(Verdict.SUITE_ERROR, traceback.format_exc(limit=-3))
        if scope.cancelled_caught:
            what = (isinstance(subject, Agent) and subject.waiting) or "its end"
            return Judged(Verdict.SLOW, f"the case took more than {self._limit:.3g} s; it awaited {what}")
        return Judged(Verdict.PASS)

    def _root_of_silence(self, subject: Agent | Observed) -> str:
        """Return the case about requests of extensions, if the agent answers no such request, and this case sends
        one."""
        if self._probe.fence_method == FENCE or EXTENSION not in self._chosen or not isinstance(subject, Agent):
            return ""
        return EXTENSION if any(method.startswith("_") for method in subject.checker.awaited) else ""

    def _observe(self, case: Case, judged: Judged, agent: Agent, since: int = 0) -> None:
        # Only the probe of a recommended feature reports the effects of that probe.
        blamed = case.level is not Level.MUST and judged.verdict in (Verdict.WARN, Verdict.FAIL)
        self._observed_in(case.id, agent, since, blamed=blamed)

    def _observed_in(self, name: str, agent: Agent, since: int = 0, *, blamed: bool = False) -> None:
        if agent.version != VERSION and agent.checker.spoken == VERSION:
            return  # an agent of version 1 is judged by the cases of that version
        violations = list(agent.violations)
        if agent.ended:
            violations += agent.checker.leftovers()
        if agent.unfinished:
            shown = agent.unfinished[:500].decode("utf-8", "backslashreplace")
            violations.append(Violation("newline", "the last line is not ended by a newline", shown))
        lines = agent.transcript.lines() if violations else ()
        seen = len(agent.received) - since
        found = () if blamed else violations
        agreed = agent.checker.spoken == agent.version
        self.observed.conversations.append(Conduct(name, seen, found, lines, agent.version, agreed))

    async def _tour(self, version: int, slots: anyio.Semaphore) -> None:
        agent: Agent | None = None
        try:
            async with slots, self._open() as agent:
                with anyio.move_on_after(3 * self._limit):
                    await (tour if version == VERSION else tour_of_version_2)(agent)
                # Without a signal, which could cut its last line.
                agent.process.end_input()
                with suppress(NoAnswer):
                    await agent.eof(within=_BRIEF)
        except CannotStart:
            return  # each case reports it
        except Exception:
            self._mishaps.append(traceback.format_exc(limit=-3))
        if agent is not None:
            self._observed_in("the tour of all situations", agent)
