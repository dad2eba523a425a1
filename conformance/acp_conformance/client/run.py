"""Runs cases, a few at a time. The client is started again for each case, and the time of each case is limited."""

from __future__ import annotations

import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import anyio

from acp_conformance.core.case import Case, Outcome
from acp_conformance.core.causes import with_causes
from acp_conformance.core.process import CannotStart
from acp_conformance.core.progress import Progress
from acp_conformance.core.result import CaseResult, Run, Verdict, clean

from .checks import Seen
from .conversation import Ended, Silent
from .stage import NotStarted, Setting, Stage, set_up
from .subject import Client

JOBS = 2
_ACCUSING = (Verdict.FAIL, Verdict.WARN, Verdict.SLOW)
_STEPS = 6
"""The number of full time-outs after which a case is ended."""

_SHAPES = {
    "request": "schema/params",
    "update": "schema/params",
    "result": "schema/results",
    "error-object": "envelope/error",
    "kind": "envelope/kind",
    "v2-request": "v2-schema/params",
    "v2-result": "v2-schema/results",
    "v2-error-object": "v2-envelope/error",
    "v2-kind": "v2-envelope/kind",
}
"""The case about messages of the wrong shape: a case that meets one can only end."""


class Stop:
    """Ends a run before all cases were tried."""

    def __init__(self) -> None:
        self.pulled = False
        self.scope: anyio.CancelScope | None = None

    def pull(self) -> None:
        """End the run now. Cases without a verdict are skipped."""
        self.pulled = True
        if self.scope is not None:
            self.scope.cancel()


async def run(
    setting: Setting,
    cases: Sequence[Case],
    progress: Progress | None = None,
    *,
    jobs: int = JOBS,
    stop: Stop | None = None,
) -> Run:
    """Run `cases` against the client of `setting`, `jobs` at a time, and return the results in the order of the cases.

    If the client twice does not start its agent for the first case, the other cases are not run.
    """
    stop = stop or Stop()
    began, started = time.monotonic(), datetime.now(UTC)
    seen = Seen()
    results: dict[str, CaseResult] = {}
    ended = {case.id: anyio.Event() for case in cases if not case.whole_run}
    limiter = anyio.Semaphore(jobs)

    if progress is not None:
        progress.begin(len(cases))

    async def judge(case: Case) -> CaseResult:
        async with limiter:
            if progress is not None:
                progress.started(case.id)
            return await run_case(setting, case, seen)

    async def judge_and_tell(case: Case) -> None:
        await tell(case, await judge(case))

    async def tell(case: Case, result: CaseResult) -> None:
        # One fault, one report: the case without which this one proves nothing reports first.
        if result.verdict in _ACCUSING and case.after in ended:
            await ended[case.after].wait()
            if results[case.after].verdict in _ACCUSING:
                result = replace(result, verdict=Verdict.UNREACHED, root=case.after)
        add(result)

    def add(result: CaseResult) -> None:
        results[result.id] = result
        if result.id in ended:
            ended[result.id].set()
        if progress is not None:
            progress.finished(result)

    alone = [case for case in cases if not case.whole_run]
    ready = [case for case in alone if not _missing(setting, case)]
    for case in alone:
        if missing := _missing(setting, case):
            add(case.result(Verdict.SKIP, missing))
    with anyio.CancelScope() as stop.scope:
        if ready:
            first = await judge(ready[0])
            if first.verdict is Verdict.ERROR:
                # Some clients set themselves up when they are first started, and end or are slow: once is not enough.
                first = await judge(ready[0])
            if first.verdict is Verdict.ERROR:
                add(first)
                for case in ready[1:]:
                    add(case.result(Verdict.ERROR, first.reason))
            else:
                async with anyio.create_task_group() as group:
                    group.start_soon(tell, ready[0], first)
                    for case in ready[1:]:
                        group.start_soon(judge_and_tell, case)
        for case in cases:
            if case.whole_run:
                add(await _judge_all(case, seen))
    for case in cases:
        if case.id not in results:
            results[case.id] = case.result(Verdict.SKIP, "the run was interrupted")
    result = Run(
        kind="client",
        command=tuple(setting.command),
        subject=seen.subject,
        started=started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        seconds=round(time.monotonic() - began, 3),
        cases=tuple(with_causes(results[case.id] for case in cases)),
        interrupted=stop.pulled,
    )
    if progress is not None:
        progress.end(result)
    return result


async def run_case(setting: Setting, case: Case, seen: Seen) -> CaseResult:
    """Run one case. An exception in the case becomes its verdict."""
    began = time.monotonic()
    stage: Stage | None = None
    verdict, reason, root = Verdict.SUITE_ERROR, "", ""
    pace = setting.pace
    limit = 2 * pace.starting + _STEPS * pace.patience
    try:
        with anyio.move_on_after(limit) as scope:
            async with set_up(setting, case, seen) as stage:
                verdict, reason, root = await _play(case, stage, seen)
        if scope.cancelled_caught:
            verdict, reason = Verdict.SLOW, f"the case did not come to its end within {limit:.3g} s"
    except Exception as error:  # the suite's own faults are reported, and end no run
        verdict, reason = Verdict.SUITE_ERROR, traceback.format_exc(limit=-3)
        if isinstance(cause := _only(error), CannotStart):
            verdict, reason = Verdict.ERROR, str(cause)
    lines = () if stage is None else stage.transcript.lines()
    printed = "" if stage is None else stage.program.printed
    return case.result(verdict, reason, time.monotonic() - began, lines, root=root, stderr=clean(printed))


async def _play(case: Case, stage: Stage, seen: Seen) -> tuple[Verdict, str, str]:
    """Return the verdict, the reason, and the case that represents this case if its rule was not reached."""
    reason = ""
    while True:
        try:
            conversation = await stage.agent()
        except NotStarted as error:
            return (Verdict.SKIP, reason, "") if reason else (Verdict.ERROR, str(error), "")
        client = Client(stage, conversation)
        try:
            await case.function(client)
            return Verdict.PASS, "", ""
        except Outcome as outcome:
            return case.judged(outcome), outcome.reason, ""
        except Silent as missing:
            if not client.trying:
                return Verdict.SKIP, str(missing), ""
            if await conversation.comes_late(missing):
                return Verdict.SLOW, f"{missing.what} came later than the suite waits", ""
            return case.broken(), str(missing), ""
        except Ended as error:
            if client.trying:
                return case.broken(), _with_status(str(error), stage), ""
            # Some clients start an agent to read its capabilities, end it, and start it again.
            reason = str(error)
            await conversation.exit(0)
        except Exception:
            # An exception in a case is the suite's fault, unless a malformed message caused it.
            if wrong := seen.wrong_in(case.id, _SHAPES):
                rule, finding = wrong
                return Verdict.UNREACHED, f"{finding.what}: {finding.line:.200}", _SHAPES[rule]
            raise


def _with_status(reason: str, stage: Stage) -> str:
    status = stage.program.status
    return reason if status is None else f"{reason}; the client ended with status {status}"


async def _judge_all(case: Case, seen: Seen) -> CaseResult:
    if not seen.messages:
        return case.result(Verdict.SKIP, "the client has sent nothing")
    call: Callable[[Seen], Awaitable[None]] = case.function
    try:
        await call(seen)
    except Outcome as outcome:
        return case.result(case.judged(outcome), outcome.reason)
    except Exception:
        return case.result(Verdict.SUITE_ERROR, traceback.format_exc(limit=-3))
    return case.result(Verdict.PASS, "")


def _missing(setting: Setting, case: Case) -> str:
    names = [name for name in case.needs if name not in setting.profile.situations]
    return f"the profile has no [situations.{names[0]}]" if names else ""


def _only(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
