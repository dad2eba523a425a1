"""A gateway in this process, and what tests do with it by bare HTTP."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx

from acp_server.apps.gateway.app import make_app
from acp_server.apps.gateway.auth import read_tokens
from acp_server.apps.gateway.bots import Isolation
from acp_server.apps.gateway.chats import Cancel
from acp_server.apps.gateway.gateway import Gateway, GatewaySettings
from acp_server.apps.gateway.limits import ONE, GatewayLimits, Size
from acp_server.apps.gateway.pool import Pool
from acp_server.apps.gateway.program import Place, Program
from acp_server.apps.gateway.questions import CallType
from acp_server.apps.gateway.records import Ids
from acp_server.apps.gateway.store import Location
from acp_server.client import Handlers, Patience, RemoteAgent, connect_agent, spawn_agent
from acp_server.testing import memory_pair

from .agents import busy
from .serving import PATIENCE, TOKEN, TOKENS

HERE = ["the agent of busy.py, in this process"]
"""Stands for a command. `BUSY` is the same agent as a process, which costs as much as ten tests without one."""
Api = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]
PATIENT = Patience(closed=5)


@asynccontextmanager
async def gateway_in(
    folder: Path,
    agent: list[str] | None = HERE,
    bots: dict[str, list[str]] | None = None,
    store: Location | None = None,
    cancel: Cancel = "stop",
    patience: Patience = PATIENT,
    allow_origins: Sequence[str] = (),
    elicitation: CallType = "function",
    file_urls: bool = False,
    protocol: Literal[1, 2] = 2,
    agents: Size = ONE,
    isolation: Isolation | None = None,
    **limits: Any,
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway, and a client of it."""
    settings = GatewaySettings(
        agent=agent,
        bots=bots or {},
        cwd=str(folder),
        store=store,
        cancel=cancel,
        elicitation=elicitation,
        file_urls=file_urls,
        limits=GatewayLimits(**limits),
        patience=patience,
        allow_origins=allow_origins,
        protocol=protocol,
        agents=agents,
        isolation=isolation,
    )
    (folder / "tokens").write_text(TOKENS)
    async with client_of(Gateway(settings, read_tokens(folder / "tokens"))) as http:
        yield http


@asynccontextmanager
async def spawn(
    command: Sequence[str], handlers: Handlers | None = None, **options: Any
) -> AsyncGenerator[RemoteAgent]:
    """Stands in for `spawn_agent`."""
    if command != HERE:
        async with spawn_agent(command, handlers, **options) as agent:
            yield agent
        return
    here, there = memory_pair()
    async with anyio.create_task_group() as group:
        group.start_soon(busy.agent.connect(there).run)
        async with connect_agent(here, handlers) as agent:
            yield agent


@asynccontextmanager
async def client_of(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """Run a gateway, with a client of it."""
    transport = httpx.ASGITransport(make_app(gateway))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        gateway.running(),
        httpx.AsyncClient(transport=transport, base_url="http://g", headers=headers, timeout=PATIENCE) as http,
    ):
        yield http


async def begin(
    http: httpx.AsyncClient, text: str, bot: str = "1", body: dict[str, Any] | None = None, **params: str
) -> dict[str, Any]:
    """Begin a chat, without a stream."""
    messages = [{"role": "user", "content": text}]
    given = {"bot_id": bot, "user_id": "u", "additional_messages": messages, **(body or {})}
    return (await http.post("/v3/chat", json=given, params=params)).json()


async def ended(http: httpx.AsyncClient, chat: dict[str, Any]) -> dict[str, Any]:
    """The chat when it does not run any more."""
    with anyio.fail_after(PATIENCE):
        while chat["status"] in ("created", "in_progress"):
            await anyio.sleep(0.01)
            chat = (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]
    return chat


def ids(chat: dict[str, Any]) -> dict[str, str]:
    """What names a chat."""
    return {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}


async def listed(http: httpx.AsyncClient, conversation: str) -> list[str]:
    """What the messages of a conversation say."""
    found = await http.post(
        "/v1/conversation/message/list", params={"conversation_id": conversation}, json={"order": "asc"}
    )
    return [message["content"] for message in found.json()["data"]]


def pool_of(command: Sequence[str], cwd: str, *, patience: Patience, size: Size = ONE, **limits: Any) -> Pool:
    """The processes of an agent, without a gateway."""
    program = Program(
        bot="1", command=command, place=lambda: Place(cwd), limits=GatewayLimits(**limits), patience=patience
    )
    return Pool(program, Ids(), size)


class Counting:
    """The command of an agent that numbers its sessions, and what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "asked"
        self._log.touch()

    def command(self, *capabilities: str) -> list[str]:
        return [sys.executable, str(Path(__file__).parent / "agents" / "counting.py"), str(self._log), *capabilities]

    def asked(self, method: str = "session/") -> list[str]:
        return [line for line in self._log.read_text().splitlines() if line.startswith(method)]

    async def until(self, *lines: str) -> None:
        """Until the last that it was asked for is this."""
        with anyio.fail_after(PATIENCE):
            while self.asked()[-len(lines) :] != list(lines):  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)


async def say(http: httpx.AsyncClient, text: str, token: str = TOKEN, bot: str = "1", **params: str) -> tuple[str, str]:
    """The conversation, and what was answered."""
    http.headers["Authorization"] = f"Bearer {token}"
    chat = await ended(http, (await begin(http, text, bot, None, **params))["data"])
    found = (await http.get("/v3/chat/message/list", params=ids(chat))).json()["data"]
    return chat["conversation_id"], next((message["content"] for message in found if message["type"] == "answer"), "")
