"""Many chats through three gateways, while gateways are killed and stopped and the database is restarted and cut.

`python -m tests.apps.gateway.storm 3000` is the storm in full; the tests have a small one. Options of gateways may
follow: `python -m tests.apps.gateway.storm 3000 --agents 2:6 --agent-idle-seconds 1 --agent-age-seconds 5`.
"""

import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import psutil
import psycopg

from .postgres import Server as Database
from .postgres import postgres
from .proxy import Proxy, proxying
from .serving import OTHER_TOKEN, TOKEN, NoEar, Server, serving
from .several import backend

LEASE = 2.0
VISITORS = 40
TERMINAL = {"completed", "failed", "canceled"}
TEXTS = ["echo {}", "echo {}", "slowly 10 {}", "slowly 60 {}", "hang {}", "ask {}"]


class Unanswered(Exception):
    """It is not known what became of a request."""


class Seen:
    """What the visitors were told."""

    def __init__(self) -> None:
        self.statuses: dict[str, list[str]] = {}
        self.places: dict[str, dict[str, str]] = {}
        self.messages: dict[str, str] = {}
        """Inserted messages that were acknowledged, with their conversations."""
        self.outcomes: Counter[str] = Counter()

    def take(self, chat: dict[str, Any]) -> str:
        status: str = chat["status"]
        history = self.statuses.setdefault(chat["id"], [])
        self.places[chat["id"]] = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
        assert not history or history[-1] not in TERMINAL or history[-1] == status, (chat, history)
        history.append(status)
        return status


class Visitor:
    """One after another, chats in a conversation of its own."""

    def __init__(self, http: httpx.AsyncClient, seen: Seen, name: str, rng: random.Random, token: str) -> None:
        self._http = http
        self._headers = {"Authorization": f"Bearer {token}"}
        self._seen = seen
        self._name = name
        self._rng = rng

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, headers=self._headers, **options)
        except httpx.TransportError as error:
            raise Unanswered(type(error).__name__) from None
        if response.status_code != 200:
            raise Unanswered(str(response.status_code))
        answer = response.json()
        if answer["code"] in (4009, 5000):
            raise Unanswered(str(answer["code"]))
        return answer

    async def visit(self, left: Callable[[], bool]) -> None:
        conversation = ""
        while left():
            try:
                if not conversation:
                    made = await self.call("POST", "/v1/conversation/create", json={})
                    conversation = made["data"]["id"]
                await self._chat(conversation)
            except Unanswered as why:
                self._seen.outcomes[f"unanswered: {why}"] += 1
                await anyio.sleep(0.1)
                conversation = ""

    async def _chat(self, conversation: str) -> None:
        note = {"role": "user", "content": f"note of {self._name}", "content_type": "text"}
        place = {"conversation_id": conversation}
        kept = await self.call("POST", "/v1/conversation/message/create", params=place, json=note)
        self._seen.messages[kept["data"]["id"]] = conversation
        text = self._rng.choice(TEXTS).format(self._name)
        messages = [{"role": "user", "content": text, "content_type": "text"}]
        body = {"bot_id": "1", "user_id": "u", "additional_messages": messages}
        if self._rng.random() < 0.2:
            await self._listen_a_little(place, body)
            return
        answer = await self.call("POST", "/v3/chat", params=place, json=body)
        if answer["code"] != 0:
            assert answer["code"] == 4016, answer
            await anyio.sleep(0.1)
            return
        chat = answer["data"]
        self._seen.take(chat)
        ids = self._seen.places[chat["id"]]
        for _ in range(self._rng.randint(1, 4)):
            await anyio.sleep(self._rng.random() * 0.2)
            chat = (await self.call("GET", "/v3/chat/retrieve", params=ids))["data"]
            self._seen.take(chat)
        if chat["status"] == "requires_action" and self._rng.random() < 0.8:
            await self._answer(chat, ids)
        await self._end(chat, ids, text)

    async def _listen_a_little(self, place: dict[str, str], body: dict[str, Any]) -> None:
        """A client that leaves."""
        try:
            async with self._http.stream("POST", "/v3/chat", params=place, json={**body, "stream": True}) as stream:
                async for line in stream.aiter_lines():
                    if self._rng.random() < 0.3 or line.startswith("data:[DONE]"):
                        return
        except httpx.TransportError:
            pass

    async def _answer(self, chat: dict[str, Any], ids: dict[str, str]) -> None:
        (call,) = chat["required_action"]["submit_tool_outputs"]["tool_calls"]
        outputs = {"tool_outputs": [{"tool_call_id": call["id"], "output": "yes"}]}
        answer = await self.call("POST", "/v3/chat/submit_tool_outputs", params=ids, json=outputs)
        if answer["code"] == 0:
            self._seen.take(answer["data"])
        else:
            assert answer["code"] in (4000, 4016), answer

    async def _end(self, chat: dict[str, Any], ids: dict[str, str], text: str) -> None:
        while chat["status"] not in (*TERMINAL, "requires_action"):
            if text.startswith("hang") or self._rng.random() < 0.2:
                answer = await self.call("POST", "/v3/chat/cancel", json=ids)
                assert answer["code"] in (0, 4104), answer
                if answer["code"] == 0:
                    assert self._seen.take(answer["data"]) == "canceled"
            await anyio.sleep(0.1)
            chat = (await self.call("GET", "/v3/chat/retrieve", params=ids))["data"]
            self._seen.take(chat)
        if chat["status"] == "completed" and text.startswith("echo"):
            said = (await self.call("GET", "/v3/chat/message/list", params=ids))["data"]
            (answer,) = [message["content"] for message in said if message["type"] == "answer"]
            assert answer == self._name


class Storm:
    """The gateways, the database, and what happens to them."""

    def __init__(
        self, folder: Path, database: Database, proxy: Proxy, opened: ExitStack, options: tuple[str, ...]
    ) -> None:
        self._folder = folder
        self._options = options
        self._database = database
        self._proxy = proxy
        self._opened = opened
        self._started = 0
        self._ear = NoEar()
        self.url = database.database()
        self.servers = [self.start() for _ in range(3)]
        self._listed()

    def start(self) -> Server:
        self._started += 1
        options = ("--store", self.url, "--lease-seconds", str(LEASE), "--chats-of-one", "1000", *self._options)
        place = self._folder / str(self._started)
        return self._opened.enter_context(serving(place, *options, ear=self._ear, errors=True))

    def _listed(self) -> None:
        self._proxy.backends = [backend(server) for server in self.servers]

    def query(self, sql: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as admin:
            return admin.execute(sql.encode()).fetchall()

    def kill(self, number: int) -> None:
        self.servers[number].kill()
        self.servers[number] = self.start()
        self._listed()

    def kill_agent(self, rng: random.Random) -> None:
        agents = [agent for server in self.servers for agent in server.agents()]
        if agents:
            # One that ends by itself just now is meant, too.
            with suppress(psutil.NoSuchProcess):
                rng.choice(agents).kill()

    def suspend(self, number: int) -> None:
        process = self.servers[number].process
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5 * LEASE)
        process.send_signal(signal.SIGCONT)

    def restart_database(self) -> None:
        self._database.stop()
        self._database.start()

    def cut(self) -> None:
        self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    def happen(self, rng: random.Random, over: Callable[[], bool]) -> None:
        """One thing after another, and each of them once at least."""
        first = True
        while first or not over():
            for what in rng.sample([0, 1, 2, 3, 4], 5):
                time.sleep(0.3)
                if what == 0:
                    self.kill(rng.randrange(3))
                elif what == 1:
                    self.suspend(rng.randrange(3))
                elif what == 2:
                    self.restart_database()
                elif what == 3:
                    self.kill_agent(rng)
                else:
                    self.cut()
            first = False


async def storm(folder: Path, database: Database, chats: int, seed: int, *options: str) -> Counter[str]:
    """Have one with gateways that have these options, and check what must hold. How the chats ended, and what was not
    answered."""
    rng = random.Random(seed)
    seen = Seen()
    with ExitStack() as opened:
        proxy = opened.enter_context(proxying())
        storm = Storm(folder, database, proxy, opened, options)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=proxy.url, timeout=8, limits=limits) as http:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, storm.happen, rng, lambda: len(seen.statuses) >= chats)
                group.start_soon(_visits, http, seen, rng, lambda: len(seen.statuses) < chats)
            await _check(storm, http, seen)
        seen.outcomes.update(history[-1] for history in seen.statuses.values())
    return seen.outcomes


async def _visits(http: httpx.AsyncClient, seen: Seen, rng: random.Random, left: Callable[[], bool]) -> None:
    async with anyio.create_task_group() as group:
        for number in range(VISITORS):
            token = TOKEN if number % 2 else OTHER_TOKEN
            visitor = Visitor(http, seen, f"visitor-{number}", random.Random(rng.random()), token)
            group.start_soon(visitor.visit, left)


async def _check(storm: Storm, http: httpx.AsyncClient, seen: Seen) -> None:
    judges = {
        owner: Visitor(http, seen, "judge", random.Random(0), token)
        for owner, token in (("ada", TOKEN), ("bob", OTHER_TOKEN))
    }
    rows = dict(storm.query("SELECT id, status FROM chats"))
    assert all(id in rows for id in seen.statuses)
    with anyio.fail_after(60):
        # Clients that have left do not cancel what hangs.
        sql = "SELECT id, doc::json->>'conversation_id', owner FROM chats WHERE status = 'in_progress'"
        while left := storm.query(sql):
            for id, conversation, owner in left:
                place = {"conversation_id": conversation, "chat_id": id}
                # A gateway that has lost its lease just now says so.
                with suppress(Unanswered):
                    await judges[owner].call("POST", "/v3/chat/cancel", json=place)
            await anyio.sleep(0.1)
        busy = "SELECT 1 FROM chats WHERE node IS NOT NULL AND status <> 'requires_action'"
        # The commands of a node that was killed are removed when its lease is over.
        while storm.query(busy) or storm.query("SELECT 1 FROM commands"):  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.1)
    for id, history in seen.statuses.items():
        ((status,),) = storm.query(f"SELECT status FROM chats WHERE id = '{id}'")
        assert history[-1] not in TERMINAL or history[-1] == status, (id, history, status)
    kept = {id for (id,) in storm.query("SELECT id FROM messages")}
    assert seen.messages.keys() <= kept
    for server in storm.servers:
        numbers = (await http.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})).text
        working = [line for line in numbers.splitlines() if line.startswith("acp_gateway_chats{")]
        assert not [line for line in working if "requires_action" not in line and not line.endswith(" 0.0")], working


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, postgres() as database:
        for outcome, number in sorted(
            anyio.run(storm, Path(name), database, int(sys.argv[1]), 1, *sys.argv[2:]).items()
        ):
            sys.stdout.write(f"{number:6} {outcome}\n")
