"""Capabilities: the agent uses only capabilities of the client, and serves the capabilities that it announces."""

from __future__ import annotations

import base64

from acp_conformance.agent.observed import Observed
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail, not_applicable

ACP = "ACP v1"
CAPABILITIES = "Initialization, Capabilities"

# One black pixel, and an eighth of a second of silence.
_PNG = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()
_WAV = base64.b64encode(
    b"RIFF\x0c\x04\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00"
    b"data\xe8\x03\x00\x00" + b"\x80" * 1000
).decode()


async def _never(agent: Agent, situation: str, methods: tuple[str, ...], **capabilities: object) -> None:
    """Run a situation for a client without a capability. The agent must call none of the methods."""
    await agent.initialize(**capabilities)
    session = await agent.session()
    prompt = await agent.prompt(session, situation)
    called = await agent.wait_for(
        lambda: next(
            (each.method for each in agent.requests if each.method in methods), "" if prompt.answers else None
        ),
        "the answer to the prompt",
    )
    if called:
        fail(f"it calls {called}")


@case("gating/read", level=MUST, source=ACP, section="File System, Checking Support", needs="read")
async def read(agent: Agent) -> None:
    """Without `fs.readTextFile`, fs/read_text_file is never called."""
    await _never(agent, "read", ("fs/read_text_file",), fs={"readTextFile": False, "writeTextFile": True})


@case("gating/write", level=MUST, source=ACP, section="File System, Checking Support", needs="write")
async def write(agent: Agent) -> None:
    """Without `fs.writeTextFile`, fs/write_text_file is never called, even if the client can read files."""
    await _never(agent, "write", ("fs/write_text_file",), fs={"readTextFile": True})


@case("gating/terminal", level=MUST, source=ACP, section="Terminals, Checking Support", needs="terminal")
async def terminal(agent: Agent) -> None:
    """Without `terminal`, no method of terminals is called."""
    methods = ("create", "output", "wait_for_exit", "kill", "release")
    await _never(agent, "terminal", tuple(f"terminal/{name}" for name in methods), terminal=False)


_ASKING = ("quick", "permission", "tool", "read", "write", "reports")
"""Situations that end by themselves, in which an agent may send a request."""


async def _no_forms(agent: Agent, elicitation: object) -> None:
    await agent.initialize(elicitation=elicitation)
    for situation in _ASKING:
        if situation in agent.profile.situations:
            await _ends(agent, situation)


async def _ends(agent: Agent, situation: str) -> None:
    prompt = await agent.prompt(await agent.session(), situation)
    await prompt.answer()
    if asked := [each.position for each in agent.requests if each.method == "elicitation/create"]:
        fail("it calls elicitation/create", at=asked[0])


@case("gating/empty-elicitation", level=MUST, source=ACP, section="Elicitation, Checking support", needs="quick")
async def empty_elicitation(agent: Agent) -> None:
    """A client whose `elicitation` is empty gets no request for a form."""
    await _no_forms(agent, {})


@case("gating/null-form", level=MUST, source=ACP, section="Elicitation, Checking support", needs="quick")
async def null_form(agent: Agent) -> None:
    """A client whose `elicitation.form` is null gets no request for a form."""
    await _no_forms(agent, {"form": None})


@case("gating/nothing-announced", level=MUST, source=ACP, section=CAPABILITIES, needs="read")
async def nothing_announced(agent: Agent) -> None:
    """A client that lists no capabilities gets no request for files."""
    agent.checker.client_capabilities = {}
    result = await (await agent.request("initialize", {"protocolVersion": 1})).result()
    agent.initialized = result
    session = await agent.session()
    prompt = await agent.prompt(session, "read")
    called = await agent.wait_for(
        lambda: (
            next((each.method for each in agent.requests if each.method.startswith("fs/")), None)
            or ("" if prompt.answers else None)
        ),
        "the answer to the prompt",
    )
    if called:
        fail(f"it calls {called}")


@case("gating/never-unannounced", level=MUST, source=ACP, section=CAPABILITIES, whole_run=True)
async def never_unannounced(observed: Observed) -> None:
    """Nothing that the agent sends needs a capability that the client has not announced."""
    own = ("read", "write", "terminal", "nothing-announced")
    observed.forbid("capability", told_by=[f"gating/{name}" for name in own])


@case("gating/terminal-authentication", level=MUST, source=ACP, section="Authentication, Terminal authentication")
async def terminal_authentication(agent: Agent) -> None:
    """Ways to authenticate in a terminal are offered only to clients that announce `auth.terminal`."""
    methods = (await agent.initialize()).get("authMethods") or []
    if any(isinstance(method, dict) and method.get("type") == "terminal" for method in methods):
        fail("a terminal method is offered")


@case("gating/boolean-options", level=MUST, source=ACP, section="Session Config Options, Boolean Config Options")
async def boolean_options(agent: Agent) -> None:
    """Boolean options are shown only to clients that announce them."""
    await agent.session()
    options = [
        option
        for entry in agent.received
        if isinstance(entry.message, dict) and isinstance(entry.message.get("result"), dict)
        for option in entry.message["result"].get("configOptions") or ()
    ]
    if not options:
        not_applicable("it has no config options")
    if any(isinstance(option, dict) and option.get("type") == "boolean" for option in options):
        fail("a boolean option is shown")


@case("gating/text", level=MUST, source=ACP, section="Initialization, Prompt capabilities", needs="quick", shared=True)
async def text(agent: Agent) -> None:
    """A prompt of several text blocks is accepted."""
    await _takes(agent, {"type": "text", "text": "\n"})


@case(
    "gating/resource-link",
    level=MUST,
    source=ACP,
    section="Initialization, Prompt capabilities",
    needs="quick",
    shared=True,
)
async def resource_link(agent: Agent) -> None:
    """A prompt with a link to a resource is accepted, because every agent must support links."""
    await _takes(agent, {"type": "resource_link", "uri": "file:///conformance/notes.txt", "name": "notes.txt"})


@case("gating/image", level=MUST, source=ACP, section="Initialization, Prompt capabilities", needs="quick", shared=True)
async def image(agent: Agent) -> None:
    """An agent that announces images accepts a prompt with an image."""
    await _takes(agent, {"type": "image", "data": _PNG, "mimeType": "image/png"}, "image")


@case("gating/audio", level=MUST, source=ACP, section="Initialization, Prompt capabilities", needs="quick", shared=True)
async def audio(agent: Agent) -> None:
    """An agent that announces audio accepts a prompt with audio."""
    await _takes(agent, {"type": "audio", "data": _WAV, "mimeType": "audio/wav"}, "audio")


@case(
    "gating/embedded-context",
    level=MUST,
    source=ACP,
    section="Initialization, Prompt capabilities",
    needs="quick",
    shared=True,
)
async def embedded_context(agent: Agent) -> None:
    """An agent that announces embedded context accepts a prompt with an embedded resource."""
    resource = {"uri": "file:///conformance/notes.txt", "mimeType": "text/plain", "text": "some notes"}
    await _takes(agent, {"type": "resource", "resource": resource}, "embeddedContext")


async def _takes(agent: Agent, block: dict[str, object], capability: str = "") -> None:
    await agent.initialize()
    if capability and not agent.can(f"promptCapabilities.{capability}"):
        not_applicable(f"promptCapabilities.{capability} is not announced")
    session = await agent.session()
    await (await agent.say(session, [{"type": "text", "text": agent.text_of("quick")}, block])).result()


# An announced method is served, another one refused: one case for each method.

_OPTIONAL = {
    "load": ("session/load", "loadSession"),
    "resume": ("session/resume", "sessionCapabilities.resume"),
    "list": ("session/list", "sessionCapabilities.list"),
    "close": ("session/close", "sessionCapabilities.close"),
    "delete": ("session/delete", "sessionCapabilities.delete"),
    "logout": ("logout", "auth.logout"),
}


async def _there(agent: Agent, name: str) -> None:
    method, capability = _OPTIONAL[name]
    await agent.initialize()
    if not agent.can(capability):
        not_applicable(f"{capability} is not announced")
    answer = await (await agent.request(method, _params(agent, name))).answer()
    if isinstance(error := answer.get("error"), dict) and error.get("code") == -32601:
        fail(f"{method} is answered with -32601")


async def _unannounced(agent: Agent, name: str) -> dict[str, object]:
    """Return the response to a method that is not announced."""
    method, capability = _OPTIONAL[name]
    await agent.initialize()
    if agent.can(capability):
        not_applicable(f"{capability} is announced")
    return await (await agent.request(method, _params(agent, name))).answer()


async def _refused(agent: Agent, name: str) -> None:
    answer = await _unannounced(agent, name)
    if "error" not in answer:
        fail(f"{_OPTIONAL[name][0]} succeeds: {answer.get('result')!r:.200}")


async def _answered(agent: Agent, name: str) -> None:
    answer = await _unannounced(agent, name)
    choice("refused" if "error" in answer else "served")


def _params(agent: Agent, name: str) -> dict[str, object]:
    match name:
        case "load" | "resume":
            return {"sessionId": "conformance-none", "cwd": str(agent.cwd), "mcpServers": []}
        case "close" | "delete":
            return {"sessionId": "conformance-none"}
        case _:
            return {}


@case("gating/has-load", level=MUST, source=ACP, section="Session Setup, Loading Sessions", shared=True)
async def has_load(agent: Agent) -> None:
    """An agent that announces `loadSession` has session/load."""
    await _there(agent, "load")


@case("gating/has-resume", level=MUST, source=ACP, section="Session Setup, Resuming Sessions", shared=True)
async def has_resume(agent: Agent) -> None:
    """An agent that announces `sessionCapabilities.resume` has session/resume."""
    await _there(agent, "resume")


@case("gating/has-list", level=MUST, source=ACP, section="Session List, Checking Support", shared=True)
async def has_list(agent: Agent) -> None:
    """An agent that announces `sessionCapabilities.list` has session/list."""
    await _there(agent, "list")


@case("gating/has-close", level=MUST, source=ACP, section="Session Setup, Closing Active Sessions", shared=True)
async def has_close(agent: Agent) -> None:
    """An agent that announces `sessionCapabilities.close` has session/close."""
    await _there(agent, "close")


@case("gating/has-delete", level=MUST, source=ACP, section="Session Delete, Checking Support", shared=True)
async def has_delete(agent: Agent) -> None:
    """An agent that announces `sessionCapabilities.delete` has session/delete."""
    await _there(agent, "delete")


@case("gating/has-logout", level=MUST, source=ACP, section="Authentication, Logging Out", shared=True)
async def has_logout(agent: Agent) -> None:
    """An agent that announces `auth.logout` has logout."""
    await _there(agent, "logout")


@case("gating/no-load", level=SHOULD, source=ACP, section="Session Setup, Loading Sessions", shared=True)
async def no_load(agent: Agent) -> None:
    """An agent that does not announce `loadSession` does not claim to have loaded a session."""
    await _refused(agent, "load")


@case("gating/no-resume", level=SHOULD, source=ACP, section="Session Setup, Resuming Sessions", shared=True)
async def no_resume(agent: Agent) -> None:
    """An agent that does not announce `sessionCapabilities.resume` does not claim to have resumed a session."""
    await _refused(agent, "resume")


@case("gating/no-list", level=CHOICE, source=ACP, section="Session List, Checking Support", shared=True)
async def no_list(agent: Agent) -> None:
    """The response to session/list without `sessionCapabilities.list` is left open."""
    await _answered(agent, "list")


@case("gating/no-close", level=CHOICE, source=ACP, section="Session Setup, Closing Active Sessions", shared=True)
async def no_close(agent: Agent) -> None:
    """The response to session/close without `sessionCapabilities.close` is left open."""
    await _answered(agent, "close")


@case("gating/no-delete", level=CHOICE, source=ACP, section="Session Delete, Checking Support", shared=True)
async def no_delete(agent: Agent) -> None:
    """The response to session/delete without `sessionCapabilities.delete` is left open."""
    await _answered(agent, "delete")


@case("gating/no-logout", level=CHOICE, source=ACP, section="Authentication, Logging Out", shared=True)
async def no_logout(agent: Agent) -> None:
    """The response to logout without `auth.logout` is left open."""
    await _answered(agent, "logout")
