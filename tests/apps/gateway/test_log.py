"""What is in the log: what became of each request, and nothing of what was said."""

import logging
import sqlite3
import sys

import pytest

from acp_server.agent.log import LogFormatter
from acp_server.apps.gateway.conversations import Conversations
from acp_server.apps.gateway.errors import agent_of

from .inside import Api, begin, ended

pytestmark = pytest.mark.anyio

REPEATER = """
import sys
from acp_server import Agent, RpcError

agent = Agent("repeater", version="1")


@agent.prompt
async def answer(turn):
    print(turn.text, file=sys.stderr, flush=True)
    if "die" in turn.text:
        sys.stdout.flush()
        import os
        os._exit(3)
    raise RpcError(turn.text, code=-32001, data={"said": turn.text})


agent.run()
"""
SECRET = "my-secret-words"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("text", [SECRET, f"die {SECRET}"])
async def test_nothing_that_was_said_is_in_the_log_at_the_default_level(
    api: Api, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    caplog.set_level(logging.DEBUG)
    async with api(agent=[sys.executable, "-c", REPEATER]) as http:
        chat = await ended(http, (await begin(http, text))["data"])
        assert chat["status"] == "failed"
    lines = [(record.levelno, record.getMessage() + (record.exc_text or "")) for record in caplog.records]
    assert not [line for level, line in lines if level >= logging.INFO and SECRET in line]
    # It is there for those who ask.
    assert [line for level, line in lines if SECRET in line]
    why = "a chat failed: the agent " + ("exited with status 3" if "die" in text else "answered with error -32001")
    assert why in [line for _, line in lines]
    assert ("the default agent has exited" in [line for _, line in lines]) == ("die" in text)


def test_the_log_names_the_agent_of_a_bot_by_the_bots_id() -> None:
    assert agent_of("7") == "the agent of bot 7"


@pytest.mark.parametrize(
    ("error", "told"), [(ValueError(SECRET), "ValueError"), (sqlite3.OperationalError(SECRET), "the store: it fails")]
)
async def test_a_fault_of_the_gateway_is_logged_with_its_place_and_without_its_text(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def broken(*_: object) -> None:
        raise error

    caplog.set_level(logging.DEBUG)
    async with api() as http:
        monkeypatch.setattr(Conversations, "page", broken)
        refused = (await http.get("/v1/conversations", params={"bot_id": "1"})).json()
        assert refused["msg"] == "internal error"
        monkeypatch.undo()
    entries = [(record.levelno, LogFormatter().format(record)) for record in caplog.records]
    assert not [entry for level, entry in entries if level >= logging.INFO and SECRET in entry]
    assert [entry for level, entry in entries if level < logging.INFO and SECRET in entry]
    (fault,) = [entry for level, entry in entries if level == logging.ERROR]
    assert "in broken" in fault
    assert fault.endswith(f"Outlined: {told}")
