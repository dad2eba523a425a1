"""The page on the versions of the protocol lists the methods that the tables of the code have, and its sample runs."""

from pathlib import Path
from typing import get_args

import pytest

from acp_server import Agent, Call, Turn, schema
from acp_server.peer.call import Notice
from acp_server.schema import v2
from acp_server.schema.features import FEATURES, PUBLISHED, Unstable
from acp_server.session.live_session import LiveSession
from acp_server.session.negotiation import ClientProfile
from acp_server.session.v2.routes import Methods
from acp_server.testing import talk
from tests.prefork import Prefork

from .blocks import DOCS, run

PAGE = (DOCS / "protocol.md").read_text("utf-8")
METHODS = PAGE.partition("## Which methods are there")[2].partition("\n## ")[0]


def test_the_page_lists_every_method_of_each_version_and_no_other() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in METHODS.splitlines() if line.startswith("| `")]
    cells = {row[0].strip("`"): row[1:] for row in rows}
    assert len(cells) == len(rows)
    assert {name for name, row in cells.items() if row[0] == "both sides"} == set(schema.METHODS)
    assert {name for name, row in cells.items() if row[1:] != ["-", "-"]} == set(v2.METHODS)
    assert {cell for row in cells.values() for cell in row} == {"both sides", "yes", "-"}
    # What an agent is asked; the others it sends, or they are for both sides.
    asked = {name for name in v2.METHODS if v2.METHODS[name].receiver == "agent"} - {"initialize"}
    assert {name for name in asked if cells[name][1] == "yes"} == _routes()


def _routes() -> set[str]:
    agent = Agent("all", unstable=[*get_args(Unstable)])

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.authenticate("key", name="Key")
    async def key(call: Call) -> None: ...

    def find(_id: str) -> LiveSession:
        raise KeyError

    cancel = Notice(lambda _connection, _params: None)
    routes = Methods(agent._definition, ClientProfile(), {}, find).routes(cancel)
    return {name for name in [*routes.requests, *routes.notices] if not name.startswith("_")}


def test_the_table_of_features_is_that_of_the_code() -> None:
    section = PAGE.partition("## What is unstable")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    assert {row[0].strip("`"): (row[1].split()[0].rstrip(","), row[2]) for row in rows} == {
        name: (feature.state, feature.does) for name, feature in FEATURES.items()
    }
    assert PUBLISHED.date in section


@pytest.mark.anyio
async def test_protocol_unstable() -> None:
    async with talk(run("protocol.md", "unstable")["agent"]) as session:
        assert await session.ask("hello") == "I was told: You are a careful engineer."
        assert session.usage is not None
        assert (session.usage.used, session.usage.size) == (1280, 200_000)


def test_protocol_patches() -> None:
    found = run("protocol.md", "patches")
    assert found["unset"] == {"toolCallId": "call_1"}
    assert found["cleared"] == {"toolCallId": "call_1", "title": None}
    assert found["says_so"] is True


def test_protocol_record() -> None:
    found = run("protocol.md", "record")
    assert (found["call"]["title"], found["call"]["status"]) == ("Search", "completed")
    assert [update["sessionUpdate"] for update in found["replay"]] == [
        "tool_call_update",
        "session_info_update",
        "state_update",
    ]


@pytest.mark.anyio
async def test_protocol_asking(tmp_path: Path, forks: Prefork) -> None:
    ask = run("protocol.md", "asking")["ask"]
    agent = Path(__file__).parents[1] / "client" / "agents" / "ours.py"
    command = list(forks.stand_in(["-m", "acp_server", "serve", str(agent)]))
    assert await ask(command, str(tmp_path), "stream 3") == "012"
