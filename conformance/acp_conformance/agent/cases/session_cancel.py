"""`session/cancel`, which stops a turn, so that its prompt is answered `cancelled`, and affects nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping

from acp_conformance.agent.cases.turns import stop_reason
from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Pending, prompt_params
from acp_conformance.core.case import CHOICE, MUST, choice, fail

SOURCE = "ACP v1"
SECTION = "Prompt Turn, Cancellation"
NOTIFICATION = ("JSON-RPC 2.0", "4.1 Notification")


async def at_once(agent: Agent, *messages: Mapping[str, object]) -> None:
    """Send messages in one write, so that an agent probably reads them together."""
    await agent.raw(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))


async def running(agent: Agent, session: str, situation: str = "hang") -> Pending:
    """Return a prompt whose turn is running."""
    prompt = await agent.prompt(session, situation)
    await agent.said_something(prompt)
    return prompt


async def cancelled(agent: Agent, situation: str = "hang") -> tuple[str, Pending]:
    """Return the session and the prompt of a turn that was cancelled while it ran."""
    session = await agent.session()
    prompt = await running(agent, session, situation)
    await agent.cancel(session)
    return session, prompt


async def ends_cancelled(prompt: Pending) -> None:
    """Fail the case unless the prompt is answered with the stop reason `cancelled`."""
    reason = stop_reason(await prompt.result())
    if reason != "cancelled":
        fail(f"the stop reason is {reason!r} instead of 'cancelled'", at=prompt.position)


async def is_answered_once(agent: Agent, prompt: Pending) -> None:
    """Fail the case if the prompt, which has a response, gets another response."""
    await agent.settle()
    if len(prompt.answers) != 1:
        fail(f"{len(prompt.answers)} answers to one prompt")


async def says_no_more(agent: Agent, session: str, prompt: Pending) -> None:
    """Fail the case if the turn sends an update after its response."""
    await agent.settle()
    if late := agent.spoken(session, since=prompt.position or 0):
        fail(f"{len(late)} updates after the answer, the first is {late[0].kind}", at=late[0].position)


async def no_answer_to_a_notification(agent: Agent) -> None:
    """Fail the case if there is a response with the id null, or if such a response still comes."""
    await agent.settle()
    if answers := agent.null_answers():
        fail(f"a notification was answered: {str(answers[0])[:200]}")


@case(
    "session-cancel/answers-cancelled",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
    shared=True,
)
async def answers_cancelled(agent: Agent) -> None:
    """A cancelled turn is answered with the stop reason `cancelled`."""
    _, prompt = await cancelled(agent)
    await ends_cancelled(prompt)


@case("session-cancel/no-error", level=MUST, source=SOURCE, section=SECTION, needs="hang", shared=True)
async def is_no_error(agent: Agent) -> None:
    """A cancelled turn is not answered with an error."""
    _, prompt = await cancelled(agent)
    await prompt.result()


@case("session-cancel/answers-once", level=MUST, source="JSON-RPC 2.0", section="5", needs="hang")
async def answers_once(agent: Agent) -> None:
    """A cancelled turn is answered exactly once."""
    _, prompt = await cancelled(agent)
    await prompt.answer()
    await is_answered_once(agent, prompt)


@case(
    "session-cancel/nothing-after-the-answer",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
)
async def says_nothing_after_the_answer(agent: Agent) -> None:
    """All updates of a cancelled turn come before its response."""
    session, prompt = await cancelled(agent)
    await prompt.answer()
    await agent.pause()  # EOF may keep an agent from sending its last updates
    await says_no_more(agent, session, prompt)


@case(
    "session-cancel/nothing-after-a-slow-stop",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="stubborn",
)
async def says_nothing_after_a_slow_stop(agent: Agent) -> None:
    """A cancelled turn that stops slowly sends no update after its response."""
    session, prompt = await cancelled(agent, "stubborn")
    await prompt.answer()
    await says_no_more(agent, session, prompt)


@case("session-cancel/slow-stop", level=MUST, source=SOURCE, section=SECTION, needs="stubborn")
async def a_slow_stop_is_cancelled_too(agent: Agent) -> None:
    """A cancelled turn that stops slowly is answered `cancelled`."""
    _, prompt = await cancelled(agent, "stubborn")
    await ends_cancelled(prompt)


@case(
    "session-cancel/is-not-answered",
    level=MUST,
    source=NOTIFICATION[0],
    section=NOTIFICATION[1],
    needs="hang",
)
async def is_not_answered(agent: Agent) -> None:
    """The notification session/cancel itself is not answered."""
    _, prompt = await cancelled(agent)
    await prompt.answer()
    await agent.fence()
    await no_answer_to_a_notification(agent)


@case(
    "session-cancel/other-session",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
)
async def leaves_other_sessions(agent: Agent) -> None:
    """The turns of other sessions continue."""
    session, other = await agent.session(), await agent.session()
    prompt, beside = await running(agent, session), await running(agent, other)
    await agent.cancel(session)
    await prompt.answer()
    await agent.fence()
    if beside.answers:
        fail(f"the turn of another session was answered as well: {str(beside.answers[0])[:200]}", at=beside.position)
    await agent.cancel(other)
    await beside.answer()


@case(
    "session-cancel/session-lives",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs=["hang", "quick"],
    shared=True,
)
async def session_lives(agent: Agent) -> None:
    """After a cancelled turn the session accepts the next prompt."""
    session, prompt = await cancelled(agent)
    await prompt.answer()
    after = await agent.prompt(session, "quick")
    if stop_reason(await after.result()) == "cancelled":
        fail("the next turn ended as cancelled, too")


@case(
    "session-cancel/again",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
    shared=True,
)
async def cancels_again(agent: Agent) -> None:
    """After a cancelled turn, a later turn of the session can be cancelled."""
    session = await agent.session()
    first = await running(agent, session)
    await agent.cancel(session)
    await first.answer()
    second = await running(agent, session)
    await agent.cancel(session)
    await ends_cancelled(second)


@case(
    "session-cancel/right-behind",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
    shared=True,
)
async def takes_effect_right_behind_the_prompt(agent: Agent) -> None:
    """A cancel that arrives together with its prompt takes effect."""
    session = await agent.session()
    id = agent.new_id()
    prompt = agent.expect(id, "session/prompt")
    params = prompt_params(session, agent.text_of("hang"))
    await at_once(
        agent,
        {"id": id, "method": "session/prompt", "params": params},
        {"method": "session/cancel", "params": {"sessionId": session}},
    )
    await ends_cancelled(prompt)


@case("session-cancel/twice", level=MUST, source=SOURCE, section=SECTION, needs="hang")
async def twice_is_once(agent: Agent) -> None:
    """A turn that is cancelled twice is answered once."""
    session = await agent.session()
    prompt = await running(agent, session)
    await at_once(agent, *2 * [{"method": "session/cancel", "params": {"sessionId": session}}])
    await prompt.answer()
    await is_answered_once(agent, prompt)


@case(
    "session-cancel/twice-while-stopping",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="stubborn",
)
async def twice_while_stopping(agent: Agent) -> None:
    """A turn that is cancelled again while it stops is answered `cancelled`."""
    session, prompt = await cancelled(agent, "stubborn")
    await agent.cancel(session)
    await ends_cancelled(prompt)


@case(
    "session-cancel/too-late",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs=["quick", "hang"],
    shared=True,
)
async def too_late_is_void(agent: Agent) -> None:
    """A cancel after the end of a turn does not cancel the next turn."""
    session = await agent.session()
    await (await agent.prompt(session, "quick")).answer()
    await agent.cancel(session)
    prompt = await running(agent, session)
    await agent.fence()
    if prompt.answers:
        fail(f"the next turn was ended by an earlier cancel: {str(prompt.answers[0])[:200]}", at=prompt.position)


@case(
    "session-cancel/next-prompt-at-once",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
    shared=True,
)
async def spares_the_next_prompt(agent: Agent) -> None:
    """A cancel does not affect a prompt that directly follows the cancel."""
    session = await agent.session()
    first = await running(agent, session)
    await agent.notify("session/cancel", {"sessionId": session})
    second = await agent.prompt(session, "hang")
    await first.answer()
    await agent.wait_for(
        lambda: second.answers or agent.spoken(session, since=second.since) or None,
        "the next turn, or its refusal",
    )
    await agent.fence()
    if second.answers and "error" not in second.answers[0]:
        fail(f"the cancel ended the prompt after it: {str(second.answers[0])[:200]}", at=second.position)


@case(
    "session-cancel/no-turn",
    level=MUST,
    source=NOTIFICATION[0],
    section=NOTIFICATION[1],
)
async def ignores_an_idle_session(agent: Agent) -> None:
    """A cancel for a session without a turn is ignored."""
    session = await agent.session()
    await agent.notify("session/cancel", {"sessionId": session})
    await agent.fence()
    await no_answer_to_a_notification(agent)


@case(
    "session-cancel/bad-params",
    level=MUST,
    source=NOTIFICATION[0],
    section=NOTIFICATION[1],
)
async def ignores_bad_params(agent: Agent) -> None:
    """A cancel with invalid parameters is not answered and ends nothing."""
    await agent.initialize()
    for params in ({}, {"sessionId": 7}, {"sessionId": None}, ["session"]):
        await agent.notify("session/cancel", params)
    await agent.notify("session/cancel")
    await agent.fence()
    await no_answer_to_a_notification(agent)


@case("session-cancel/as-request", level=CHOICE, source=SOURCE, section=SECTION, needs="hang")
async def as_a_request(agent: Agent) -> None:
    """The specification leaves open the effect of session/cancel that is sent as a request."""
    session = await agent.session()
    prompt = await running(agent, session)
    wrong = await agent.request("session/cancel", {"sessionId": session})
    answer = await wrong.answer()
    await agent.fence()
    how = f"refused with the code {code_of(answer)}" if "error" in answer else "answered"
    choice(f"it is {how}, and the turn {'is cancelled' if prompt.answers else 'runs on'}")
