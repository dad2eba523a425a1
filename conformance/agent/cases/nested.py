"""Requests that the agent makes of its client while a turn runs: their ids, their answers, and their withdrawal."""

from __future__ import annotations

from pathlib import Path, PurePath

from conformance.agent.cases.cancel_request import EFFECT_SECONDS, SOURCE, cancelled_by_id, supporting
from conformance.agent.cases.session_cancel import ends_cancelled
from conformance.agent.cases.turns import stop_reason
from conformance.agent.registry import case
from conformance.agent.subject import Agent, Incoming, NoAnswer, Pending, prompt_params
from conformance.core.case import CHOICE, MUST, SHOULD, belongs_to, choice, fail, not_applicable
from conformance.core.schema import same_id

ACP = "ACP v1"
CASCADE = "FAQ, How should implementations handle cascading cancellation?"
CLIENT_METHODS = (
    "session/request_permission",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "elicitation/create",
)
FOLDER = "Session Setup, Working Directory"
READ = "fs/read_text_file"
TEXT = {"content": "conformance\n"}


async def in_flight(agent: Agent, session: str) -> tuple[Pending, Incoming]:
    """A prompt that waits for an answer of the client, and the request of the agent that it waits for."""
    agent.hold(*CLIENT_METHODS)
    prompt = await agent.prompt(session, "nested")
    request = await agent.wait_for(
        lambda: next((each for each in agent.held() if each.position >= prompt.since), None), "a request of the turn"
    )
    for method in CLIENT_METHODS:
        agent.on(method, agent.editor.handle)
    return prompt, request


async def reading(agent: Agent, session: str) -> tuple[Pending, Incoming]:
    """A prompt that waits for the content of a file, and the request for it."""
    agent.hold(READ)
    prompt = await agent.prompt(session, "read")
    return prompt, await agent.next_request(READ)


def withdrawals(agent: Agent) -> list[object]:
    """The `requestId` of every `$/cancel_request` of the agent."""
    return [
        entry.message["params"]["requestId"]
        for entry in agent.received
        if isinstance(entry.message, dict)
        and entry.message.get("method") == "$/cancel_request"
        and isinstance(entry.message.get("params"), dict)
        and "requestId" in entry.message["params"]
    ]


async def withdrawal_or_end(agent: Agent, prompt: Pending) -> bool:
    """Whether a cancelled turn withdraws its request or ends, and does not wait for the client's answer."""
    try:
        await agent.wait_for(lambda: withdrawals(agent) or prompt.answers or None, "$/cancel_request for its request")
    except NoAnswer:
        return False
    return True


@case(
    "nested/answer-arrives",
    level=MUST,
    source="JSON-RPC 2.0",
    section="5",
    behaviours=["I5"],
    needs="read",
    shared=True,
)
async def answer_arrives(agent: Agent) -> None:
    """The client's answer is taken while the turn waits for it, and the turn goes on."""
    prompt, request = await reading(agent, await agent.session())
    await request.answer(TEXT)
    await prompt.result()


@case(
    "nested/answers-by-id",
    level=MUST,
    source="JSON-RPC 2.0",
    section="5",
    behaviours=["C16", "A2"],
    needs="read",
    shared=True,
)
async def answers_are_matched_by_id(agent: Agent) -> None:
    """Answers reach the requests of their ids, in whatever order they come."""
    first, _ = await reading(agent, await agent.session())
    second, request = await reading(agent, await agent.session())
    await request.answer(TEXT)
    await second.result()
    await agent.fence()
    if first.answers:
        fail("an answer to one request ended the turn that waits for another")


@case(
    "nested/cancel-of-the-same-id",
    level=MUST,
    source=SOURCE,
    section="Cancellation Method",
    behaviours=["B12"],
    needs=["nested", "hang"],
)
async def cancel_of_the_same_id(agent: Agent) -> None:
    """The cancel of a client's request reaches it, and spares the agent's request of the same id."""
    await supporting(agent)
    prompt, request = await in_flight(agent, await agent.session())
    if same_id(request.id, prompt.id):
        not_applicable(f"the agent's request has the id of the prompt, {prompt.id!r}")
    session = await agent.session()
    params = prompt_params(session, agent.text_of("hang"))
    same = await agent.request("session/prompt", params, id=request.id)
    await agent.wait_for(lambda: agent.spoken(session) or None, "the first update of the turn")
    await agent.cancel_request(same)
    await same.answer()
    await agent.fence()
    if prompt.answers or request.withdrawals:
        fail(f"the agent's own request {request.id!r} was cancelled by a client that did not make it")


@case("nested/names-its-session", level=MUST, source=ACP, section="File System, Reading Files", needs="read")
async def names_its_session(agent: Agent) -> None:
    """A request for a file bears the id of the session whose turn makes it."""
    session, _ = await agent.session(), await agent.session()
    _, request = await reading(agent, session)
    named = request.params.get("sessionId") if isinstance(request.params, dict) else None
    if named != session:
        fail(f"its sessionId is {named!r} instead of {session!r}")


@case("nested/own-folder", level=MUST, source=ACP, section=FOLDER, needs="read")
async def own_folder(agent: Agent) -> None:
    """A turn looks for a file in the folder of its own session, though another one was made since."""
    session = await agent.session()
    (agent.cwd / "other").mkdir()
    await agent.session(cwd=str(agent.cwd / "other"))
    _, request = await reading(agent, session)
    path = request.params.get("path") if isinstance(request.params, dict) else None
    if not isinstance(path, str):
        return
    own, below = PurePath(path).is_relative_to(agent.cwd), PurePath(path).is_relative_to
    if below(agent.cwd / "other") or (not own and below(Path.cwd())):
        fail(f"the session of {agent.cwd} reads {path}")


@case("nested/null-result", level=MUST, source=ACP, section="File System, Writing Files", needs="write", shared=True)
async def takes_null_for_an_answer(agent: Agent) -> None:
    """The result null of a written file lets the turn go on."""
    agent.hold("fs/write_text_file")
    prompt = await agent.prompt(await agent.session(), "write")
    await (await agent.next_request("fs/write_text_file")).answer(None)
    await prompt.answer()


@case(
    "nested/error-answered",
    level=MUST,
    source="JSON-RPC 2.0",
    section="5",
    behaviours=["A1", "C14"],
    needs="read",
    shared=True,
)
async def survives_an_error(agent: Agent) -> None:
    """A turn whose request the client answers with an error is answered all the same."""
    prompt, request = await reading(agent, await agent.session())
    await request.refuse(-32603, "The file cannot be read")
    await prompt.answer()
    await agent.fence()


@case(
    "nested/cancelled-by-the-client",
    level=SHOULD,
    source=ACP,
    section="Prompt Turn, Stop Reasons",
    behaviours=["C12"],
    needs="read",
    shared=True,
)
async def the_clients_cancel_is_no_cancel_of_the_turn(agent: Agent) -> None:
    """A request that the client gives up (-32800) does not make its turn `cancelled`."""
    prompt, request = await reading(agent, await agent.session())
    await request.refuse(-32800, "Request cancelled")
    answer = await prompt.answer()
    if stop_reason(answer.get("result")) == "cancelled" or (answer.get("error") or {}).get("code") == -32800:
        fail("the turn ended as if the client had cancelled it")


@case(
    "nested/malformed-answer", level=SHOULD, source="JSON-RPC 2.0", section="5", behaviours=["A11", "A12"], needs="read"
)
async def survives_a_malformed_answer(agent: Agent) -> None:
    """An answer of the client that is malformed does not end the connection."""
    _, request = await reading(agent, await agent.session())
    await agent.send({"jsonrpc": "2.0", "id": request.id, "error": "boom"})
    await agent.fence()


@case(
    "nested/cancelled-turn-ends",
    level=MUST,
    source=ACP,
    section="Prompt Turn, Cancellation",
    behaviours=["F1", "C13"],
    needs="nested",
)
async def cancelled_turn_ends(agent: Agent) -> None:
    """A turn that is cancelled while it waits for the client is answered `cancelled`."""
    session = await agent.session()
    prompt, request = await in_flight(agent, session)
    await agent.cancel(session)
    await agent.fence()
    if not request.answered:
        # An agent that does not withdraw its request may wait for it: it gets the answer that a withdrawal would get.
        await request.refuse(-32800, "Request cancelled")
    # A question for permission was answered by the cancel itself, which is a case of its own.
    asks = request.method == "session/request_permission"
    with belongs_to("permission/cancelled-turn-ends" if asks else ""):
        await ends_cancelled(prompt)


@case("nested/withdrawn", level=SHOULD, source=SOURCE, section=CASCADE, behaviours=["C1", "F14"], needs="nested")
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


@case("nested/withdrawn-once", level=SHOULD, source=SOURCE, section=CASCADE, behaviours=["C2"], needs="nested")
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
    behaviours=["C16", "B12"],
    needs="nested",
)
async def withdraws_its_own(agent: Agent) -> None:
    """What the agent withdraws is a request of its own, by the very id that it was sent with."""
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
    behaviours=["C3"],
    needs="read",
)
async def does_not_withdraw_the_answered(agent: Agent) -> None:
    """A request that was answered is not withdrawn."""
    prompt, request = await reading(agent, await agent.session())
    await request.answer(TEXT)
    await prompt.answer()
    await agent.settle()
    if request.withdrawals:
        fail(f"$/cancel_request for {request.method}, which had its answer")


@case("nested/withdrawn-by-id", level=SHOULD, source=SOURCE, section=CASCADE, behaviours=["C1", "C11"], needs="nested")
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
    behaviours=["F6"],
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


@case(
    "nested/waits-for-the-client", level=CHOICE, source=ACP, section="Cancellation", behaviours=["C13"], needs="nested"
)
async def waits_for_the_client(agent: Agent) -> None:
    """Whether a cancelled turn waits for the client's answer to what it withdrew is left open."""
    agent.yields_to_cancel = False
    session = await agent.session()
    prompt, _ = await in_flight(agent, session)
    await agent.cancel(session, answer_permissions=False)
    choice("it does not wait" if await ends_without_the_client(agent, prompt) else "it waits")


@case("nested/late-answer", level=MUST, source="JSON-RPC 2.0", section="5", behaviours=["C5", "A11"], needs="nested")
async def ignores_a_late_answer(agent: Agent) -> None:
    """An answer to a request that was withdrawn is ignored."""
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
    behaviours=["F9", "B17"],
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
    """Whether the prompt is answered though the client answers nothing."""
    try:
        await prompt.answer(within=min(EFFECT_SECONDS, agent.patience / 2))
    except NoAnswer:
        return False
    return True
