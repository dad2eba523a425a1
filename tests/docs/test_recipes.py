"""The recipes of the guide for clients of models without a framework: what adapters promise, they keep as well."""

from collections.abc import Awaitable, Callable

import pytest

pytest.importorskip("openai", reason="openai is not installed: make test-integrations")
pytest.importorskip("anthropic", reason="anthropic is not installed: make test-integrations")

from acp_server import Agent
from tests.integrations import contract
from tests.integrations.model_server import ModelServer

from .blocks import run

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.fixture(params=["openai", "anthropic"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> contract.Make:
    def make(server: ModelServer, tools: contract.Tools) -> Agent:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url.removesuffix("/v1"))
        example = run("integrations.md", "openai") if request.param == "openai" else run("integrations.md", "anthropic")
        agent: Agent = example["agent"]
        agent.tool(name="look", description="Look for a word.")(tools.look)
        agent.tool(name="touch", description="Touch a word.", approval=True)(tools.look)
        return agent

    return make


@pytest.mark.parametrize("promise", contract.CONTRACT)
async def test_a_recipe_keeps_the_contract(
    promise: Callable[[contract.Make], Awaitable[None]], make: contract.Make
) -> None:
    await promise(make)


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
async def test_a_tool_that_needs_approval_asks_the_user(option: str, make: contract.Make) -> None:
    await contract.approval_decides(make, option)
