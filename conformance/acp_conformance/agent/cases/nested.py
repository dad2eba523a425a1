"""Requests of the agent to its client during a turn."""

from __future__ import annotations

from pathlib import Path, PurePath

from acp_conformance.agent.cases.cancel_request import SOURCE, supporting
from acp_conformance.agent.cases.turns import stop_reason
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Incoming, Pending, prompt_params
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable, skip
from acp_conformance.core.schema import same_id

ACP = "ACP v1"
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
    """Return a prompt that waits for a response of the client, and the agent's request."""
    agent.hold(*CLIENT_METHODS)
    prompt = await agent.prompt(session, "nested")
    request = await agent.wait_for(
        lambda: next((each for each in agent.held() if each.position >= prompt.since), None), "a request of the turn"
    )
    for method in CLIENT_METHODS:
        agent.on(method, agent.editor.handle)
    return prompt, request


async def reading(agent: Agent, session: str) -> tuple[Pending, Incoming]:
    """Return a prompt that waits for the content of a file, and the agent's request for the file."""
    agent.hold(READ)
    prompt = await agent.prompt(session, "read")
    return prompt, await agent.next_request(READ)


@case(
    "nested/answer-arrives",
    level=MUST,
    source="JSON-RPC 2.0",
    section="5",
    needs="read",
    shared=True,
)
async def answer_arrives(agent: Agent) -> None:
    """After the client's response, the waiting turn continues."""
    prompt, request = await reading(agent, await agent.session())
    await request.answer(TEXT)
    await prompt.result()


@case(
    "nested/answers-by-id",
    level=MUST,
    source="JSON-RPC 2.0",
    section="5",
    needs="read",
    shared=True,
)
async def answers_are_matched_by_id(agent: Agent) -> None:
    """The agent matches responses to requests by id, in any order."""
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
    needs=["nested", "hang"],
)
async def cancel_of_the_same_id(agent: Agent) -> None:
    """The cancel of a client's request does not affect the agent's request with the same id."""
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
    """A request for a file has the id of the session whose turn makes it."""
    session, _ = await agent.session(), await agent.session()
    _, request = await reading(agent, session)
    named = request.params.get("sessionId") if isinstance(request.params, dict) else None
    if named != session:
        fail(f"its sessionId is {named!r} instead of {session!r}")


@case("nested/own-folder", level=MUST, source=ACP, section=FOLDER, needs="read")
async def own_folder(agent: Agent) -> None:
    """A turn looks for a file in the folder of its own session, even if another session was created later."""
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


@case("nested/folder-of-a-loaded-session", level=SHOULD, source=ACP, section=FOLDER, needs="read")
async def folder_of_a_loaded_session(agent: Agent) -> None:
    """After a session was opened again with another folder, its turns look for files in that folder."""
    await agent.initialize()
    ways = {"session/load": "loadSession", "session/resume": "sessionCapabilities.resume"}
    method = next((method for method, capability in ways.items() if agent.can(capability)), None)
    if method is None:
        not_applicable("loadSession is not announced")
    session = await agent.session()
    before, agent.cwd = agent.cwd, agent.cwd / "other"
    agent.cwd.mkdir()
    params = {"sessionId": session, "cwd": str(agent.cwd), "mcpServers": []}
    if "error" in await (await agent.request(method, params)).answer():
        skip(f"{method} refuses another folder, or a session that has had no prompt")
    _, request = await reading(agent, session)
    path = request.params.get("path") if isinstance(request.params, dict) else None
    if isinstance(path, str) and PurePath(path).is_relative_to(before) and not PurePath(path).is_relative_to(agent.cwd):
        fail(f"the session was opened again in {agent.cwd}, and reads {path}")


@case("nested/null-result", level=MUST, source=ACP, section="File System, Writing Files", needs="write", shared=True)
async def takes_null_for_an_answer(agent: Agent) -> None:
    """After the result null for a written file, the turn continues."""
    agent.hold("fs/write_text_file")
    prompt = await agent.prompt(await agent.session(), "write")
    await (await agent.next_request("fs/write_text_file")).answer(None)
    await prompt.answer()


@case(
    "nested/error-answered",
    level=MUST,
    source="JSON-RPC 2.0",
    section="5",
    needs="read",
    shared=True,
)
async def survives_an_error(agent: Agent) -> None:
    """A prompt is answered even if the client answers a request of its turn with an error."""
    prompt, request = await reading(agent, await agent.session())
    await request.refuse(-32603, "The file cannot be read")
    await prompt.answer()
    await agent.fence()


@case(
    "nested/cancelled-by-the-client",
    level=SHOULD,
    source=ACP,
    section="Prompt Turn, Stop Reasons",
    needs="read",
    shared=True,
)
async def the_clients_cancel_is_no_cancel_of_the_turn(agent: Agent) -> None:
    """A request that the client cancels (-32800) does not make its turn `cancelled`."""
    prompt, request = await reading(agent, await agent.session())
    await request.refuse(-32800, "Request cancelled")
    answer = await prompt.answer()
    if stop_reason(answer.get("result")) == "cancelled" or (answer.get("error") or {}).get("code") == -32800:
        fail("the turn ended as if the client had cancelled it")


@case("nested/malformed-answer", level=SHOULD, source="JSON-RPC 2.0", section="5", needs="read")
async def survives_a_malformed_answer(agent: Agent) -> None:
    """A malformed response of the client does not end the connection."""
    _, request = await reading(agent, await agent.session())
    await agent.send({"jsonrpc": "2.0", "id": request.id, "error": "boom"})
    await agent.fence()
