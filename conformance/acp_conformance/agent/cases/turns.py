"""Turns that are not cancelled: their ends, their updates, and concurrent work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Update
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail, not_applicable

SOURCE = "ACP v1"
STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
ENDED = ("completed", "failed")
TRACES = ("Traceback (most recent call last)", "\\n    at ", "stack backtrace:", "goroutine ")


def stop_reason(result: object) -> object:
    """Return the `stopReason` of a prompt's result; None if it is missing."""
    return result.get("stopReason") if isinstance(result, dict) else None


def tool_states(updates: list[Update]) -> list[tuple[str, object]]:
    """Return the id and status of each update of a tool call that has a status, in order."""
    reports = [update.body for update in updates if update.kind in ("tool_call", "tool_call_update")]
    return [(str(body.get("toolCallId")), body["status"]) for body in reports if isinstance(body.get("status"), str)]


@case(
    "turns/stop-reason",
    level=MUST,
    source=SOURCE,
    section="Prompt Turn, Stop Reasons",
    needs="quick",
    shared=True,
)
async def gives_a_stop_reason(agent: Agent) -> None:
    """A turn is answered with a stop reason of the specification."""
    prompt = await agent.prompt(await agent.session(), "quick")
    reason = stop_reason(await prompt.result())
    if reason not in STOP_REASONS:
        fail(f"the stop reason is {reason!r}; there are {', '.join(STOP_REASONS)}")


@case(
    "turns/not-cancelled-by-itself",
    level=MUST,
    source=SOURCE,
    section="Prompt Turn, Stop Reasons",
    needs="quick",
    shared=True,
)
async def is_not_cancelled_by_itself(agent: Agent) -> None:
    """A turn that the client did not cancel does not end as cancelled."""
    prompt = await agent.prompt(await agent.session(), "quick")
    if stop_reason(await prompt.result()) == "cancelled":
        fail("the stop reason is 'cancelled', and the client has not cancelled")


@case("turns/answered-once", level=MUST, source="JSON-RPC 2.0", section="5", needs="quick")
async def is_answered_once(agent: Agent) -> None:
    """A prompt is answered exactly once."""
    prompt = await agent.prompt(await agent.session(), "quick")
    await prompt.answer()
    await agent.settle()
    if len(prompt.answers) != 1:
        fail(f"{len(prompt.answers)} answers to one prompt")


@case(
    "turns/second-prompt",
    level=CHOICE,
    source=SOURCE,
    section="Prompt Turn",
    needs=["hang", "quick"],
)
async def second_prompt(agent: Agent) -> None:
    """The specification leaves open how a prompt for a session with a running turn is answered."""
    session = await agent.session()
    first = await agent.prompt(session, "hang")
    await agent.said_something(first)
    second = await agent.prompt(session, "quick")
    await agent.fence()
    if first.answers:
        choice("it ends the turn that runs")
    await agent.cancel(session)
    await first.answer()
    answer = await second.answer()
    if "error" in answer:
        choice(f"it is refused with the code {code_of(answer)}")
    before = (second.position or 0) < (first.position or 0)
    choice("it runs beside the other" if before else "it is held until the turn has ended")


@case(
    "turns/failure-answered",
    level=MUST,
    source="JSON-RPC 2.0",
    section="5",
    needs="fails",
    shared=True,
)
async def answers_a_turn_that_fails(agent: Agent) -> None:
    """A turn that fails is answered."""
    prompt = await agent.prompt(await agent.session(), "fails")
    await prompt.answer()


@case(
    "turns/session-survives-failure",
    level=SHOULD,
    source=SOURCE,
    section="Prompt Turn",
    needs=["fails", "quick"],
    shared=True,
)
async def session_survives_a_failure(agent: Agent) -> None:
    """After a failed turn the session accepts the next prompt."""
    session = await agent.session()
    await (await agent.prompt(session, "fails")).answer()
    await (await agent.prompt(session, "quick")).result()


@case(
    "turns/failure-keeps-its-secrets",
    level=CHOICE,
    source="JSON-RPC 2.0",
    section="5.1",
    needs="fails",
    shared=True,
)
async def failure_tells_no_trace(agent: Agent) -> None:
    """The error of a failed turn may disclose its place in the agent's code."""
    prompt = await agent.prompt(await agent.session(), "fails")
    answer = await prompt.answer()
    text = json.dumps(answer.get("error"))
    if trace := next((trace for trace in TRACES if trace in text), None):
        choice(f"the error has a stack trace in it ({trace.strip()})")


@case(
    "turns/tool-call-ids-differ",
    level=MUST,
    source=SOURCE,
    section="Tool Calls, Creating",
    needs="tool",
    shared=True,
)
async def tool_call_ids_differ(agent: Agent) -> None:
    """The id of a tool call is unique within its session."""
    session = await agent.session()
    turns: list[set[str]] = []
    for _ in range(2):
        since = len(agent.received)
        await (await agent.prompt(session, "tool")).answer()
        calls = [update.body for update in agent.spoken(session, since=since) if update.kind == "tool_call"]
        turns.append({str(body.get("toolCallId")) for body in calls})
    if not turns[0] or not turns[1]:
        not_applicable("not every turn reported a tool call")
    if both := turns[0] & turns[1]:
        fail(f"two turns have a tool call of the id {min(both)!r}")


@case(
    "turns/tool-call-ends",
    level=SHOULD,
    source=SOURCE,
    section="Prompt Turn, 5. Tool Invocation and Status Reporting",
    needs="tool",
    shared=True,
)
async def tool_calls_end(agent: Agent) -> None:
    """A tool call that ran is reported as completed or failed before its turn ends."""
    session = await agent.session()
    prompt = await agent.prompt(session, "tool")
    await prompt.answer()
    before = [update for update in agent.spoken(session) if update.position < (prompt.position or 0)]
    last = dict(tool_states(before))
    if not last:
        not_applicable("the turn reported no status of a tool call")
    for id, status in last.items():
        if status == "in_progress":
            fail(f"the turn ended, and its tool call {id!r} is still in progress")


@case(
    "turns/tool-call-stays-ended", level=SHOULD, source=SOURCE, section="Tool Calls, Status", needs="tool", shared=True
)
async def tool_calls_stay_ended(agent: Agent) -> None:
    """The status of a completed or failed tool call does not change to pending or in progress."""
    session = await agent.session()
    await (await agent.prompt(session, "tool")).answer()
    ended: dict[str, object] = {}
    for id, status in tool_states(agent.spoken(session)):
        if id in ended and status not in ENDED:
            fail(f"the tool call {id!r} is {status} after it was {ended[id]}")
        if status in ENDED:
            ended[id] = status
    if not ended:
        not_applicable("no tool call ended")


@case(
    "turns/plan",
    level=MUST,
    source=SOURCE,
    section="Agent Plan, Updating Plans",
    needs="plan",
    shared=True,
)
async def plans_are_whole(agent: Agent) -> None:
    """In each update of a plan, every step has its text, priority and status."""
    session = await agent.session()
    await (await agent.prompt(session, "plan")).answer()
    plans = [update.body for update in agent.spoken(session) if update.kind == "plan"]
    if not plans:
        not_applicable("the turn reported no plan")
    for plan in plans:
        entries = plan.get("entries")
        if not isinstance(entries, list):
            fail(f"the entries of a plan are {entries!r:.100}")
        for entry in entries:
            missing = {"content", "priority", "status"} - (entry.keys() if isinstance(entry, dict) else set())
            if missing:
                fail(f"a step without {' and '.join(sorted(missing))}: {entry!r:.100}")


@case("turns/plan-complete", level=MUST, source=SOURCE, section="Agent Plan, Updating Plans", needs="plan", shared=True)
async def plans_are_complete(agent: Agent) -> None:
    """Each update of a plan has all steps of the plan, including unchanged steps."""
    session = await agent.session()
    await (await agent.prompt(session, "plan")).answer()
    plans = [_steps(update.body) for update in agent.spoken(session) if update.kind == "plan"]
    if len(plans) < 2:
        not_applicable("the turn reported no plan twice")
    for number, steps in enumerate(plans):
        before, after = set().union(*plans[:number]), set().union(*plans[number + 1 :])
        # A step that is dropped for good is a changed plan; a step that comes back was omitted.
        if left_out := (before & after) - steps:
            fail(f"update {number + 1} of the plan lacks the step {min(left_out)!r:.100}, which comes again later")


def _steps(plan: Mapping[str, Any]) -> set[str]:
    entries = plan.get("entries")
    listed = entries if isinstance(entries, list) else []
    return {str(entry.get("content")) for entry in listed if isinstance(entry, dict)}
