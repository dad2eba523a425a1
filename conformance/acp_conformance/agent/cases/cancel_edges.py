"""Unusual cancels and responses: with invalid params, for a queued prompt, with an id of another type."""

from __future__ import annotations

from acp_conformance.agent.cases.nested import in_flight
from acp_conformance.agent.cases.nested_cancelled import ends_without_the_client
from acp_conformance.agent.cases.permission import asked, deeds, option
from acp_conformance.agent.cases.session_cancel import ends_cancelled, running
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import HOLD, Agent, Refuse
from acp_conformance.core.case import MUST, fail, not_applicable

ACP = "ACP v1"
RPC = "JSON-RPC 2.0"
CANCELLATION = "Prompt Turn, Cancellation"


@case("session-cancel/bad-params-during-turn", level=MUST, source=RPC, section="4.1 Notification", needs="hang")
async def bad_params(agent: Agent) -> None:
    """A session/cancel without a session ends no turn, and a later session/cancel with a session does."""
    session = await agent.session()
    prompt = await running(agent, session)
    for params in (
        {},
        {"sessionId": None},
        {"sessionId": [session]},
        {"sessionId": ""},
        {"session": session},
        [session],
    ):
        await agent.notify("session/cancel", params)
    await agent.notify("session/cancel")
    await agent.fence()
    if prompt.answers:
        fail(f"the turn ended: {str(prompt.answers[0])[:200]}", at=prompt.position)
    await agent.cancel(session)
    await prompt.answer()


@case("session-cancel/meta", level=MUST, source=ACP, section="Extensibility, The _meta Field", needs="hang")
async def cancel_with_meta(agent: Agent) -> None:
    """A session/cancel with `_meta` cancels the turn."""
    session = await agent.session()
    prompt = await running(agent, session)
    await agent.notify("session/cancel", {"sessionId": session, "_meta": {"conformance": [None]}})
    await ends_cancelled(prompt)


@case("session-cancel/queued-prompt", level=MUST, source=RPC, section="5 Response object", needs=["hang", "quick"])
async def queued_prompt(agent: Agent) -> None:
    """A prompt that waits for the turn of its session is answered when that turn is cancelled."""
    session = await agent.session()
    first = await running(agent, session)
    second = await agent.prompt(session, "quick")
    await agent.fence()
    if second.answers:
        not_applicable("a second prompt does not wait")
    await agent.cancel(session)
    await first.answer()
    await second.answer()  # before the first or after it: a cancel may empty the queue


@case("permission/answer-of-another-type", level=MUST, source=RPC, section="5 Response object: id", needs="permission")
async def answer_of_another_type(agent: Agent) -> None:
    """The response to "7" does not approve the request 7."""
    session = await agent.session()
    prompt, question = await asked(agent, session)
    if isinstance(question.id, bool) or not isinstance(question.id, int | str):
        not_applicable("the id is neither a string nor an integer")
    if isinstance(question.id, str) and not question.id.isdecimal():
        not_applicable(f"the id {question.id!r} is like no number")
    twin = str(question.id) if isinstance(question.id, int) else int(question.id)
    since = len(agent.received)
    await agent.send({"jsonrpc": "2.0", "id": twin, "result": option(question, "allow")})
    await agent.fence()
    if prompt.answers or deeds(agent, question, since=since):
        fail(f"the answer to {twin!r} was taken for the response to {question.id!r}")
    await question.answer(option(question, "reject"))
    await prompt.answer()


@case("nested/late-result", level=MUST, source=ACP, section="Prompt Turn, Cancellation", needs="nested")
async def ignores_a_late_result(agent: Agent) -> None:
    """A result after the cancel does not resume the turn, which sends nothing more and is answered once."""
    agent.yields_to_cancel = False
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await agent.cancel(session, answer_permissions=False)
    if not await ends_without_the_client(agent, prompt):
        not_applicable("the agent waits for the client's answer")
    since = len(agent.received)
    try:
        result = agent.editor.handle(request)
        await request.answer({} if result is HOLD else result)
    except Refuse as refusal:
        not_applicable(f"the client has no result for it: {refusal}")
    await agent.fence()
    await agent.settle()
    if late := agent.spoken(session, since=since):
        fail(f"the turn had ended, and sends {late[0].kind} upon a late result", at=late[0].position)
    if len(prompt.answers) > 1:
        fail(f"{len(prompt.answers)} answers to one prompt")
