"""How a client opens a session, and resumes an earlier one."""

from acp_conformance.client.cases import load
from acp_conformance.client.subject import Client, brief
from acp_conformance.client.v2.registry import SOURCE, case, same_as
from acp_conformance.core.case import MUST, fail

_OLD = load()

same_as(_OLD["sessions/absolute-cwd"], "v2-sessions/absolute-cwd", "Session setup")
same_as(_OLD["turns/session-id"], "v2-sessions/session-id", "Prompt lifecycle")


@case("v2-sessions/replay", level=MUST, source=SOURCE, section="Session resume", needs="resume")
async def replay(client: Client) -> None:
    """A client that resumes a session accepts its history before the response, and prompts in that session."""
    client.conversation.hold("session/resume")
    await client.initialize()
    request = await client.conversation.receive("session/resume")
    client.begin_trial()
    id, cursor = request.param("sessionId"), request.param("replayFrom")
    if not isinstance(id, str):
        fail(f"sessionId is {brief(id)}")
    if cursor is not None and (not isinstance(cursor, dict) or cursor.get("type") != "start"):
        fail(f"replayFrom is {brief(cursor)}; start is the only cursor")
    client.session_id = id
    if cursor is not None:
        content = [{"type": "text", "text": "before"}]
        await client.update({"sessionUpdate": "user_message", "messageId": "old/1", "content": content})
        await client.update({"sessionUpdate": "agent_message", "messageId": "old/1", "content": content})
        await client.update({"sessionUpdate": "tool_call_update", "toolCallId": "old", "status": "completed"})
    await client.update({"sessionUpdate": "state_update", "state": "idle"})
    await client.conversation.reply(request, {})
    prompt = await client.prompted()
    if prompt.param("sessionId") != id:
        fail(f"the prompt names {brief(prompt.param('sessionId'))}, the session is {id!r}")
    await client.nothing_answered("the history")
