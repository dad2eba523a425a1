"""The life of a prompt, whose response comes at once and whose progress is reported by states."""

from acp_conformance.client.conversation import Silent
from acp_conformance.client.subject import Client, brief
from acp_conformance.client.v2.registry import SOURCE, case
from acp_conformance.core.case import MUST, SHOULD, fail

_SECTION = "Prompt lifecycle"


async def _goes_on(client: Client, what: str) -> None:
    """Check that the client considers its turn ended, by waiting for the user's next prompt in the same session."""
    client.conversation.hold("session/prompt")
    await client.alive()  # the user goes on when the end is shown
    await client.user("again")
    try:
        second = await client.conversation.receive("session/prompt")
    except Silent:
        fail(f"{what}, and the user's next prompt does not come")
    if second.param("sessionId") != client.session_id:
        fail(f"the next prompt names {brief(second.param('sessionId'))}, the session is {client.session_id!r}")


async def _state(client: Client, state: str, **members: object) -> None:
    await client.update({"sessionUpdate": "state_update", "state": state, **members})


@case("v2-prompts/answer-is-not-the-end", level=MUST, source=SOURCE, section=_SECTION)
async def answer_is_not_the_end(client: Client) -> None:
    """The response to a prompt begins the work, so the client stays and accepts updates."""
    await client.prompt()
    await client.alive()
    await client.say("working")
    await client.nothing_answered("an update")


@case("v2-prompts/idle-ends", level=MUST, source=SOURCE, section=_SECTION, needs="again")
async def idle_ends(client: Client) -> None:
    """A client considers the work for a prompt ended at the state idle."""
    await client.prompt()
    await client.end_turn()
    await _goes_on(client, "the session is idle")


@case("v2-prompts/idle-without-reason", level=SHOULD, source=SOURCE, section=_SECTION, needs="again")
async def idle_without_reason(client: Client) -> None:
    """A client considers the work for a prompt ended at the state idle without a stop reason."""
    await client.prompt()
    await _state(client, "idle")
    await _goes_on(client, "the session is idle, without a stopReason")


@case("v2-prompts/error", level=MUST, source=SOURCE, section=_SECTION, needs="again")
async def error(client: Client) -> None:
    """After work that ends with the stop reason error, a client can prompt in the session again."""
    await client.prompt()
    await _state(client, "idle", stopReason="error", error={"code": -32603, "message": "Internal error"})
    await _goes_on(client, "the work ended with the stopReason error")


@case("v2-prompts/overtaken", level=MUST, source=SOURCE, section=_SECTION, needs="again")
async def overtaken(client: Client) -> None:
    """A response to a prompt that comes after the states running and idle does not begin the work again."""
    await client.initialize()
    await client.session()
    prompt = await client.arrived()
    echo = {"sessionUpdate": "user_message", "messageId": "late/1", "content": prompt.param("prompt")}
    await client.update(echo)
    await _state(client, "running")
    await _state(client, "idle", stopReason="end_turn")
    await client.conversation.reply(prompt, {"messageId": "late/1"})
    await _goes_on(client, "the session was idle before the prompt was answered")


@case("v2-prompts/unknown-state", level=MUST, source=SOURCE, section=_SECTION)
async def unknown_state(client: Client) -> None:
    """A client does not treat an unknown state as idle."""
    await client.prompt()
    await _state(client, "_conformance/dreaming")
    await client.alive()
    await _state(client, "requires_action")
    await client.say("still working")
    await client.alive()


@case("v2-prompts/repeated-state", level=MUST, source=SOURCE, section=_SECTION)
async def repeated_state(client: Client) -> None:
    """A repeated state has no further effect."""
    await client.prompt()
    for _ in range(3):
        await _state(client, "running", background=[])
    await client.nothing_answered("a state")
