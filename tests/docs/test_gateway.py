"""The examples of the guide to the gateway, run against one."""

import json
import os
import re
import subprocess
import warnings
from collections.abc import Iterator

import pytest

from acp_server.gateway.auth import PERMISSIONS
from acp_server.gateway.errors import Code
from tests.gateway.serving import TOKEN, Server, ask, client, cozepy, serving

from .blocks import DOCS, run

GUIDE = (DOCS / "gateway.md").read_text("utf-8")
CURL, CURL_CANCEL = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("docs")) as server:
        yield server


@pytest.fixture
def environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("COZE_API_BASE", server.url)
    monkeypatch.setenv("COZE_API_TOKEN", TOKEN)
    return server


def close(example: dict[str, object]) -> None:
    """The examples leave that to the end of their program."""
    coze = example["coze"]
    assert isinstance(coze, cozepy.Coze)
    with warnings.catch_warnings():
        coze._requester._sync_client.close()  # pyright: ignore[reportOptionalMemberAccess]


def shell(script: str, **more: str) -> str:
    done = subprocess.run(
        ["sh", "-c", script], env={**os.environ, **more}, capture_output=True, text=True, timeout=20, check=True
    )
    return done.stdout


def test_gateway_chat(environment: Server) -> None:
    example = run("gateway.md", "chat")
    assert (example["said"], example["status"]) == ("hello", cozepy.ChatStatus.COMPLETED)
    close(example)


def test_gateway_cancel(environment: Server) -> None:
    example = run("gateway.md", "cancel")
    assert example["cancelled"].status == cozepy.ChatStatus.CANCELED
    assert example["poll"].messages[0].content == "next"
    close(example)


def test_gateway_tool_outputs(environment: Server) -> None:
    example = run("gateway.md", "tool_outputs")
    assert example["events"][-1].chat.status == cozepy.ChatStatus.COMPLETED
    assert "files: yes. " in [event.message.content for event in example["events"] if event.message]
    close(example)


def test_a_chat_with_curl(environment: Server) -> None:
    events = re.findall(r"^event:(.*)$", shell(CURL), re.MULTILINE)
    assert (events[0], events[-2:]) == ("conversation.chat.created", ["conversation.chat.completed", "done"])


def test_a_cancel_with_curl(environment: Server) -> None:
    with client(environment) as coze:
        chat = coze.chat.create(**ask("hang curl"))
    answer = json.loads(shell(CURL_CANCEL, CONVERSATION_ID=chat.conversation_id, CHAT_ID=chat.id))
    assert (answer["code"], answer["data"]["status"]) == (0, "canceled")


def test_the_guide_names_every_permission_and_every_code() -> None:
    tokens = GUIDE.split("## Tokens")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", tokens)) >= PERMISSIONS
    codes = {int(code) for code in re.findall(r"\b[45]\d{3}\b", GUIDE.split("| code | meaning |")[1].split("\n\n")[0])}
    assert codes == {code.value for code in Code if code}
