"""Permission requests of cancelled turns: the turn must end, and its tool must not run."""

from __future__ import annotations

from acp_conformance.agent.cases.permission import SOURCE, asked, does_not_run, option
from acp_conformance.agent.cases.session_cancel import at_once, ends_cancelled
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice

CANCELLATION = "Prompt Turn, Cancellation"


@case(
    "permission/cancelled-turn-ends",
    level=MUST,
    source=SOURCE,
    section=CANCELLATION,
    needs="permission",
    shared=True,
)
async def a_cancelled_turn_ends(agent: Agent) -> None:
    """When the permission request of a cancelled turn is answered `cancelled`, its prompt is answered `cancelled`."""
    session = await agent.session()
    prompt, _ = await asked(agent, session)
    await agent.cancel(session)
    await ends_cancelled(prompt)


@case(
    "permission/cancelled-turn-by-error",
    level=MUST,
    source=SOURCE,
    section="Cancellation, Example: Cascading Cancellation Flow",
    needs="permission",
)
async def a_cancelled_turn_ends_with_an_error_too(agent: Agent) -> None:
    """When the withdrawn permission request of a cancelled turn is answered with -32800, its prompt is answered
    `cancelled`."""
    session = await agent.session()
    prompt, request = await asked(agent, session)
    await agent.cancel(session, answer_permissions=False)
    await agent.fence()
    if not request.answered:
        await request.refuse(-32800, "Request cancelled")
    await ends_cancelled(prompt)


@case(
    "permission/cancelled-does-not-run",
    level=MUST,
    source=SOURCE,
    section=CANCELLATION,
    needs="permission",
)
async def what_is_cancelled_does_not_run(agent: Agent) -> None:
    """The tool of a turn that is cancelled during a permission request does not run."""
    session = await agent.session()
    prompt, request = await asked(agent, session)
    await agent.cancel(session)
    await does_not_run(agent, prompt, request)


@case(
    "permission/late-leave",
    level=SHOULD,
    source=SOURCE,
    section=CANCELLATION,
    needs="permission",
)
async def late_leave_is_void(agent: Agent) -> None:
    """A permission that comes after the cancel does not make the tool run."""
    agent.yields_to_cancel = False
    session = await agent.session()
    prompt, request = await asked(agent, session)
    leave = option(request, "allow")
    await at_once(
        agent, {"method": "session/cancel", "params": {"sessionId": session}}, {"id": request.id, "result": leave}
    )
    await does_not_run(agent, prompt, request)


@case(
    "permission/late-leave-turn",
    level=MUST,
    source=SOURCE,
    section=CANCELLATION,
    needs="permission",
)
async def late_leave_leaves_the_turn_cancelled(agent: Agent) -> None:
    """A permission that comes after the cancel does not keep the turn from ending `cancelled`."""
    agent.yields_to_cancel = False
    session = await agent.session()
    prompt, request = await asked(agent, session)
    leave = option(request, "allow")
    await at_once(
        agent, {"method": "session/cancel", "params": {"sessionId": session}}, {"id": request.id, "result": leave}
    )
    await ends_cancelled(prompt)


@case(
    "permission/withdrawn",
    level=CHOICE,
    source="RFD request-cancellation",
    section="FAQ, How should implementations handle cascading cancellation?",
    needs="permission",
)
async def withdraws_the_question(agent: Agent) -> None:
    """The specification leaves open whether a cancelled turn withdraws its permission request if the client answers
    late."""
    session = await agent.session()
    prompt, request = await asked(agent, session)
    await agent.cancel(session, answer_permissions=False)
    await agent.comes(lambda: request.withdrawals or prompt.answers or None)
    await agent.settle()
    choice("withdrawn" if request.withdrawals else "left standing")
