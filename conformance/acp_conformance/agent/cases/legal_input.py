"""Unusual but valid input. An agent must accept everything that the schema allows."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from acp_conformance.agent.cases.turns import stop_reason
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, prompt_params
from acp_conformance.core.case import MUST, fail, not_applicable

ACP = "ACP v1"
CONTENT = "Content"


async def _taken(agent: Agent, *blocks: Mapping[str, Any]) -> None:
    """Prompt with these blocks after the text of a situation. The agent must serve the prompt."""
    text = {"type": "text", "text": agent.text_of("quick")}
    result = await (await agent.say(await agent.session(), _with(text, blocks))).result()
    if stop_reason(result) is None:
        fail(f"the prompt is answered with {result!r:.200}")


def _with(text: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [text, *blocks]


@case("turns/annotated-prompt", level=MUST, source=ACP, section=f"{CONTENT}, Text Content", needs="quick", shared=True)
async def annotated_prompt(agent: Agent) -> None:
    """A prompt with the annotations audience, priority and time is served."""
    notes = {"audience": ["assistant", "user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
    await _taken(agent, {"type": "text", "text": " ", "annotations": notes})


@case("turns/null-members", level=MUST, source=ACP, section="Schema, ContentBlock", needs="quick", shared=True)
async def null_members(agent: Agent) -> None:
    """A prompt is served although members of its content are null, where the schema allows null."""
    await _taken(agent, {"type": "text", "text": " ", "annotations": None, "_meta": None})


@case("turns/meta", level=MUST, source=ACP, section="Extensibility, The _meta Field", needs="quick", shared=True)
async def prompt_with_meta(agent: Agent) -> None:
    """A prompt with `_meta`, such as the data of a trace, is served."""
    session = await agent.session()
    meta = {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "conformance": [None]}
    params = {**prompt_params(session, agent.text_of("quick")), "_meta": meta}
    result = await (await agent.request("session/prompt", params)).result()
    if stop_reason(result) is None:
        fail(f"the prompt is answered with {result!r:.200}")


@case("turns/linked-resource", level=MUST, source=ACP, section=f"{CONTENT}, Resource Link", needs="quick", shared=True)
async def linked_resource(agent: Agent) -> None:
    """A prompt with a link to a resource that has all its members is served, because every agent must accept links."""
    link = {"type": "resource_link", "uri": (agent.cwd / "linked.txt").as_uri(), "name": "linked.txt"}
    (agent.cwd / "linked.txt").write_text("linked\n")
    await _taken(agent, link, {**link, "title": "Linked", "mimeType": "text/plain", "size": 7, "description": "a file"})


@case(
    "turns/embedded-blob", level=MUST, source=ACP, section=f"{CONTENT}, Embedded Resource", needs="quick", shared=True
)
async def embedded_blob(agent: Agent) -> None:
    """An agent that accepts embedded resources also accepts binary resources."""
    await agent.initialize()
    if not agent.can("promptCapabilities.embeddedContext"):
        not_applicable("promptCapabilities.embeddedContext is not announced")
    blob = base64.b64encode(bytes(range(256))).decode()
    resource = {"uri": "file:///conformance.bin", "blob": blob, "mimeType": "application/octet-stream"}
    await _taken(agent, {"type": "resource", "resource": resource})
