"""The replay of a session, which must be complete, and must have nothing of other sessions."""

from __future__ import annotations

from acp_conformance.agent.cases.session_cancel import ends_cancelled, running
from acp_conformance.agent.cases.session_pages import replay
from acp_conformance.agent.cases.sessions_known import LOADING, RESUMING, capable, reopen
from acp_conformance.agent.exchange import Flooded
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Update
from acp_conformance.core.case import MUST, fail, not_applicable, skip

ACP = "ACP v1"
LONG = 200_000
"""Characters of a long prompt. Pipes hold less, and so do buffers that are filled once."""

ENDED = ("completed", "failed")


def _said(updates: list[Update], kind: str = "user_message_chunk") -> str:
    return "".join(each.text for each in updates if each.kind == kind)


async def _taken(agent: Agent, session: str, *texts: str) -> None:
    """Prompt with blocks of text. The case ends without a verdict if the agent refuses so long a prompt."""
    blocks = [{"type": "text", "text": text} for text in texts]
    answer = await (await agent.say(session, blocks)).answer()
    if "error" in answer:
        skip(f"the prompt is answered with an error: {answer['error']!s:.200}")


@case("sessions/load-replays-long", level=MUST, source=ACP, section=LOADING, needs="quick")
async def load_replays_long(agent: Agent) -> None:
    """A prompt of 200,000 characters is replayed completely."""
    await capable(agent, "loadSession")
    session = await agent.session()
    text = f"{agent.text_of('quick')} " + "".join(f"{number:09} " for number in range(LONG // 10))
    try:
        await _taken(agent, session, text)
        replayed = _said(await replay(agent, session))
    except Flooded as flooded:
        # An agent may repeat the prompt, in chunks of any size.
        skip(flooded.reason)
    if text not in replayed:
        same = next((at for at, pair in enumerate(zip(text, replayed, strict=False)) if pair[0] != pair[1]), None)
        where = min(len(text), len(replayed)) if same is None else same
        fail(f"of {len(text):,} characters the replay has {len(replayed):,}, the same up to character {where:,}")


@case("sessions/load-replays-all-blocks", level=MUST, source=ACP, section=LOADING, needs="quick", shared=True)
async def load_replays_all_blocks(agent: Agent) -> None:
    """Every block of a prompt is replayed."""
    await capable(agent, "loadSession")
    session = await agent.session()
    texts = (agent.text_of("quick"), " This is the second block.", " This is the third.")
    await _taken(agent, session, *texts)
    replayed = _said(await replay(agent, session))
    if missing := [text for text in texts if text not in replayed]:
        fail(f"the replay has {replayed!r:.200}, and nothing of {missing!r:.200}")


@case("sessions/load-replays-one-session", level=MUST, source=ACP, section=LOADING, needs="quick", shared=True)
async def load_replays_one_session(agent: Agent) -> None:
    """Loading a session replays nothing of other sessions."""
    await capable(agent, "loadSession")
    session, other = await agent.session(), await agent.session()
    await _taken(agent, session, agent.text_of("quick"))
    strange = " This was said in another session."
    await _taken(agent, other, agent.text_of("quick"), strange)
    said, elsewhere = (_said(agent.updates(each), "agent_message_chunk") for each in (session, other))
    found = await replay(agent, session)
    if strange in (replayed := _said(found)):
        fail(f"the replay has text of another session: {replayed!r:.200}")
    if elsewhere and _said(found, "agent_message_chunk") in (said + elsewhere, elsewhere + said):
        fail(f"the replay has the agent's text of another session: {elsewhere!r:.200}")


@case("sessions/load-replays-cancelled", level=MUST, source=ACP, section=LOADING, needs="hang", shared=True)
async def load_replays_cancelled(agent: Agent) -> None:
    """A cancelled turn is replayed, with its messages until the cancel."""
    await capable(agent, "loadSession")
    session = await agent.session()
    prompt = await running(agent, session)
    await agent.cancel(session)
    await ends_cancelled(prompt)
    said = _said(agent.updates(session, since=prompt.since), "agent_message_chunk")
    found = await replay(agent, session)
    for who, text, kind in (
        ("user", agent.text_of("hang"), "user_message_chunk"),
        ("agent", said, "agent_message_chunk"),
    ):
        if text not in (replayed := _said(found, kind)):
            fail(f"the {who} said {text!r:.150}, the replay has {replayed!r:.150}")


@case("sessions/load-replays-tool-ends", level=MUST, source=ACP, section=LOADING, needs="tool", shared=True)
async def load_replays_tool_ends(agent: Agent) -> None:
    """A tool call that has ended is replayed with its final status."""
    await capable(agent, "loadSession")
    session = await agent.session()
    await (await agent.prompt(session, "tool")).result()
    lived = {id: status for id, status in _statuses(agent.updates(session)).items() if status in ENDED}
    if not lived:
        not_applicable("no tool call has a final status")
    replayed = _statuses(await replay(agent, session))
    for id, status in lived.items():
        if id in replayed and replayed[id] != status:
            fail(f"the tool call {id!r} was {status}, and is {replayed[id]} in the replay")


def _statuses(updates: list[Update]) -> dict[str, str]:
    """Return the last status of each tool call. A missing status counts as pending."""
    found: dict[str, str] = {}
    for each in updates:
        if each.kind in ("tool_call", "tool_call_update"):
            id = str(each.body.get("toolCallId"))
            found[id] = str(each.body.get("status") or found.get(id, "pending"))
    return found


@case("sessions/resume-keeps-history", level=MUST, source=ACP, section=RESUMING, needs="quick", shared=True)
async def resume_keeps_history(agent: Agent) -> None:
    """A resumed session still has its conversation, and new messages follow it."""
    await capable(agent, "loadSession", "sessionCapabilities.resume")
    session = await agent.session()
    first, second = " This was said first.", " This was said second."
    await _taken(agent, session, agent.text_of("quick"), first)
    await (await reopen(agent, "session/resume", session)).result()
    await _taken(agent, session, agent.text_of("quick"), second)
    replayed = _said(await replay(agent, session))
    places = [replayed.find(text) for text in (first, second)]
    if -1 in places or places != sorted(places):
        fail(f"{first!r} and {second!r} were said, the replay has {replayed!r:.300}")
