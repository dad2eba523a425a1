"""The commands that a session offers have names that clients can show."""

import pytest

from acp_server import Agent, Session, Turn
from acp_server.errors import UsageError
from acp_server.schema import AvailableCommand
from tests.session.editor import editing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["/scan"], "must be one word without a slash, such as 'notes', not '/scan'"),
        ([""], "must be one word without a slash, such as 'notes', not ''"),
        (["go", "run tests"], "must be one word without a slash, such as 'notes', not 'run tests'"),
        (["go", "scan", "go"], "there are two commands with the name 'go'"),
    ],
)
async def test_a_command_that_clients_cannot_show_is_refused_and_none_is_offered(names: list[str], words: str) -> None:
    agent = Agent("commands")

    @agent.session
    async def prepare(session: Session) -> None:
        with pytest.raises(UsageError, match=words):
            await session.set_commands([AvailableCommand(name=name, description="") for name in names])

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        session = await editor.open()
        assert editor.client.updates(session) == []
