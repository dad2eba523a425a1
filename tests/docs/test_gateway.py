"""The examples of the guide to the gateway, run against one."""

import json
import os
import re
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_server.apps.gateway.auth import PERMISSIONS, read_tokens
from acp_server.apps.gateway.errors import Code
from tests.apps.gateway.heard import output
from tests.apps.gateway.serving import TOKEN, Server, ask, client, cozepy, serving

from .blocks import DOCS, run

GUIDE = (DOCS / "gateway.md").read_text("utf-8")
SHELL: dict[str, str] = dict(re.findall(r"^```(?:sh|text) (\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("docs")
    (folder / "project").mkdir()
    (folder / "project" / "plan.txt").write_text("TODO: everything\nFIXME: the rest\n")
    # With the agent that the guide shows it with.
    with serving(folder, "--cwd", str(folder / "project"), agent=[]) as server:
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


def test_what_a_token_permits_is_said_before_anything_is_started() -> None:
    said, command, _ = GUIDE.partition("\n    acp-server gateway")
    assert command
    assert "**A token that permits `chat` is a shell" in said


def test_gateway_chat(environment: Server) -> None:
    example = run("gateway.md", "chat")
    assert (example["said"], example["status"]) == (example["said"], cozepy.ChatStatus.COMPLETED)
    assert "plan.txt" in str(example["said"])
    close(example)


def test_gateway_cancel(environment: Server) -> None:
    example = run("gateway.md", "cancel")
    assert example["cancelled"].status == cozepy.ChatStatus.CANCELED
    assert any("plan.txt" in message.content for message in example["poll"].messages)
    close(example)


def test_gateway_tool_outputs(environment: Server) -> None:
    example = run("gateway.md", "tool_outputs")
    assert example["events"][-1].chat.status == cozepy.ChatStatus.COMPLETED
    said = "".join(event.message.content for event in example["events"] if event.message)
    assert "hello" in said
    close(example)


def test_a_chat_with_curl(environment: Server) -> None:
    events = re.findall(r"^event:(.*)$", shell(SHELL["chat"]), re.MULTILINE)
    assert (events[0], events[-2:]) == ("conversation.chat.created", ["conversation.chat.completed", "done"])


def test_the_next_chat_of_a_conversation_with_curl(environment: Server) -> None:
    with client(environment) as coze:
        conversation = coze.conversations.create().id
    answer = json.loads(shell(SHELL["again"], CONVERSATION_ID=conversation))
    assert (answer["code"], answer["data"]["conversation_id"]) == (0, conversation)


def test_a_cancel_with_curl(environment: Server) -> None:
    with client(environment) as coze:
        chat = coze.chat.create_and_poll(**ask("/run sleep 60")).chat
        ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
        coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, "allow_once"), stream=False)
    answer = json.loads(shell(SHELL["cancel"], CONVERSATION_ID=chat.conversation_id, CHAT_ID=chat.id))
    assert (answer["code"], answer["data"]["status"]) == (0, "canceled")


def test_a_digest_is_that_of_the_token(tmp_path: Path) -> None:
    token, digest = shell(SHELL["digest"]).split()
    (tmp_path / "tokens").write_text(f"ada {digest}\n")
    assert read_tokens(tmp_path / "tokens").caller(f"Bearer {token}").name == "ada"


def test_the_file_of_tokens_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(SHELL["tokens"])
    tokens = read_tokens(tmp_path / "tokens")
    assert tokens.caller("Bearer pat_9xYcUz").permissions >= {"chat"}
    assert tokens.caller("Bearer test").permissions == {"getChat", "getConversation", "listMessage"}


def test_the_guide_names_every_permission_and_every_code() -> None:
    tokens = GUIDE.split("## Tokens")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", tokens)) >= PERMISSIONS
    codes = {int(code) for code in re.findall(r"\b[45]\d{3}\b", GUIDE.split("| code | meaning |")[1].split("\n\n")[0])}
    assert codes == {code.value for code in Code if code}
