"""`$/cancel_request` without an effect, because the request has ended or never existed, or because the notification is
malformed or misspelled."""

from __future__ import annotations

from acp_conformance.agent.cases.cancel_request import SOURCE
from acp_conformance.agent.cases.session_cancel import no_answer_to_a_notification, running
from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, prompt_params
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail

NOTIFICATION = ("JSON-RPC 2.0", "4.1 Notification")


@case(
    "cancel-request/is-not-answered",
    level=MUST,
    source=NOTIFICATION[0],
    section=NOTIFICATION[1],
    needs="hang",
)
async def is_not_answered(agent: Agent) -> None:
    """The notification `$/cancel_request` itself is not answered, also by an agent that does not support it."""
    session = await agent.session()
    prompt = await running(agent, session)
    await agent.cancel_request(prompt)
    await agent.fence()
    await no_answer_to_a_notification(agent)


@case(
    "cancel-request/unknown-id",
    level=MUST,
    source=NOTIFICATION[0],
    section=NOTIFICATION[1],
)
async def ignores_an_unknown_id(agent: Agent) -> None:
    """A cancel for a request that never existed is ignored."""
    await agent.initialize()
    strange = [agent.expect(id) for id in (987_654, "conformance-no-such-request", None)]
    for pending in strange:
        await agent.cancel_request(pending)
    await agent.fence()
    await agent.settle()
    for pending in strange:
        if pending.answers:
            fail(f"the cancel of {pending.id!r} was answered: {str(pending.answers[0])[:200]}", at=pending.position)


@case(
    "cancel-request/unknown-id-not-kept",
    level=SHOULD,
    source=SOURCE,
    section="FAQ, What happens if a request completes before the cancellation is processed?",
    needs="hang",
)
async def does_not_keep_an_unknown_id(agent: Agent) -> None:
    """A cancel for an id does not cancel a later request with this id."""
    session = await agent.session()
    id = agent.new_id()
    await agent.cancel_request(agent.expect(id))
    await agent.fence()
    prompt = await agent.request("session/prompt", prompt_params(session, agent.text_of("hang")), id=id)
    await agent.wait_for(lambda: prompt.answers or agent.spoken(session) or None, "the first update of the turn")
    await agent.fence()
    if prompt.answers:
        fail(f"the request was ended by a cancel from before it: {str(prompt.answers[0])[:200]}", at=prompt.position)


@case(
    "cancel-request/after-the-answer",
    level=MUST,
    source=SOURCE,
    section="FAQ, What happens if a request completes before the cancellation is processed?",
    needs="quick",
)
async def ignores_the_answered(agent: Agent) -> None:
    """A cancel for an answered request is ignored."""
    prompt = await agent.prompt(await agent.session(), "quick")
    await prompt.answer()
    await agent.cancel_request(prompt)
    await agent.fence()
    await agent.settle()
    if len(prompt.answers) != 1:
        fail(f"{len(prompt.answers)} answers to one request")
    await no_answer_to_a_notification(agent)


@case(
    "cancel-request/bad-params",
    level=MUST,
    source=NOTIFICATION[0],
    section=NOTIFICATION[1],
)
async def ignores_bad_params(agent: Agent) -> None:
    """A cancel without a request id is not answered and ends nothing."""
    await agent.initialize()
    for params in ({}, {"requestId": {}}, {"requestId": [1]}, {"requestId": True}, {"requestId": 1.5}, [1], {"id": 1}):
        await agent.notify("$/cancel_request", params)
    await agent.notify("$/cancel_request")
    await agent.fence()
    await no_answer_to_a_notification(agent)


@case(
    "cancel-request/as-request",
    level=CHOICE,
    source=SOURCE,
    section="Cancellation Method",
    needs="hang",
)
async def as_a_request(agent: Agent) -> None:
    """The specification leaves open the effect of `$/cancel_request` that is sent as a request."""
    prompt = await running(agent, await agent.session())
    wrong = await agent.request("$/cancel_request", {"requestId": prompt.id})
    answer = await wrong.answer()
    await agent.fence()
    how = f"refused with the code {code_of(answer)}" if "error" in answer else "answered"
    choice(f"it is {how}, and the request {'is cancelled' if prompt.answers else 'runs on'}")


@case(
    "cancel-request/other-spelling",
    level=CHOICE,
    source=SOURCE,
    section="Cancellation Method",
    needs="hang",
)
async def other_spelling(agent: Agent) -> None:
    """The specification leaves open whether `$/cancelRequest` with `id`, as in the Language Server Protocol, has an
    effect."""
    prompt = await running(agent, await agent.session())
    await agent.notify("$/cancelRequest", {"id": prompt.id})
    await agent.fence()
    choice("it cancels the request" if prompt.answers else "it has no effect")
