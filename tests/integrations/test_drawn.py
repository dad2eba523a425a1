"""What editors can draw of each of our agents, recorded, and the table that says so."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed: make test-integrations")
pytest.importorskip("langgraph", reason="the extra langgraph is not installed: make test-integrations")
pytest.importorskip("agents", reason="the extra openai-agents is not installed: make test-integrations")

from langchain_core.messages import AIMessage  # pyright: ignore[reportMissingImports]
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingImports]

from acp_server import Agent
from acp_server.apps.coder import agent as built_in
from acp_server.apps.coder.model_agent import model_agent
from acp_server.integrations.langgraph import from_graph
from tests.integrations import contract, test_langgraph, test_openai_agents, test_pydantic_ai
from tests.integrations.drawn import DRAWN, drawn
from tests.integrations.model_server import ModelServer, Stop, model_server, tool_call
from tests.integrations.test_model_agent import ALLOWED
from tests.session.editor import Editor, editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

THINKS = {"reasoning_content": "Hm."}
TOOLS = [[tool_call("look", {"word": "a"})], [tool_call("touch", {"word": "a"}, "call_2")], ["Done."]]
THOUGHT = [[THINKS, "Well.", Stop("stop")]]
WORK = [
    [THINKS, tool_call("plan", {"steps": [{"content": "Change it", "status": "pending"}]})],
    [tool_call("edit", {"path": "notes.txt", "old": "needle", "new": "pin"})],
    [tool_call("run", {"command": "cat notes.txt"})],
    ["Done."],
]
TABLE = Path(__file__).parents[2] / "docs" / "integrations.md"


@asynccontextmanager
async def recording(agent: Agent, project: Path) -> AsyncGenerator[tuple[Editor, str]]:
    async with editing(agent, capabilities={"_meta": {"terminal_output_delta": True}}) as editor:
        editor.client.answer(contract.PERMISSION, ALLOWED)
        yield editor, await editor.open(str(project))


async def of_the_built_in_agent(project: Path) -> set[str]:
    async with recording(built_in, project) as (editor, session):
        for prompt in ("/edit notes.txt needle => pin", "/run cat notes.txt"):
            await editor.ask(session, prompt)
        return drawn(editor.client.received)


async def of_a_model(server: ModelServer, agent: Agent, project: Path, replies: list[Any]) -> set[str]:
    server.replies, server.usage, server.model = list(replies), contract.USED, "gpt-5-mini"
    async with recording(agent, project) as (editor, session):
        assert (await editor.ask(session, "Change it."))["stopReason"] == "end_turn"
        return drawn(editor.client.received)


async def thinking(_state: Any) -> Any:
    return {"messages": [AIMessage([{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Well."}])]}


THINKING = StateGraph(MessagesState).add_node("think", thinking).add_edge(START, "think").compile()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("a needle\n")
    return tmp_path


async def recorded(column: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    if column == "built-in agent":
        return await of_the_built_in_agent(project)
    tools = contract.Tools()
    async with model_server() as server:
        if column == "`serve --model`":
            # A model at OpenAI, whose prices are known.
            monkeypatch.setattr(
                "acp_server.apps.coder.model_agent.find_model",
                lambda *_args, **_options: test_pydantic_ai.model_at(server, "gpt-5-mini"),
            )
            return await of_a_model(server, model_agent("openai:gpt-5-mini"), project, WORK)
        agents = {
            "pydantic-ai": partial(test_pydantic_ai.make, model="gpt-5-mini"),
            "OpenAI Agents": partial(test_openai_agents.make, model="gpt-5-mini"),
            "LangGraph": test_langgraph.make,
        }
        thinks = from_graph(THINKING) if column == "LangGraph" else agents[column](server, tools)
        thought = await of_a_model(server, thinks, project, THOUGHT)
        return thought | await of_a_model(server, agents[column](server, tools), project, TOOLS)


def table() -> dict[str, dict[str, str]]:
    """The cells, by their columns and rows."""
    lines = [line for line in TABLE.read_text().split("## What an editor can draw")[1].splitlines() if line[:1] == "|"]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {column: {row[0]: row[at] for row in rows} for at, column in enumerate(head) if at}


@pytest.mark.parametrize("column", ["built-in agent", "`serve --model`", "pydantic-ai", "LangGraph", "OpenAI Agents"])
async def test_the_table_says_what_is_drawn(column: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {row for row, cell in table()[column].items() if cell.startswith("yes")}
    assert said == await recorded(column, project, monkeypatch)


async def test_each_row_is_in_the_table_and_no_cell_lacks_a_reason() -> None:
    for cells in table().values():
        assert list(cells) == list(DRAWN)
        assert [cell for cell in cells.values() if not (cell.startswith("yes") or len(cell.split()) > 2)] == []
