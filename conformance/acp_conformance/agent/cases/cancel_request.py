"""`$/cancel_request`, which cancels any request by its id. Agents need not support it, but support must be correct.

Only the behaviour of an agent shows whether it supports `$/cancel_request`. So `supporting` cancels one turn by its id,
and the case does not apply if that has no effect.
"""

from __future__ import annotations

from acp_conformance.agent.cases.session_cancel import at_once, running
from acp_conformance.agent.cases.turns import STOP_REASONS, stop_reason
from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, NoAnswer, Pending, prompt_params
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail, not_applicable

SOURCE = "RFD request-cancellation"
SECTION = "Cancellation Processing"
CANCELLED = -32800
EFFECT_SECONDS = 2.0
"""How long a cancel may take to show an effect before it counts as ignored."""


async def supporting(agent: Agent) -> None:
    """Cancel a turn by its id in a separate session. The case does not apply if that has no effect."""
    session = await agent.session()
    await cancelled_by_id(agent, session, await running(agent, session))


async def cancelled_by_id(agent: Agent, session: str, prompt: Pending) -> None:
    """Cancel the prompt by its id and wait for the response. The case does not apply if only `session/cancel` causes a
    response."""
    await agent.cancel_request(prompt)
    try:
        await prompt.answer(within=min(EFFECT_SECONDS, agent.patience / 2))
    except NoAnswer:
        await agent.cancel(session)
        for request in agent.held():
            await request.refuse(-32800, "Request cancelled")  # the turn may wait for it
        await prompt.answer()
        not_applicable("$/cancel_request has no effect on a prompt, which is allowed")


@case("cancel-request/answers-once", level=MUST, source=SOURCE, section=SECTION, needs="hang")
async def answers_once(agent: Agent) -> None:
    """A request that is cancelled by its id is answered exactly once."""
    session = await agent.session()
    prompt = await running(agent, session)
    await cancelled_by_id(agent, session, prompt)
    await agent.settle()
    if len(prompt.answers) != 1:
        fail(f"{len(prompt.answers)} answers to one request")


@case(
    "cancel-request/valid-answer",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
    shared=True,
)
async def gives_a_valid_answer(agent: Agent) -> None:
    """A cancelled request is answered with a valid result or with the error -32800."""
    session = await agent.session()
    prompt = await running(agent, session)
    await cancelled_by_id(agent, session, prompt)
    answer = await prompt.answer()
    if "error" in answer:
        await prompt.error(CANCELLED)
    elif stop_reason(answer.get("result")) not in STOP_REASONS:
        fail(f"the result is that of no prompt: {str(answer.get('result'))[:200]}")


@case(
    "cancel-request/how-a-prompt-ends",
    level=CHOICE,
    source=SOURCE,
    section=SECTION,
    needs="hang",
    shared=True,
)
async def how_a_prompt_ends(agent: Agent) -> None:
    """A prompt that is cancelled by its id may be answered `cancelled` or with the error -32800."""
    session = await agent.session()
    prompt = await running(agent, session)
    await cancelled_by_id(agent, session, prompt)
    answer = await prompt.answer()
    if "error" in answer:
        choice(f"with the error {code_of(answer)}")
    choice(f"with the stop reason {stop_reason(answer.get('result'))!r}")


@case("cancel-request/other-requests", level=MUST, source=SOURCE, section="Shiny future", needs="hang")
async def leaves_other_requests(agent: Agent) -> None:
    """A cancel of one request does not affect other requests."""
    session, other = await agent.session(), await agent.session()
    beside = await running(agent, other)
    await cancelled_by_id(agent, session, await running(agent, session))
    await agent.fence()
    if beside.answers:
        fail(f"another request was answered as well: {str(beside.answers[0])[:200]}", at=beside.position)


@case("cancel-request/type-of-the-id", level=MUST, source="JSON-RPC 2.0", section="4", needs="hang")
async def minds_the_type_of_the_id(agent: Agent) -> None:
    """The cancel of "7" does not cancel the request 7."""
    session = await agent.session()
    prompt = await running(agent, session)
    await agent.notify("$/cancel_request", {"requestId": str(prompt.id)})
    await agent.fence()
    if prompt.answers:
        fail(f"the cancel of {str(prompt.id)!r} ended the request {prompt.id!r}")
    await cancelled_by_id(agent, session, prompt)


@case(
    "cancel-request/text-id",
    level=MUST,
    source=SOURCE,
    section="Cancellation Method",
    needs="hang",
    shared=True,
)
async def takes_a_text_id(agent: Agent) -> None:
    """A request whose id is a string can be cancelled."""
    await supporting(agent)
    session = await agent.session()
    params = prompt_params(session, agent.text_of("hang"))
    prompt = await agent.request("session/prompt", params, id="conformance-7")
    await agent.wait_for(lambda: agent.spoken(session) or None, "the first update of the turn")
    await agent.cancel_request(prompt)
    await prompt.answer()


@case(
    "cancel-request/right-behind",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="hang",
    shared=True,
)
async def takes_effect_right_behind_the_request(agent: Agent) -> None:
    """A cancel that arrives together with its request takes effect."""
    await supporting(agent)
    session = await agent.session()
    id = agent.new_id()
    prompt = agent.expect(id, "session/prompt")
    params = prompt_params(session, agent.text_of("hang"))
    await at_once(
        agent,
        {"id": id, "method": "session/prompt", "params": params},
        {"method": "$/cancel_request", "params": {"requestId": id}},
    )
    await prompt.answer()


@case("cancel-request/twice", level=MUST, source=SOURCE, section=SECTION, needs="hang")
async def twice_is_once(agent: Agent) -> None:
    """A request that is cancelled twice by its id is answered once."""
    await supporting(agent)
    session = await agent.session()
    prompt = await running(agent, session)
    await at_once(agent, *2 * [{"method": "$/cancel_request", "params": {"requestId": prompt.id}}])
    await prompt.answer()
    await agent.settle()
    if len(prompt.answers) != 1:
        fail(f"{len(prompt.answers)} answers to one request")


@case(
    "cancel-request/beside-session-cancel",
    level=MUST,
    source=SOURCE,
    section="FAQ, How does this relate to existing cancellation mechanisms like session/cancel?",
    needs="hang",
)
async def beside_session_cancel(agent: Agent) -> None:
    """A prompt that is cancelled by both session/cancel and its id is answered once."""
    prompts: list[Pending] = []
    for first in ("session/cancel", "$/cancel_request"):
        session = await agent.session()
        prompt = await running(agent, session)
        by_session = {"method": "session/cancel", "params": {"sessionId": session}}
        by_id = {"method": "$/cancel_request", "params": {"requestId": prompt.id}}
        await at_once(agent, *((by_session, by_id) if first == "session/cancel" else (by_id, by_session)))
        await prompt.answer()
        prompts.append(prompt)
    await agent.settle()
    for prompt in prompts:
        if len(prompt.answers) != 1:
            fail(f"{len(prompt.answers)} answers to one request")


@case(
    "cancel-request/session-lives",
    level=MUST,
    source="ACP v1",
    section="Prompt Turn, Cancellation",
    needs=["hang", "quick"],
    shared=True,
)
async def session_lives(agent: Agent) -> None:
    """After a prompt was cancelled by its id, its session accepts the next prompt."""
    session = await agent.session()
    await cancelled_by_id(agent, session, await running(agent, session))
    await (await agent.prompt(session, "quick")).result()


@case(
    "cancel-request/nothing-after-the-answer",
    level=SHOULD,
    source=SOURCE,
    section=SECTION,
    needs="hang",
)
async def says_nothing_after_the_answer(agent: Agent) -> None:
    """All updates of a prompt that was cancelled by its id come before its response."""
    session = await agent.session()
    prompt = await running(agent, session)
    await cancelled_by_id(agent, session, prompt)
    await agent.settle()
    if late := agent.spoken(session, since=prompt.position or 0):
        fail(f"{len(late)} updates after the answer, the first is {late[0].kind}", at=late[0].position)


@case(
    "cancel-request/meta",
    level=SHOULD,
    source="ACP v1",
    section="Extensibility, The _meta Field",
    needs="hang",
    shared=True,
)
async def bears_meta(agent: Agent) -> None:
    """A cancel with `_meta` takes effect."""
    await supporting(agent)
    session = await agent.session()
    prompt = await running(agent, session)
    await agent.notify("$/cancel_request", {"requestId": prompt.id, "_meta": {"conformance": True}})
    await prompt.answer()


@case("cancel-request/session-new", level=MUST, source=SOURCE, section=SECTION)
async def session_new_is_answered_once(agent: Agent) -> None:
    """A session/new that is directly followed by its cancel is answered once, with a session or with -32800."""
    await agent.session()
    id = agent.new_id()
    pending = agent.expect(id, "session/new")
    params = {"cwd": str(agent.cwd), "mcpServers": []}
    await at_once(
        agent,
        {"id": id, "method": "session/new", "params": params},
        {"method": "$/cancel_request", "params": {"requestId": id}},
    )
    answer = await pending.answer()
    if "error" in answer:
        await pending.error(CANCELLED)
    await agent.settle()
    if len(pending.answers) != 1:
        fail(f"{len(pending.answers)} answers to one request")
