"""Two gateways over one PostgreSQL: a chat is run by one of them, and clients may ask either."""

from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from acp_server.apps.gateway.nodes import ENDED, Node
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import open_engine

from .inside import begin, ended, gateway_in, ids, listed, say
from .postgres import Server
from .serving import OTHER_TOKEN, PATIENCE, TOKEN

pytestmark = pytest.mark.anyio
psycopg: Any = pytest.importorskip("psycopg", reason="the extra postgres is not installed")

RARELY = 1000.0
"""A lease that no test sees renewed."""
OFTEN = 3.0
"""A lease that is renewed each second, and that a busy machine does not let end by itself."""


class Nodes:
    """Gateways with one database."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self.url = url

    def start(self, **limits: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        """A gateway more."""
        return gateway_in(self._folder, store=self.url, **limits)

    def query(self, sql: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as admin:
            cursor = admin.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    async def until(self, sql: str, *values: Any) -> None:
        """Until this finds something."""
        with anyio.fail_after(PATIENCE):
            while not self.query(sql, *values):  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)

    def working(self) -> int:
        """For how many chats a node works."""
        return self.query("SELECT count(*) FROM chats WHERE node IS NOT NULL")[0][0]


@pytest.fixture
def nodes(postgresql: Server, tmp_path: Path) -> Nodes:
    return Nodes(tmp_path, postgresql.database())


async def retrieve(http: httpx.AsyncClient, chat: dict[str, Any]) -> dict[str, Any]:
    return (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]


async def until(http: httpx.AsyncClient, chat: dict[str, Any], status: str) -> dict[str, Any]:
    with anyio.fail_after(PATIENCE):
        while (seen := await retrieve(http, chat))["status"] != status:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)
    return seen


async def cancel(http: httpx.AsyncClient, chat: dict[str, Any]) -> dict[str, Any]:
    return (await http.post("/v3/chat/cancel", json=ids(chat))).json()


async def waiting(http: httpx.AsyncClient) -> dict[str, Any]:
    chat = await ended(http, (await begin(http, "ask files"))["data"])
    assert chat["status"] == "requires_action"
    return chat


def outputs_for(chat: dict[str, Any], output: str = "yes") -> dict[str, Any]:
    (call,) = chat["required_action"]["submit_tool_outputs"]["tool_calls"]
    return {"tool_outputs": [{"tool_call_id": call["id"], "output": output}]}


async def submit(http: httpx.AsyncClient, chat: dict[str, Any], output: str = "yes") -> dict[str, Any]:
    body = outputs_for(chat, output)
    return (await http.post("/v3/chat/submit_tool_outputs", params=ids(chat), json=body)).json()


async def until_submitted(http: httpx.AsyncClient, chat: dict[str, Any]) -> None:
    """Until the gateway takes work again."""
    with anyio.fail_after(PATIENCE):
        while (answer := await submit(http, chat))["code"] == 4009:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)
    assert answer["code"] == 0


# -- what any node answers


async def test_any_node_shows_the_chat_and_what_came_of_it(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        chat = (await begin(first, "hang"))["data"]
        assert await retrieve(second, chat) == chat
        assert (await cancel(first, chat))["code"] == 0
        conversation, _ = await say(first, "echo hello")
        assert await listed(second, conversation) == ["echo hello", "hello"]
        _, said = await say(second, "recall", conversation_id=conversation)
        assert "user: echo hello\n\nassistant: hello" in said


async def test_a_cancel_on_another_node_is_answered_when_the_agent_has_stopped(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        chat = (await begin(first, "hang"))["data"]
        answer = await cancel(second, chat)
        assert (answer["code"], answer["data"]["status"]) == (0, "canceled")
        assert "usage" in answer["data"]
        assert nodes.working() == 0
        assert nodes.query("SELECT * FROM commands") == []
        late = await cancel(second, chat)
        assert (late["code"], late["msg"]) == (4104, "the chat cannot be cancelled, it is canceled")


async def test_a_command_that_no_notice_tells_of_is_found_all_the_same(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        chat = (await begin(first, "hang"))["data"]
        nodes.query("UPDATE nodes SET channel = 'nobody'")
        assert (await cancel(second, chat))["data"]["status"] == "canceled"


async def test_a_command_whose_answer_nothing_waits_for_any_more_leaves_no_row(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        chat = (await begin(first, "hang"))["data"]
        # So that it is found by the next look only.
        nodes.query("UPDATE nodes SET channel = 'nobody'")
        async with anyio.create_task_group() as group:
            group.start_soon(cancel, second, chat)
            await nodes.until("SELECT 1 FROM commands")
            group.cancel_scope.cancel()
        await until(first, chat, "canceled")
        await nodes.until("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM commands)")


async def test_outputs_that_come_to_another_node_reach_the_agent_that_asked(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        chat = await waiting(first)
        refused = await submit(second, chat, "perhaps")
        assert refused["code"] == 4000
        assert "must be one of the options" in refused["msg"]
        answer = await submit(second, chat)
        assert (answer["code"], answer["data"]["status"]) == (0, "in_progress")
        assert (await until(second, chat, "completed"))["status"] == "completed"
        said = (await second.get("/v3/chat/message/list", params=ids(chat))).json()["data"]
        assert [message["content"] for message in said if message["type"] == "answer"] == ["files: yes. "]


async def test_a_command_for_the_chat_of_another_user_is_refused(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        chat = (await begin(first, "hang"))["data"]
        second.headers["Authorization"] = f"Bearer {OTHER_TOKEN}"
        assert (await cancel(second, chat))["code"] == 4001
        second.headers["Authorization"] = f"Bearer {TOKEN}"
        assert (await cancel(second, chat))["code"] == 0


async def test_a_conversation_that_is_deleted_on_another_node_stops_what_runs_in_it(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        chat = (await begin(first, "hang"))["data"]
        assert (await second.delete(f"/v1/conversations/{chat['conversation_id']}")).json()["code"] == 0
        await nodes.until("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM chats) AND NOT EXISTS (SELECT 1 FROM messages)")
        assert (await first.get("/v3/chat/retrieve", params=ids(chat))).json()["code"] == 4001


# -- what is decided over all nodes


async def test_one_chat_runs_in_a_conversation_over_all_nodes(nodes: Nodes) -> None:
    async with nodes.start() as first, nodes.start() as second:
        both = [first, second]
        conversation = (await both[0].post("/v1/conversation/create", json={})).json()["data"]["id"]
        answers: list[dict[str, Any]] = []

        async def one(http: httpx.AsyncClient) -> None:
            answers.append(await begin(http, "hang", conversation_id=conversation))

        async with anyio.create_task_group() as group:
            for http in both * 4:
                group.start_soon(one, http)
        assert sorted(answer["code"] for answer in answers) == [0] + [4016] * 7
        (chat,) = [answer["data"] for answer in answers if answer["code"] == 0]
        assert (await cancel(both[0], chat))["code"] == 0
        assert (await begin(both[1], "echo x", conversation_id=conversation))["code"] == 0


async def test_the_limit_of_a_token_counts_the_chats_of_all_nodes(nodes: Nodes) -> None:
    async with nodes.start(chats_of_one=2) as first, nodes.start(chats_of_one=2) as second:
        chats = [(await begin(http, "hang"))["data"] for http in (first, second)]
        assert [(await begin(http, "echo x"))["code"] for http in (first, second)] == [4013, 4013]
        second.headers["Authorization"] = f"Bearer {OTHER_TOKEN}"
        assert (await begin(second, "echo x"))["code"] == 0
        for chat in chats:
            assert (await cancel(first, chat))["code"] == 0
        assert (await begin(first, "echo x"))["code"] == 0


async def test_a_chat_that_is_dismissed_while_another_one_runs_in_its_conversation_fails(nodes: Nodes) -> None:
    async with nodes.start(answer_seconds=0.5) as first, nodes.start() as second:
        chat = await waiting(first)
        other = (await begin(second, "hang", conversation_id=chat["conversation_id"]))["data"]
        failed = await until(second, chat, "failed")
        assert failed["last_error"]["code"] == 4016
        assert (await retrieve(first, other))["status"] == "in_progress"
        assert (await cancel(first, other))["code"] == 0


# -- death


async def test_the_chats_of_a_node_whose_lease_is_over_fail_once_and_the_one_that_waits_is_taken_up(
    nodes: Nodes,
) -> None:
    async with nodes.start(lease_seconds=RARELY) as dead:
        running, waits = (await begin(dead, "hang"))["data"], await waiting(dead)
        ((number,),) = nodes.query("SELECT id FROM nodes")
        async with nodes.start(lease_seconds=OFTEN) as one, nodes.start(lease_seconds=OFTEN) as two:
            others = [one, two]
            nodes.query("UPDATE nodes SET ends = 0 WHERE id = %s", number)
            failed = await until(others[0], running, "failed")
            assert failed["last_error"] == {"code": ENDED.code, "msg": ENDED.msg}
            assert await retrieve(others[1], running) == failed
            assert (await retrieve(others[0], waits))["status"] == "requires_action"
            assert (await submit(others[1], waits))["data"]["status"] == "in_progress"
            await until(others[0], waits, "completed")
            _, said = await say(others[0], "recall", conversation_id=waits["conversation_id"])
            assert "user: ask files" in said
            assert "hang" not in said
            # The one that was given up does not know it yet. It shows what the others do, and changes nothing.
            assert await retrieve(dead, running) == failed
            assert (await cancel(dead, running))["code"] == 4104
            assert (await begin(dead, "echo x"))["code"] == 4009
            assert await retrieve(others[0], running) == failed


async def test_a_node_that_has_lost_its_lease_stops_its_agents_and_joins_again(nodes: Nodes) -> None:
    async with nodes.start(lease_seconds=OFTEN) as slow, nodes.start(lease_seconds=OFTEN) as other:
        running, waits = (await begin(slow, "hang"))["data"], await waiting(slow)
        ((number,), _) = nodes.query("SELECT id FROM nodes ORDER BY id")
        engine = open_engine(nodes.url)

        def take(rows: Rows) -> None:
            rows.leave_chats(number, ENDED)
            rows.execute("DELETE FROM nodes WHERE id = ?", (number,))

        engine.transact(take)
        engine.close()
        await nodes.until("SELECT 1 FROM nodes HAVING count(*) = 2 AND min(id) > %s", number)
        assert (await retrieve(slow, running))["status"] == "failed"
        # Its agent has been stopped: it takes the answer of the one that waited like any other node, once it knows its
        # new number.
        await until_submitted(slow, waits)
        await until(other, waits, "completed")
        await say(slow, "echo x", conversation_id=running["conversation_id"])
        with anyio.fail_after(PATIENCE):
            while nodes.working():  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)


async def test_a_node_without_a_lease_sends_an_answer_elsewhere(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, join = anyio.Event(), anyio.Event()
    join_again = Node._join_again

    async def held(node: Node) -> None:
        lost.set()
        await join.wait()
        await join_again(node)

    def take(rows: Rows) -> None:
        rows.leave_chats(1, ENDED)
        rows.execute("DELETE FROM nodes", ())

    monkeypatch.setattr(Node, "_join_again", held)
    async with nodes.start(lease_seconds=OFTEN) as slow:
        waits = await waiting(slow)
        engine = open_engine(nodes.url)
        engine.transact(take)
        engine.close()
        with anyio.fail_after(PATIENCE):
            await lost.wait()
        response = await slow.post("/v3/chat/submit_tool_outputs", params=ids(waits), json=outputs_for(waits))
        assert (response.status_code, response.json()["code"]) == (503, 4009)
        assert int(response.headers["retry-after"]) > 0
        join.set()
        await until_submitted(slow, waits)
        await until(slow, waits, "completed")


async def test_of_two_answers_on_two_nodes_one_is_taken(nodes: Nodes) -> None:
    async with nodes.start() as gone:
        waits = await waiting(gone)
    async with nodes.start() as first, nodes.start() as second:
        both = [first, second]
        answers: list[dict[str, Any]] = []

        async def one(http: httpx.AsyncClient) -> None:
            answers.append(await submit(http, waits))

        async with anyio.create_task_group() as group:
            for http in both:
                group.start_soon(one, http)
        assert sorted(answer["code"] for answer in answers) == [0, 4000]
        await until(both[0], waits, "completed")


async def test_a_node_that_ends_leaves_what_waits_and_no_row(nodes: Nodes) -> None:
    async with nodes.start() as gone:
        running, waits = (await begin(gone, "hang"))["data"], await waiting(gone)
    assert nodes.query("SELECT * FROM nodes") == []
    async with nodes.start() as other:
        assert (await retrieve(other, running))["last_error"]["msg"] == "the gateway was stopped"
        assert (await retrieve(other, waits))["status"] == "requires_action"


# -- what a chat costs


async def test_a_chat_costs_three_transactions_and_a_delta_no_statement(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[int, str]] = []
    execute = psycopg.Connection.execute

    def counting(connection: Any, query: Any, *args: Any) -> Any:
        said.append((id(connection), query.decode() if isinstance(query, bytes) else ""))
        return execute(connection, query, *args)

    async with nodes.start(lease_seconds=RARELY) as http:
        await say(http, "echo warm")
        monkeypatch.setattr(psycopg.Connection, "execute", counting)
        costs: list[Counter[str]] = []
        for pieces in (1, 300):
            said.clear()
            events = (await http.post("/v3/chat", json=streamed(f"count {pieces}"))).text
            assert events.count("event:conversation.message.delta") == pieces
            costs.append(Counter(each for transaction in transactions(said) for each in transaction))
        monkeypatch.undo()
    few, many = costs
    assert few == many
    assert few["COMMIT"] == 3
    assert sum(few.values()) < 25


def transactions(said: list[tuple[int, str]]) -> list[list[str]]:
    """The transactions that are there in full, without those which look for commands: they come by the clock."""
    found: list[list[str]] = []
    running: dict[int, list[str]] = {}
    for connection, query in list(said):
        if query.startswith("BEGIN"):
            running[connection] = []
        if (statements := running.get(connection)) is not None:
            statements.append(query)
            if query == "COMMIT":
                found.append(running.pop(connection))
    return [each for each in found if not any("commands" in statement for statement in each)]


def streamed(text: str) -> dict[str, Any]:
    return {
        "bot_id": "1",
        "user_id": "u",
        "stream": True,
        "additional_messages": [{"role": "user", "content": text}],
    }
