"""The life of a prompt: the response when it is inserted, the states, and the end, which is reported once."""

from __future__ import annotations

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.subject import Agent, Pending, prompt_params
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    INVALID_PARAMS,
    LIFE,
    NOT_FOUND,
    begin,
    ends,
    prompt,
    reached,
    refused,
    run,
    session_of,
    short,
    states,
    working,
)
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail

SECTION = "Prompt lifecycle"


async def _message_id(prompt: Pending) -> str:
    result = await prompt.result()
    id = result.get("messageId") if isinstance(result, dict) else None
    if not isinstance(id, str):
        fail(f"the result is {short(result)}", at=prompt.position)
    return id


@case("v2-prompts/message-id", level=MUST, source=SOURCE, section=SECTION, needs="quick")
async def message_id(agent: Agent) -> None:
    """The response to a prompt has the id of the inserted message."""
    session = await session_of(agent)
    await _message_id(await prompt(agent, session, "quick"))


@case("v2-prompts/own-id", level=MUST, source=SOURCE, section=SECTION, needs="quick", after=LIFE)
async def own_id(agent: Agent) -> None:
    """The message of each prompt has a different id."""
    session = await session_of(agent)
    ids: list[str] = []
    for _ in range(2):
        since = len(agent.received)
        ids.append(await _message_id(await prompt(agent, session, "quick")))
        await reached(agent, session, "idle", since=since)
    if ids[0] == ids[1]:
        fail(f"both are {ids[0]!r}")


@case("v2-prompts/echo", level=MUST, source=SOURCE, section=SECTION, needs="quick", after="v2-prompts/message-id")
async def echo(agent: Agent) -> None:
    """The agent reports the prompt as a message of the user, with the id of the response and the content of the
    prompt."""
    session = await session_of(agent)
    asked = await prompt(agent, session, "quick")
    id = await _message_id(asked)
    await reached(agent, session, "idle")
    text = ""
    for update in agent.updates(session):
        if update.body.get("messageId") != id:
            continue
        if update.kind == "user_message_chunk":
            text += update.text
        elif update.kind == "user_message":
            blocks = update.body.get("content")
            blocks = blocks if isinstance(blocks, list) else []
            text = "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    if text != (wanted := agent.text_of("quick")):
        fail(f"the message {id!r} says {short(text)} instead of {short(wanted)}")


@case("v2-prompts/answered-at-insertion", level=MUST, source=SOURCE, section=SECTION, needs="hang")
async def answered_at_insertion(agent: Agent) -> None:
    """A prompt is answered when its message is inserted, while its work still runs."""
    session = await session_of(agent)
    await (await prompt(agent, session, "hang")).result()
    await reached(agent, session, "running")


@case(LIFE, level=MUST, source=SOURCE, section=SECTION, needs="quick")
async def running_then_idle(agent: Agent) -> None:
    """Work begins with the state running and ends with idle."""
    session = await session_of(agent)
    await (await prompt(agent, session, "quick")).result()
    begun, ended = await reached(agent, session, "running"), await reached(agent, session, "idle")
    if begun.position > ended.position:
        fail("idle came before running", at=ended.position)


@case("v2-prompts/one-idle", level=SHOULD, source=SOURCE, section=SECTION, needs="quick", after=LIFE)
async def one_idle(agent: Agent) -> None:
    """The agent reports the end of work once."""
    session = await session_of(agent)
    await run(agent, session, "quick")
    await agent.fence()
    await agent.pause()
    if (count := len(states(agent, session, "idle"))) != 1:
        fail(f"{count} times idle for one run of work")


@case("v2-prompts/states-each", level=MUST, source=SOURCE, section=SECTION, needs="quick", after=LIFE)
async def states_each(agent: Agent) -> None:
    """The work of each prompt has its own states running and idle."""
    session = await session_of(agent)
    for _ in range(3):
        since = len(agent.received)
        await run(agent, session, "quick")
        if not states(agent, session, "running", since=since):
            fail("the work of a later prompt was never running")


@case("v2-prompts/stays-idle", level=MUST, source=SOURCE, section=SECTION, needs="quick", after=LIFE)
async def stays_idle(agent: Agent) -> None:
    """A state that is reported when the work has ended is idle, or idle again at last."""
    session = await session_of(agent)
    await run(agent, session, "quick")
    await agent.fence()
    await agent.pause()
    last = states(agent, session)[-1]
    if last.body.get("state") != "idle":
        # The agent may begin work by itself.
        await reached(agent, session, "idle", since=last.position)


@case("v2-prompts/stop-reason", level=SHOULD, source=SOURCE, section=SECTION, needs="quick")
async def stop_reason(agent: Agent) -> None:
    """The state idle has the stop reason of the work."""
    session = await session_of(agent)
    await (await prompt(agent, session, "quick")).result()
    if not isinstance((await reached(agent, session, "idle")).body.get("stopReason"), str):
        fail("idle has no stopReason")


@case("v2-prompts/silent-when-idle", level=SHOULD, source=SOURCE, section=SECTION, needs="stream", after=LIFE)
async def silent_when_idle(agent: Agent) -> None:
    """The updates of a prompt's work come before its idle."""
    session = await session_of(agent)
    behind = (await run(agent, session, "stream"))[-1].position
    await agent.fence()
    await agent.pause()
    kinds = ("agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk", "tool_call_update")
    if late := [each for each in agent.updates(session) if each.position > behind and each.kind in kinds]:
        fail(f"{late[0].kind} comes behind idle", at=late[0].position)


@case("v2-prompts/failure", level=MUST, source=SOURCE, section=SECTION, needs="fails", after=LIFE)
async def failure(agent: Agent) -> None:
    """Work that fails after the insertion ends in the state idle with the stop reason error, and the response to the
    prompt is a result."""
    session = await session_of(agent)
    asked = await prompt(agent, session, "fails")
    await asked.result()
    await ends(agent, session, "error")
    await agent.fence()
    if len(asked.answers) != 1:
        fail(f"{len(asked.answers)} answers to one prompt")


@case("v2-prompts/failure-error", level=MUST, source=SOURCE, section=SECTION, needs="fails", after="v2-prompts/failure")
async def failure_error(agent: Agent) -> None:
    """The error of failed work, if it is reported, has a code and a message."""
    session = await session_of(agent)
    await (await prompt(agent, session, "fails")).result()
    idle = await reached(agent, session, "idle")
    error = idle.body.get("error")
    if error is None:
        return
    if not (isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)):
        fail(f"the error is {short(error)}", at=idle.position)


@case("v2-prompts/unknown-session", level=MUST, source=SOURCE, section="Errors")
async def unknown_session(agent: Agent) -> None:
    """A prompt for a session that does not exist is refused with -32002."""
    await begin(agent)
    await refused(agent, "session/prompt", prompt_params("no-such-session", "hello"), NOT_FOUND)


@case("v2-prompts/unknown-session-data", level=SHOULD, source=SOURCE, section="Errors")
async def unknown_session_data(agent: Agent) -> None:
    """The data of the error about a session that does not exist names the session."""
    await begin(agent)
    error = await refused(agent, "session/prompt", prompt_params("no-such-session", "hello"))
    if not isinstance(data := error.get("data"), dict) or data.get("sessionId") != "no-such-session":
        fail(f"data is {short(data)}")


@case("v2-prompts/empty", level=CHOICE, source=SOURCE, section=SECTION)
async def empty(agent: Agent) -> None:
    """Whether a prompt without a block is refused, with -32602, is left open."""
    session = await session_of(agent)
    answer = await (await agent.request("session/prompt", prompt_params(session, []))).answer()
    code = code_of(answer)
    choice("accepts it" if code is None else f"refuses it with {code}")


@case("v2-prompts/malformed-block", level=MUST, source=SOURCE, section="Content")
async def malformed_block(agent: Agent) -> None:
    """A block of a known kind that lacks a required member is refused with -32602, and no work begins."""
    await _malformed(agent, [{"type": "text"}])


@case("v2-prompts/beside-others", level=MUST, source=SOURCE, section=SECTION, needs=("hang", "quick"), after=LIFE)
async def other_sessions(agent: Agent) -> None:
    """While a session works, the agent serves other sessions."""
    await working(agent)
    other = await session_of(agent)
    await (await prompt(agent, other, "quick")).result()
    await reached(agent, other, "idle")


async def _malformed(agent: Agent, blocks: list[dict[str, str]]) -> None:
    session = await session_of(agent)
    await refused(agent, "session/prompt", prompt_params(session, blocks), INVALID_PARAMS)
    await agent.fence()
    if begun := states(agent, session, "running"):
        fail("work began", at=begun[0].position)
