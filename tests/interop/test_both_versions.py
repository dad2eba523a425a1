"""Clients of version 1 of both official SDKs drive the very program that the clients of version 2 drive."""

from pathlib import Path

import pytest

from .editor import Editor, attached, text_block
from .subjects import working
from .typescript import Ended, drive

STOPPED = "cancelled: stopped in the middle"


@pytest.fixture
def anyio_backend() -> str:
    """The SDK's client runs on asyncio alone; our agent runs on trio here."""
    return "asyncio"


@pytest.mark.usefixtures("require_npm")
def test_the_typescript_client_of_version_1(tmp_path: Path) -> None:
    run = drive(
        working("asyncio"),
        tmp_path,
        [
            {"text": "say"},
            {"text": "hang", "cancelOn": "agent_message_chunk"},
            {"text": "hang", "cancelOn": "agent_message_chunk", "cancelBy": "signal"},
            {"text": "work", "cancelOn": "tool_call_update", "cancelBy": "tool"},
            {"text": "ask"},
            {"text": "next"},
        ],
    )
    assert run.turns() == [
        Ended("say", "end_turn", None, "one messageand another"),
        Ended("hang", "cancelled", None, "hanging"),
        Ended("hang", "cancelled", None, "hanging"),
        Ended("work", "end_turn", None, STOPPED),
        Ended("ask", "end_turn", None, "completed"),
        Ended("next", "end_turn", None, "re: next"),
    ]
    (initialized,) = [one["message"]["result"] for one in run.of("received") if _is_initialized(one["message"])]
    assert initialized["protocolVersion"] == 1


def _is_initialized(message: dict[str, object]) -> bool:
    result = message.get("result")
    return isinstance(result, dict) and "protocolVersion" in result


@pytest.mark.anyio
async def test_the_python_client_of_version_1(tmp_path: Path) -> None:
    editor = Editor()
    async with attached(editor, working("trio")) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        for text, said in [("say", "one messageand another"), ("ask", "completed"), ("next", "re: next")]:
            answer = await connection.prompt(session_id=session, prompt=[text_block(text)])
            assert (answer.stop_reason, editor.said.pop(session)) == ("end_turn", said)
