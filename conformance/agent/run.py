"""Runs cases: one fresh process each, a few at a time, each bounded; makes the `Run` that reports read.

Before the cases, a *probe* finds out whether the command can be run at all, so that one broken command gives one clear
reason instead of a hundred time-outs. Cases of the whole run are judged last, over all conversations and a *tour*: one
conversation that goes through every situation of the profile. It shows nothing itself: see `Progress`.
"""

from __future__ import annotations

import time
import traceback
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio

from conformance.core.case import Case, Outcome, Verdict
from conformance.core.process import CannotStart, Start, end_strays, spawn
from conformance.core.progress import Progress
from conformance.core.result import CaseResult, Line, Run, Subject
from conformance.core.violation import Violation

from .exchange import Ended, NoAnswer
from .observed import Conduct, Observed
from .profile import Profile
from .subject import FENCE, Agent, open_agent

FIRST = "initialize/answers"
"""The case that stands for all others where `initialize` is never answered."""


@dataclass(frozen=True, slots=True)
class _Probe:
    subject: Subject | None = None
    fence_method: str = FENCE
    cannot_run: str = ""
    """Why no case can be run."""
    deaf: str = ""
    """Why only `FIRST` is worth running."""
    stderr: str = ""


@dataclass
class AgentRun:
    """One run of the suite over an agent."""

    command: Sequence[str]
    profile: Profile = field(default_factory=Profile)
    timeout: float = 10.0
    """Seconds for a whole case."""
    jobs: int = 3
    """Cases at a time."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    observed: Observed = field(default_factory=Observed)
    start: Start = spawn

    async def run(self, cases: Iterable[Case], progress: Progress | None = None) -> Run:
        """Run the cases; the results are in their order, whatever ran beside what."""
        chosen = list(cases)
        started, began = datetime.now(UTC), time.monotonic()
        if progress is not None:
            progress.begin(len(chosen))
        results: dict[str, CaseResult] = {}
        try:
            probe = await self._probe()
            slots = anyio.Semaphore(self.jobs)

            async def one(case: Case) -> None:
                async with slots:
                    if progress is not None:
                        progress.started(case.id)
                    results[case.id] = result = await self._case(case, probe)
                    if progress is not None:
                        progress.finished(result)

            own = [case for case in chosen if not case.whole_run]
            whole = [case for case in chosen if case.whole_run]
            async with anyio.create_task_group() as tasks:
                if whole and not (probe.cannot_run or probe.deaf):
                    tasks.start_soon(self._tour, probe, slots)
                for case in own:
                    tasks.start_soon(one, case)
            for case in whole:
                await one(case)
        finally:
            with anyio.CancelScope(shield=True):
                await end_strays(self.token)
        run = Run(
            kind="agent",
            command=tuple(self.command),
            subject=probe.subject,
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 3),
            cases=tuple(results[case.id] for case in chosen),
        )
        if progress is not None:
            progress.end(run)
        return run

    def _open(self, probe: _Probe):
        return open_agent(
            self.command,
            self.profile,
            patience=self.timeout / 2,
            token=self.token,
            fence_method=probe.fence_method,
            start=self.start,
        )

    async def _probe(self) -> _Probe:
        """Whether it starts and answers, who it is, and which request can serve as a fence."""
        try:
            async with self._open(_Probe()) as agent:
                probe = await self._ask(agent)
            self._observe("the first conversation", agent)
            # Read once more: what it wrote to standard error while it ended explains the most.
            return _Probe(probe.subject, probe.fence_method, probe.cannot_run, probe.deaf, agent.process.stderr)
        except CannotStart as error:
            return _Probe(cannot_run=f"the command cannot be started: {error}")

    async def _ask(self, agent: Agent) -> _Probe:
        try:
            pending = await agent.ask_initialize()
            result = (
                await agent.wait_for(lambda: next(iter(pending.answers), None), "initialize", within=self.timeout)
            ).get("result")
        except Ended as ended:
            if not agent.received and not agent.unfinished:
                return _Probe(cannot_run=f"it wrote no message: {agent.ended or ended.reason}")
            return _Probe(deaf=f"initialize is not answered: {agent.ended}")
        except NoAnswer:
            return _Probe(deaf=f"initialize is not answered within {self.timeout:g} s")
        subject: Subject | None = None
        if isinstance(result, dict):
            info, version = result.get("agentInfo"), result.get("protocolVersion")
            name, own_version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)
            subject = {
                "name": name if isinstance(name, str) else None,
                "version": own_version if isinstance(own_version, str) else None,
                "protocolVersion": version if isinstance(version, int) else None,
            }
        try:
            pending = await agent.request(FENCE, {})
            await pending.answer(within=min(2.0, self.timeout / 2))
        except Outcome:
            return _Probe(subject, fence_method="session/new")
        return _Probe(subject)

    async def _case(self, case: Case, probe: _Probe) -> CaseResult:
        began = time.monotonic()
        verdict, reason, transcript, stderr = await self._judge(case, probe)
        return CaseResult(
            id=case.id,
            group=case.group,
            title=case.title,
            level=case.level,
            section=case.section,
            source=case.source,
            behaviours=case.behaviours,
            verdict=verdict,
            reason=" ".join(reason.split()),
            seconds=round(time.monotonic() - began, 3),
            transcript=transcript,
            stderr=stderr,
        )

    async def _judge(self, case: Case, probe: _Probe) -> tuple[Verdict, str, Sequence[Line], str]:
        if probe.cannot_run:
            return Verdict.ERROR, probe.cannot_run, (), probe.stderr
        if probe.deaf and case.id != FIRST and not case.whole_run:
            return Verdict.SKIP, probe.deaf, (), probe.stderr
        if missing := [need for need in case.needs if need not in self.profile.situations]:
            return Verdict.SKIP, f"the profile has no situation {' and no '.join(map(repr, missing))}", (), ""
        if case.whole_run:
            verdict, reason = await self._outcome(case, self.observed)
            return verdict, reason, self.observed.exhibit if verdict is not Verdict.PASS else (), ""
        try:
            async with self._open(probe) as agent:
                verdict, reason = await self._outcome(case, agent)
        except CannotStart as error:
            return Verdict.ERROR, f"the command cannot be started: {error}", (), ""
        self._observe(case.id, agent)
        return verdict, reason, agent.transcript.lines(), agent.process.stderr

    async def _outcome(self, case: Case, subject: Agent | Observed) -> tuple[Verdict, str]:
        try:
            with anyio.move_on_after(self.timeout) as scope:
                await case.function(subject)
        except Outcome as outcome:
            return (case.broken() if outcome.verdict is Verdict.FAIL else outcome.verdict), outcome.reason
        except Exception:  # a case that is wrong is the suite's fault, never the subject's
            return Verdict.ERROR, "the suite is at fault: " + traceback.format_exc(limit=-3)
        if scope.cancelled_caught:
            what = (isinstance(subject, Agent) and subject.waiting) or "its end"
            return case.broken(), f"the case took more than {self.timeout:g} s; it awaited {what}"
        return Verdict.PASS, ""

    def _observe(self, name: str, agent: Agent) -> None:
        violations = [*agent.violations, *agent.checker.leftovers()]
        if agent.unfinished:
            shown = agent.unfinished[:500].decode("utf-8", "backslashreplace")
            violations.append(Violation("newline", "the last line is not ended by a newline", shown))
        self.observed.conversations.append(
            Conduct(name, len(agent.received), violations, agent.transcript.lines() if violations else ())
        )

    async def _tour(self, probe: _Probe, slots: anyio.Semaphore) -> None:
        async with slots, self._open(probe) as agent:
            with anyio.move_on_after(3 * self.timeout):
                await _tour(agent)
        self._observe("the tour of all situations", agent)


async def _tour(agent: Agent) -> None:
    """Go through everything the agent is known to do. Nothing is judged here, so what goes wrong only ends a part."""
    for situation in agent.profile.situations or ("",):
        # What one situation leaves unanswered is answered in the next.
        agent.let_go()
        try:
            session = await agent.session()
            if not situation:
                continue
            prompt = await agent.prompt(session, situation)
            if situation in ("hang", "stubborn", "nested"):
                await agent.said_something(prompt) if situation != "nested" else await agent.next_request()
                await agent.cancel(session)
            await prompt.answer()
        except Ended:
            return
        except Outcome:
            continue
    if agent.can("sessionCapabilities.list"):
        try:
            await (await agent.request("session/list", {})).answer()
        except Outcome:
            pass
    try:
        await agent.settle()  # what it says last is heard too
    except Outcome:
        return
