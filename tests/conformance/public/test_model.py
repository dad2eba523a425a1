"""The model of this folder says what the prompt tells it to, in the words of each API."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
import pytest

from acp_conformance.agent import profile
from tests.conformance.public.__main__ import HERE
from tests.conformance.public.agents import AGENTS
from tests.conformance.public.model import app, reply

PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/test:streamGenerateContent",
    "responses": "/v1/responses",
}


def asking(api: str, text: str) -> dict[str, Any]:
    if api == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    if api == "responses":
        return {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]}
    return {"messages": [{"role": "user", "content": text}]}


def answer(api: str, text: str) -> tuple[int, str]:
    response = anyio.run(request, "POST", PATHS[api], asking(api, text))
    return response.status_code, response.text


async def request(method: str, path: str, content: object = None) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model") as client:
        return await client.request(method, path, json=content)


@pytest.mark.parametrize("api", PATHS)
def test_it_says_the_pieces_of_the_prompt_one_by_one(api: str) -> None:
    status, text = answer(api, 'Some context.\nmodel: ["one ", "two"]\nMore of it.')
    events = [line for line in text.splitlines() if line.startswith("data: ")]
    assert status == 200
    # At the end that API has the whole text once more.
    times = 2 if api == "responses" else 1
    assert [sum(word in event for event in events) for word in ("one ", "two")] == [times, times]


@pytest.mark.parametrize("api", PATHS)
def test_it_calls_a_tool_and_ends_when_that_has_answered(api: str) -> None:
    script = 'model: [{"read": {"path": "a.txt"}}]'
    status, text = answer(api, script)
    assert status == 200
    assert "read" in text
    assert "a.txt" in text
    results: Mapping[str, Any] = {
        "openai": {"role": "tool", "content": "first line"},
        "anthropic": {"role": "user", "content": [{"type": "tool_result", "content": "first line"}]},
        "gemini": {"role": "user", "parts": [{"functionResponse": {"name": "read"}}]},
        "responses": {"type": "function_call_output", "call_id": "call", "output": "first line"},
    }
    (asked,) = asking(api, script).values()
    assert reply([*asked, results[api]]) == ["Done."]


@pytest.mark.parametrize("api", PATHS)
def test_it_refuses_what_is_to_fail(api: str) -> None:
    status, text = answer(api, 'model: ["FAIL"]')
    assert (status, "error" in json.loads(text)) == (400, True)


def test_what_has_no_script_is_answered_and_what_it_does_not_know_is_not() -> None:
    assert "Well." in answer("openai", "Give it a title.")[1]
    assert anyio.run(request, "GET", "/v1/models").status_code == 404


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_has_a_profile(name: str) -> None:
    assert {"quick", "stream", "hang", "permission", "fails"} <= profile.load(
        str(HERE / f"{name}.toml")
    ).situations.keys()
