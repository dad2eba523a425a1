"""The order of messages, and requests that run concurrently."""

from __future__ import annotations

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.observed import Observed
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail, skip

ACP = "ACP v1"
TURN = "Prompt Turn"


@case("ordering/updates-before-answer", level=MUST, source=ACP, section=TURN, needs="stream")
async def updates_before_answer(agent: Agent) -> None:
    """All updates of a turn come before the response to its prompt."""
    session = await agent.session()
    prompt = await agent.prompt(session, "stream")
    await prompt.result()
    await agent.fence()
    await agent.pause()  # EOF may keep an agent from sending its last updates
    await agent.settle()
    assert prompt.position is not None
    if late := agent.spoken(session, since=prompt.position):
        fail(f"{len(late)} updates come after the answer, the first is a {late[0].kind}", at=late[0].position)


@case(
    "ordering/says-before-answer",
    level=SHOULD,
    source=ACP,
    section=TURN,
    needs="stream",
    shared=True,
)
async def says_before_answer(agent: Agent) -> None:
    """A turn that streams reports its output while it runs, in updates of its own session."""
    session = await agent.session()
    prompt = await agent.prompt(session, "stream")
    await agent.said_something(prompt)


@case("ordering/chunks", level=MUST, source=ACP, section=TURN, needs="stream", shared=True)
async def chunks(agent: Agent) -> None:
    """The chunks of a message come in the right order."""
    says = agent.profile.situations["stream"].says
    if says is None:
        skip("the profile has no text (says) of the situation 'stream'")
    said = await _said(agent)
    if said == says:
        return
    # In another order, a text has the same characters. A different text proves nothing about the order if it varies.
    if sorted(said) != sorted(says) and await _said(agent) != said:
        skip("the situation 'stream' has a different text each time, so the profile cannot have it")
    fail(f"instead of {says!r:.200} it says {said!r:.200}")


async def _said(agent: Agent) -> str:
    """Return the whole text of a turn that streams, in a separate session."""
    session = await agent.session()
    prompt = await agent.prompt(session, "stream")
    await prompt.result()
    return "".join(each.text for each in agent.updates(session) if each.kind == "agent_message_chunk")


@case("ordering/tool-call-first", level=SHOULD, source=ACP, section="Tool Calls", whole_run=True)
async def tool_call_first(observed: Observed) -> None:
    """A tool call is reported before it is updated."""
    observed.forbid("tool-order")


@case("ordering/session-before-updates", level=CHOICE, source=ACP, section="Session Setup", shared=True)
async def session_before_updates(agent: Agent) -> None:
    """The specification leaves open whether updates of a new session come after the response with its id, as clients
    expect."""
    session = await agent.session()
    found = (
        entry.position
        for entry in agent.received
        if isinstance(entry.message, dict) and entry.message.get("result") is agent.new_session
    )
    made = next(found, 0)  # an answer in an array, which another case is about, is taken for the first
    await agent.fence()
    early = [each for each in agent.updates(session) if each.position < made]
    if early:
        choice(f"{len(early)} before, the first is a {early[0].kind}")


@case(
    "ordering/serves-during-turn",
    level=SHOULD,
    source=ACP,
    section=TURN,
    needs="hang",
    shared=True,
)
async def serves_during_turn(agent: Agent) -> None:
    """While a turn runs, other requests are served."""
    session = await agent.session()
    prompt = await agent.prompt(session, "hang")
    await agent.said_something(prompt)
    await agent.fence()


@case(
    "ordering/sessions-side-by-side",
    level=SHOULD,
    source=ACP,
    section="Overview",
    needs=["hang", "quick"],
    shared=True,
)
async def sessions_side_by_side(agent: Agent) -> None:
    """While the turn of one session runs, the turn of another session can run and end."""
    first, second = await agent.session(), await agent.session()
    hanging = await agent.prompt(first, "hang")
    await agent.said_something(hanging)
    await (await agent.prompt(second, "quick")).result()
    if hanging.answers:
        fail("the other turn has ended too")


@case("ordering/own-session", level=MUST, source=ACP, section=TURN, needs="stream", shared=True)
async def own_session(agent: Agent) -> None:
    """The updates of a turn have the id of its own session."""
    older, newer = await agent.session(), await agent.session()
    for session, other in ((newer, older), (older, newer)):
        prompt = await agent.prompt(session, "stream")
        await prompt.result()
        if strays := agent.spoken(other, since=prompt.since):
            fail(f"the turn of {session!r} sends a {strays[0].kind} to {other!r}")


@case(
    "ordering/next-turn",
    level=MUST,
    source=ACP,
    section="Prompt Turn, Check for Completion",
    needs="quick",
    shared=True,
)
async def next_turn(agent: Agent) -> None:
    """After the response to a prompt, the session accepts the next prompt."""
    session = await agent.session()
    await (await agent.prompt(session, "quick")).result()
    await (await agent.prompt(session, "quick")).result()


@case("ordering/pipelined", level=MUST, source="JSON-RPC 2.0", section="5 Response object")
async def pipelined(agent: Agent) -> None:
    """Each of two hundred requests that are sent without waiting is answered exactly once."""
    await agent.initialize()
    asked = [await agent.request("_conformance/unknown", {"n": n}) for n in range(200)]
    for each in asked:
        await each.answer()
    await agent.settle()
    if twice := [each.id for each in asked if len(each.answers) > 1]:
        fail(f"{len(twice)} of them have more than one answer, the first is {twice[0]!r}")


@case("ordering/initialize-pipelined", level=CHOICE, source=ACP, section="Initialization")
async def initialize_pipelined(agent: Agent) -> None:
    """A session/new directly after initialize, before its response, is served or refused."""
    first = await agent.ask_initialize()
    second = await agent.request("session/new", {"cwd": str(agent.cwd), "mcpServers": []})
    await first.result()
    answer = await second.answer()
    choice(f"refused with {code_of(answer)}" if "error" in answer else "served")
