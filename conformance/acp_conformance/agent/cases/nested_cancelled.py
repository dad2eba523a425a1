"""Pending requests of the agent to its client, which the agent withdraws when their turn is cancelled."""

from __future__ import annotations

from acp_conformance.agent.cases.cancel_request import EFFECT_SECONDS, SOURCE, cancelled_by_id
from acp_conformance.agent.cases.nested import ACP, TEXT, in_flight, reading
from acp_conformance.agent.cases.session_cancel import ends_cancelled
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, NoAnswer, Pending
from acp_conformance.core.case import CHOICE, MUST, SHOULD, belongs_to, choice, fail, not_applicable
from acp_conformance.core.schema import same_id

CASCADE = "FAQ, How should implementations handle cascading cancellation?"


def withdrawals(agent: Agent) -> list[object]:
    """Return the `requestId` of every `$/cancel_request` of the agent."""
    return [
        entry.message["params"]["requestId"]
        for entry in agent.received
        if isinstance(entry.message, dict)
        and entry.message.get("method") == "$/cancel_request"
        and isinstance(entry.message.get("params"), dict)
        and "requestId" in entry.message["params"]
    ]


async def withdrawal_or_end(agent: Agent, prompt: Pending) -> bool:
    """Whether a cancelled turn withdraws its request, or ends without waiting for the client's response."""
    try:
        await agent.wait_for(lambda: withdrawals(agent) or prompt.answers or None, "$/cancel_request for its request")
    except NoAnswer:
        return False
    return True


@case(
    "nested/cancelled-turn-ends",
    level=MUST,
    source=ACP,
    section="Prompt Turn, Cancellation",
    needs="nested",
)
async def cancelled_turn_ends(agent: Agent) -> None:
    """A turn that is cancelled while it waits for the client is answered `cancelled`."""
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await agent.cancel(session)
    await agent.fence()
    if not request.answered:
        # An agent that does not withdraw its request may wait for it: it gets the response that a withdrawal would get.
        await request.refuse(-32800, "Request cancelled")
    # The cancel itself answered a permission request, which is a separate case.
    asks = request.method == "session/request_permission"
    with belongs_to("permission/cancelled-turn-ends" if asks else ""):
        await ends_cancelled(prompt)


@case("nested/withdrawn", level=SHOULD, source=SOURCE, section=CASCADE, needs="nested")
async def withdraws(agent: Agent) -> None:
    """A request that waits for the client is withdrawn when its turn is cancelled."""
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await agent.cancel(session)
    await withdrawal_or_end(agent, prompt)
    await agent.settle()
    if request.withdrawals:
        return
    if request.answered:
        not_applicable("the client answers a question for permission when it cancels, so none is left to withdraw")
    fail(f"{request.method} was left standing when its turn was cancelled")


@case("nested/withdrawn-once", level=SHOULD, source=SOURCE, section=CASCADE, needs="nested")
async def withdraws_once(agent: Agent) -> None:
    """A request is withdrawn at most once."""
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await agent.cancel(session)
    await withdrawal_or_end(agent, prompt)
    await agent.settle()
    if not request.withdrawals:
        not_applicable("the agent does not withdraw its requests")
    if len(request.withdrawals) > 1:
        fail(f"{len(request.withdrawals)} times $/cancel_request for one request")


@case(
    "nested/withdraws-its-own",
    level=MUST,
    source=SOURCE,
    section="Cancellation Method",
    needs="nested",
)
async def withdraws_its_own(agent: Agent) -> None:
    """The agent withdraws a request by exactly the id of that request."""
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await agent.cancel(session)
    await withdrawal_or_end(agent, prompt)
    await agent.settle()
    named = withdrawals(agent)
    if not named:
        not_applicable("the agent does not withdraw its requests")
    for id in named:
        if not any(same_id(id, own.id) for own in agent.requests):
            fail(f"it withdraws {id!r}, and its request has the id {request.id!r}")


@case(
    "nested/answered-not-withdrawn",
    level=SHOULD,
    source=SOURCE,
    section="Cancellation Method",
    needs="read",
)
async def does_not_withdraw_the_answered(agent: Agent) -> None:
    """An answered request is not withdrawn."""
    prompt, request = await reading(agent, await agent.session())
    await request.answer(TEXT)
    await prompt.answer()
    await agent.settle()
    if request.withdrawals:
        fail(f"$/cancel_request for {request.method}, which had its answer")


@case("nested/withdrawn-by-id", level=SHOULD, source=SOURCE, section=CASCADE, needs="nested")
async def withdraws_when_cancelled_by_id(agent: Agent) -> None:
    """A request that waits for the client is withdrawn when its prompt is cancelled by its id."""
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await cancelled_by_id(agent, session, prompt)
    await agent.settle()
    if not request.withdrawals:
        fail(f"{request.method} was left standing when its prompt was cancelled")


@case(
    "nested/other-session",
    level=MUST,
    source=ACP,
    section="Prompt Turn, Cancellation",
    needs="nested",
)
async def leaves_requests_of_other_sessions(agent: Agent) -> None:
    """A cancelled turn does not withdraw the requests of other sessions."""
    session, other = await agent.session(), await agent.session()
    prompt, _ = await in_flight(agent, session)
    _, beside = await in_flight(agent, other)
    await agent.cancel(session)
    if not await withdrawal_or_end(agent, prompt):
        not_applicable("the agent waits for the client's answer")
    await agent.fence()
    if beside.withdrawals:
        fail(f"{beside.method} of another session was withdrawn as well")


@case("nested/waits-for-the-client", level=CHOICE, source=ACP, section="Cancellation", needs="nested")
async def waits_for_the_client(agent: Agent) -> None:
    """The specification leaves open whether a cancelled turn waits for the client's response to a withdrawn request."""
    agent.yields_to_cancel = False
    session = await agent.session()
    prompt, _ = await in_flight(agent, session)
    await agent.cancel(session, answer_permissions=False)
    choice("it does not wait" if await ends_without_the_client(agent, prompt) else "it waits")


@case("nested/late-answer", level=MUST, source="JSON-RPC 2.0", section="5", needs="nested")
async def ignores_a_late_answer(agent: Agent) -> None:
    """A response to a withdrawn request is ignored."""
    agent.yields_to_cancel = False
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await agent.cancel(session, answer_permissions=False)
    if not await ends_without_the_client(agent, prompt):
        not_applicable("the agent waits for the client's answer")
    own, none = agent.expect(request.id), agent.expect(None)
    await request.refuse(-32800, "Request cancelled")
    await agent.fence()
    await agent.settle()
    if strange := own.answers or none.answers:
        fail(f"the late answer was answered: {str(strange[0])[:200]}")


@case(
    "nested/asks-no-more",
    level=SHOULD,
    source=ACP,
    section="Prompt Turn, Cancellation",
    needs="nested",
)
async def asks_no_more(agent: Agent) -> None:
    """A cancelled turn makes no further requests, except to clean up its terminals."""
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    known = len(agent.requests)
    await agent.cancel(session)
    await agent.fence()
    if not request.answered:
        await request.refuse(-32800, "Request cancelled")
    await prompt.answer()
    await agent.settle()
    for later in agent.requests[known:]:
        if not later.method.startswith("terminal/") or later.method == "terminal/create":
            fail(f"{later.method} after the turn was cancelled")


async def ends_without_the_client(agent: Agent, prompt: Pending) -> bool:
    """A cancelled prompt may be answered although the client answers nothing."""
    try:
        await prompt.answer(within=min(EFFECT_SECONDS, agent.patience / 2))
    except NoAnswer:
        return False
    return True
