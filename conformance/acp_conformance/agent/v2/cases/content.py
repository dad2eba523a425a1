"""The blocks of a prompt: those that every agent supports, and those that it refuses."""

from __future__ import annotations

from typing import Any

from acp_conformance.agent.subject import Agent, prompt_params
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import INVALID_PARAMS, LIFE, begin, reached, refused, session_of
from acp_conformance.core.case import MUST, not_applicable
from acp_conformance.core.schema import announced

SECTION = "Content"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OPTIONAL: dict[str, dict[str, Any]] = {
    "session.prompt.image": {"type": "image", "mimeType": "image/png", "data": PIXEL},
    "session.prompt.audio": {"type": "audio", "mimeType": "audio/wav", "data": "UklGRgAAAABXQVZF"},
    "session.prompt.embeddedContext": {"type": "resource", "resource": {"uri": "file:///conformance/a", "text": "a"}},
}
"""A block of each kind that an agent need not support, by its capability."""


@case("v2-prompts/resource-link", level=MUST, source=SOURCE, section=SECTION, needs="quick", after=LIFE)
async def resource_link(agent: Agent) -> None:
    """A link to a resource is accepted in a prompt."""
    session = await session_of(agent)
    (agent.cwd / "linked.txt").write_text("linked\n", "utf-8")
    link = {"type": "resource_link", "uri": (agent.cwd / "linked.txt").as_uri(), "name": "linked.txt"}
    blocks = [{"type": "text", "text": agent.text_of("quick")}, link]
    await (await agent.request("session/prompt", {"sessionId": session, "prompt": blocks})).result()
    await reached(agent, session, "idle")


@case("v2-prompts/unknown-block", level=MUST, source=SOURCE, section=SECTION)
async def unknown_block(agent: Agent) -> None:
    """A prompt with a block of an unknown kind is refused with -32602."""
    await _refuses(agent, {"type": "_conformance/hologram"})


@case("v2-prompts/unannounced-block", level=MUST, source=SOURCE, section=SECTION)
async def unannounced_block(agent: Agent) -> None:
    """A prompt with an image, audio or a resource is refused with -32602, unless the agent announces it."""
    capabilities = (await begin(agent)).get("capabilities") or {}
    unsupported = [block for capability, block in OPTIONAL.items() if not announced(capabilities, capability)]
    if not unsupported:
        not_applicable("it announces every kind of block")
    for block in unsupported:
        await _refuses(agent, block)


async def _refuses(agent: Agent, block: dict[str, Any]) -> None:
    session = await session_of(agent)
    text = prompt_params(session, "hello")["prompt"]
    await refused(agent, "session/prompt", {"sessionId": session, "prompt": [*text, block]}, INVALID_PARAMS)
