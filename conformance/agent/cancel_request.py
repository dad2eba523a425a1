"""`$/cancel_request`: any request can be cancelled by its id. Support is optional; what supports it does it right.

Whether an agent supports it shows only in what it does: `supporting` cancels one turn by its id, and the case is not
applicable where that has no effect.
"""

from __future__ import annotations

from conformance.agent.session_cancel import at_once, no_answer_to_a_notification, running
from conformance.agent.turns import STOP_REASONS, stop_reason
from conformance.case import CHOICE, MUST, SHOULD, case, choice, fail, not_applicable
from conformance.peer import Agent, NoAnswer, Pending, prompt_params

SOURCE = "RFD request-cancellation"
SECTION = "Cancellation Processing"
NOTIFICATION = ("JSON-RPC 2.0", "4.1 Notification")
CANCELLED = -32800
EFFECT_SECONDS = 2.0
"""How long a cancel may take to show an effect before the agent counts as one that ignores it."""


async def supporting(agent: Agent) -> None:
    """Cancel a turn by its id in a session of its own: not applicable, where that has no effect."""
    session = await agent.session()
    await cancelled_by_id(agent, session, await running(agent, session))


async def cancelled_by_id(agent: Agent, session: str, prompt: Pending) -> None:
    """Cancel the prompt by its id and await its answer: not applicable, if only `session/cancel` brings that."""
    await agent.cancel_request(prompt)
    try:
        await prompt.answer(within=min(EFFECT_SECONDS, agent.patience / 2))
    except NoAnswer:
        await agent.cancel(session)
        await prompt.answer()
        not_applicable("$/cancel_request has no effect on a prompt, which is allowed")


@case("cancel-request/answers-once", level=MUST, source=SOURCE, section=SECTION, behaviours=["B1", "A1"], needs="hang")
async def answers_once(agent: Agent) -> None:
    """A request that is cancelled by its id is answered exactly once."""
    session = await agent.session()
    prompt = await running(agent, session)
    await cancelled_by_id(agent, session, prompt)
    await agent.settle()
    if len(prompt.answers) != 1:
        fail(f"{len(prompt.answers)} answers to one request")


@case("cancel-request/valid-answer", level=MUST, source=SOURCE, section=SECTION, behaviours=["B1", "F17"], needs="hang")
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
    "cancel-request/how-a-prompt-ends", level=CHOICE, source=SOURCE, section=SECTION, behaviours=["F17"], needs="hang"
)
async def how_a_prompt_ends(agent: Agent) -> None:
    """A prompt that is cancelled by its id may be answered `cancelled` or with the error -32800."""
    session = await agent.session()
    prompt = await running(agent, session)
    await cancelled_by_id(agent, session, prompt)
    answer = await prompt.answer()
    if "error" in answer:
        choice(f"with the error {answer['error'].get('code')}")
    choice(f"with the stop reason {stop_reason(answer.get('result'))!r}")


@case(
    "cancel-request/is-not-answered",
    level=MUST,
    source=NOTIFICATION[0],
    section=NOTIFICATION[1],
    behaviours=["A5"],
    needs="hang",
)
async def is_not_answered(agent: Agent) -> None:
    """The notification itself is not answered, whether it is supported or not."""
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
    behaviours=["B7", "K3"],
)
async def ignores_an_unknown_id(agent: Agent) -> None:
    """A cancel for a request that never was is ignored."""
    await agent.initialize()
    strange = [agent.expect(id) for id in (987_654, "conformance-no-such-request", None)]
    for pending in strange:
        await agent.cancel_request(pending)
    await agent.fence()
    await agent.settle()
    for pending in strange:
        if pending.answers:
            fail(f"the cancel of {pending.id!r} was answered: {str(pending.answers[0])[:200]}")


@case(
    "cancel-request/unknown-id-not-kept",
    level=SHOULD,
    source=SOURCE,
    section="FAQ, What happens if a request completes before the cancellation is processed?",
    behaviours=["B7"],
    needs="hang",
)
async def does_not_keep_an_unknown_id(agent: Agent) -> None:
    """A cancel for a request that is still to come does not hit it later."""
    session = await agent.session()
    id = agent.new_id()
    await agent.cancel_request(agent.expect(id))
    await agent.fence()
    prompt = await agent.request("session/prompt", prompt_params(session, agent.text_of("hang")), id=id)
    await agent.wait_for(lambda: prompt.answers or agent.spoken(session) or None, "the first update of the turn")
    await agent.fence()
    if prompt.answers:
        fail(f"the request was ended by a cancel from before it: {str(prompt.answers[0])[:200]}")


@case(
    "cancel-request/after-the-answer",
    level=MUST,
    source=SOURCE,
    section="FAQ, What happens if a request completes before the cancellation is processed?",
    behaviours=["B7", "E3"],
    needs="quick",
)
async def ignores_the_answered(agent: Agent) -> None:
    """A cancel for a request that was answered is ignored."""
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
    behaviours=["B13"],
)
async def ignores_bad_params(agent: Agent) -> None:
    """A cancel that does not name a request is not answered and ends nothing."""
    await agent.initialize()
    for params in ({}, {"requestId": {}}, {"requestId": [1]}, {"requestId": True}, {"requestId": 1.5}, [1], {"id": 1}):
        await agent.notify("$/cancel_request", params)
    await agent.notify("$/cancel_request")
    await agent.fence()
    await no_answer_to_a_notification(agent)


@case(
    "cancel-request/other-requests", level=MUST, source=SOURCE, section="Shiny future", behaviours=["B9"], needs="hang"
)
async def leaves_other_requests(agent: Agent) -> None:
    """Other requests run on."""
    session, other = await agent.session(), await agent.session()
    beside = await running(agent, other)
    await cancelled_by_id(agent, session, await running(agent, session))
    await agent.fence()
    if beside.answers:
        fail(f"another request was answered as well: {str(beside.answers[0])[:200]}")


@case("cancel-request/type-of-the-id", level=MUST, source="JSON-RPC 2.0", section="4", behaviours=["A2"], needs="hang")
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
    behaviours=["A2"],
    needs="hang",
)
async def takes_a_text_id(agent: Agent) -> None:
    """A request whose id is a string can be cancelled like any other."""
    await supporting(agent)
    session = await agent.session()
    params = prompt_params(session, agent.text_of("hang"))
    prompt = await agent.request("session/prompt", params, id="conformance-7")
    await agent.wait_for(lambda: agent.spoken(session) or None, "the first update of the turn")
    await agent.cancel_request(prompt)
    await prompt.answer()


@case("cancel-request/right-behind", level=MUST, source=SOURCE, section=SECTION, behaviours=["B3", "B4"], needs="hang")
async def takes_effect_right_behind_the_request(agent: Agent) -> None:
    """A cancel in the same write as its request takes effect."""
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


@case("cancel-request/twice", level=MUST, source=SOURCE, section=SECTION, behaviours=["B8", "A1"], needs="hang")
async def twice_is_once(agent: Agent) -> None:
    """Cancelled twice by its id, a request is answered once."""
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
    behaviours=["E7", "A1"],
    needs="hang",
)
async def beside_session_cancel(agent: Agent) -> None:
    """A prompt that is cancelled both ways at once is answered once."""
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
    section="Prompt Turn, Cancellation (its last paragraph)",
    behaviours=["F17", "F7"],
    needs=["hang", "quick"],
)
async def session_lives(agent: Agent) -> None:
    """The session of a prompt that was cancelled by its id takes the next prompt."""
    session = await agent.session()
    await cancelled_by_id(agent, session, await running(agent, session))
    await (await agent.prompt(session, "quick")).result()


@case(
    "cancel-request/nothing-after-the-answer",
    level=SHOULD,
    source=SOURCE,
    section=SECTION,
    behaviours=["B16", "B17"],
    needs="hang",
)
async def says_nothing_after_the_answer(agent: Agent) -> None:
    """What a request that was cancelled by its id still reports comes before its answer."""
    session = await agent.session()
    prompt = await running(agent, session)
    await cancelled_by_id(agent, session, prompt)
    await agent.settle()
    if late := agent.spoken(session, since=prompt.position or 0):
        fail(f"{len(late)} updates after the answer, the first is {late[0].kind}")


@case(
    "cancel-request/meta",
    level=SHOULD,
    source="ACP v1",
    section="Extensibility, The _meta Field",
    behaviours=["L3"],
    needs="hang",
)
async def bears_meta(agent: Agent) -> None:
    """A cancel with `_meta` takes effect."""
    await supporting(agent)
    session = await agent.session()
    prompt = await running(agent, session)
    await agent.notify("$/cancel_request", {"requestId": prompt.id, "_meta": {"conformance": True}})
    await prompt.answer()


@case("cancel-request/session-new", level=MUST, source=SOURCE, section=SECTION, behaviours=["B18", "A1", "E1"])
async def session_new_is_answered_once(agent: Agent) -> None:
    """A session/new with its cancel right behind it is answered once: with a session or with -32800."""
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


@case(
    "cancel-request/as-request",
    level=CHOICE,
    source=SOURCE,
    section="Cancellation Method",
    behaviours=["L1"],
    needs="hang",
)
async def as_a_request(agent: Agent) -> None:
    """What `$/cancel_request` does when it is sent as a request is left open."""
    prompt = await running(agent, await agent.session())
    wrong = await agent.request("$/cancel_request", {"requestId": prompt.id})
    answer = await wrong.answer()
    await agent.fence()
    how = f"refused with the code {answer['error'].get('code')}" if "error" in answer else "answered"
    choice(f"it is {how}, and the request {'is cancelled' if prompt.answers else 'runs on'}")


@case(
    "cancel-request/other-spelling",
    level=CHOICE,
    source=SOURCE,
    section="Cancellation Method",
    behaviours=["A15", "L2"],
    needs="hang",
)
async def other_spelling(agent: Agent) -> None:
    """Whether the spelling of language servers, `$/cancelRequest` with `id`, has an effect is left open."""
    prompt = await running(agent, await agent.session())
    await agent.notify("$/cancelRequest", {"id": prompt.id})
    await agent.fence()
    choice("it cancels the request" if prompt.answers else "it has no effect")
