"""Who is let in: foreign pages, names that point here, tokens, and the ids of others."""

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server import Agent, MemoryStore, Turn
from acp_server.errors import UsageError
from acp_server.http.asgi import CALLER
from acp_server.remote import BearerTokens, RemoteApp, RemoteLimits, read_tokens
from tests.http.test_websocket import serving
from tests.http.websocket_client import websocket
from tests.session.editor import CALM, END_TURN

from .http_client import NEW, Client, client_of
from .serving import reader

pytestmark = pytest.mark.anyio

TOKENS = BearerTokens([("ann", "secret-of-ann"), ("bob", "secret-of-bob")])
ANN, BOB = ({"authorization": f"Bearer secret-of-{name}"} for name in ("ann", "bob"))


def app_of(agent: Agent | None = None, **options: Any) -> RemoteApp:
    return RemoteApp(agent or reader()[0], limits=CALM, **options)


@pytest.fixture
def refusals(caplog: pytest.LogCaptureFixture) -> Any:
    """The log of what was refused, in which no secret is."""
    yield caplog
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "options", "status"),
    [
        ({}, {}, 200),
        ({"host": "127.0.0.1"}, {}, 200),
        ({"host": "[::1]:80"}, {}, 200),
        ({"host": "LOCALHOST:80"}, {}, 200),
        ({"host": "evil.example"}, {}, 403),
        ({"host": "evil.example:80"}, {}, 403),
        ({"host": "localhost.evil.example"}, {}, 403),
        ({"host": "127.0.0.1.evil.example"}, {}, 403),
        ({"host": ""}, {}, 403),
        ({"host": "a.example"}, {"hosts": ["a.example"]}, 200),
        ({"host": "a.example"}, {"hosts": "a.example"}, 200),
        ({"host": "localhost"}, {"hosts": ["a.example"]}, 403),
        ({"host": "any.example"}, {"hosts": "*"}, 200),
        ({"host": "any.example", **ANN}, {"authenticate": TOKENS}, 200),
        ({"host": "any.example", **ANN}, {"authenticate": TOKENS, "hosts": ["a.example"]}, 403),
        ({"origin": "http://evil.example"}, {}, 403),
        ({"origin": "null"}, {}, 403),
        ({"origin": "http://localhost"}, {}, 403),
        ({"origin": "https://app.example"}, {"origins": ["https://app.example"]}, 200),
        ({"origin": "https://app.example"}, {"origins": "https://app.example"}, 200),
        ({"origin": "https://app.example.org"}, {"origins": "https://app.example"}, 403),
        ({"origin": "http://evil.example"}, {"origins": "*"}, 200),
        ({"origin": "http://evil.example", **ANN}, {"authenticate": TOKENS}, 403),
        ({}, {"authenticate": TOKENS}, 401),
        (ANN, {"authenticate": TOKENS}, 200),
        ({"authorization": "bearer secret-of-ann"}, {"authenticate": TOKENS}, 200),
        ({"authorization": "Bearer secret-of-eve"}, {"authenticate": TOKENS}, 401),
        ({"authorization": "Bearer "}, {"authenticate": TOKENS}, 401),
        ({"authorization": "Bearer"}, {"authenticate": TOKENS}, 401),
        ({"authorization": "Basic secret-of-ann"}, {"authenticate": TOKENS}, 401),
        ({"authorization": "secret-of-ann"}, {"authenticate": TOKENS}, 401),
    ],
)
async def test_a_request_is_let_in_by_its_host_its_origin_and_its_token(
    headers: Any, options: Any, status: int, refusals: Any
) -> None:
    client = Client(app_of(**options))
    answer = await client.initialize(**headers)
    assert answer.status == status
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert (answer.headers.get("access-control-allow-origin") == headers.get("origin")) or status == 403
    await client.aclose()


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_every_request_has_to_prove_whose_it_is(method: str, refusals: Any) -> None:
    async with client_of(app_of(authenticate=TOKENS), **ANN) as client:
        own = {"accept": "text/event-stream", "content_type": "application/json", "acp_connection_id": client.id}
        for headers, status in (({"authorization": None}, 401), (BOB, 404), ({"host": "x", "origin": "x"}, 403)):
            assert (await client.request(method, b"{}", **own, **headers)).status == status


async def test_a_page_that_may_come_is_told_what_it_may_send(refusals: Any) -> None:
    client = Client(app_of(origins=["https://app.example"], authenticate=TOKENS))
    answer = await client.request("OPTIONS", origin="https://app.example")
    assert answer.status == 204
    assert "acp-connection-id" in answer.headers["access-control-allow-headers"]
    assert "DELETE" in answer.headers["access-control-allow-methods"]
    answer = await client.request("OPTIONS", origin="http://evil.example")
    assert "access-control-allow-headers" not in answer.headers


async def test_a_header_that_comes_twice_is_refused() -> None:
    app = app_of(authenticate=TOKENS)
    sent: list[Any] = []

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    tokens = [(b"authorization", b"Bearer secret-of-" + name) for name in (b"ann", b"bob")]
    headers = [(b"host", b"a"), *tokens]
    await app({"type": "http", "method": "POST", "headers": headers}, receive, send)
    assert sent[0]["status"] == 400


async def test_a_server_learns_of_callers_that_are_known() -> None:
    app = app_of(authenticate=lambda scope: "ann" if (b"x", b"1") in scope["headers"] else None)
    states: list[dict[str, Any]] = []

    async def send(_: Any) -> None:
        pass

    for headers in ([], [(b"x", b"1")]):
        states.append({})
        scope = {"type": "http", "method": "GET", "headers": headers, "state": states[-1]}
        await app(scope, lambda: anyio.sleep_forever(), send)  # pyright: ignore[reportArgumentType]
    assert [CALLER in state for state in states] == [False, True]


def keeper() -> Agent:
    agent = Agent("keeper", store=MemoryStore())

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.say(turn.text)

    return agent


async def test_a_session_of_another_principal_does_not_exist() -> None:
    app = app_of(keeper(), authenticate=TOKENS)
    async with client_of(app, **ANN) as ann:
        bob = Client(app, **BOB)
        await bob.initialize()
        its = ann.open()
        session = await ann.new_session(its)
        events = ann.open(session)
        await ann.prompt(session, "mine", 2)
        while "result" not in await events.next():
            pass
        connection = bob.open()
        own = await bob.new_session(connection)
        bob_reads = bob.open(session)
        answers: list[Any] = []
        load = {"id": 3, "method": "session/load", "params": {"sessionId": session, **NEW}}
        await bob.post(load)
        answers.append(await connection.next())
        for id, method in enumerate(("resume", "delete", "fork", "close", "prompt"), 4):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": "yours"}], **NEW}
            await bob.post({"id": id, "method": f"session/{method}", "params": params}, session)
            answers.append(await bob_reads.next())
        await bob.post({"method": "session/cancel", "params": {"sessionId": session}}, session)
        assert [answer["id"] for answer in answers] == [*range(3, 9)]
        # To delete and to close what is not there is no fault.
        assert [answer["id"] for answer in answers if "error" not in answer] == [5, 7]
        assert session not in str(answers)
        for client, stream, sessions in ((bob, connection, [own]), (ann, its, [session])):
            await client.post({"id": 20, "method": "session/list", "params": {}})
            listed = (await stream.next())["result"]["sessions"]
            assert [each["sessionId"] for each in listed] == sessions
        await ann.prompt(session, "still here", 9)
        assert (await events.next())["params"]["update"]["content"]["text"] == "still here"
        assert (await events.next())["result"] == END_TURN


async def test_a_principal_that_is_the_only_one_has_all_sessions() -> None:
    agent = keeper()
    async with client_of(app_of(agent)) as client:
        session = await client.new_session(client.open())
        events = client.open(session)
        await client.prompt(session, "before")
        while "result" not in await events.next():
            pass
    async with client_of(app_of(agent, authenticate=BearerTokens([("ann", "secret-of-ann")])), **ANN) as ann:
        connection = ann.open()
        await ann.post({"id": 3, "method": "session/load", "params": {"sessionId": session, **NEW}})
        assert "result" in await connection.next()


async def test_a_websocket_is_let_in_by_the_same_rules(refusals: Any) -> None:
    app = app_of(authenticate=TOKENS, hosts=["localhost"], origins=["https://app.example"])
    async with serving(app) as (port, _):
        for headers, status in [
            ({}, 401),
            (ANN, 101),
            ({"authorization": "Bearer secret-of-eve"}, 401),
            ({**ANN, "origin": "http://evil.example"}, 403),
            ({**ANN, "origin": "https://app.example"}, 101),
            ({**ANN, "host": "evil.example"}, 403),
        ]:
            async with websocket(port) as client:
                assert await client.open(**headers) == status
                if status == 101:
                    assert len(dict(client.answer.extra_headers)[b"acp-connection-id"]) == 32
        async with websocket(port) as client:
            # What a page can do, which cannot set headers.
            assert await client.open(subprotocols=["acp", "bearer.secret-of-ann"], origin="https://app.example") == 101
            assert client.answer.subprotocol == "acp"


async def test_websockets_are_bounded_with_the_other_connections() -> None:
    app = app_of(remote=RemoteLimits(connections=1))
    async with serving(app) as (port, _), websocket(port) as one, websocket(port) as other:
        assert await one.open() == 101
        assert await other.open() == 503
        assert (await Client(app).initialize()).status == 503


def test_tokens_are_read_from_a_file_and_may_be_digests(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    digest = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90"
    file.write_text(f"# ours\n\nann secret-of-ann\nbob sha256:{digest}\n")
    tokens = read_tokens(file)
    assert tokens.names == {"ann", "bob"}

    def who(token: str) -> str | None:
        return tokens({"headers": [(b"authorization", f"Bearer {token}".encode())]})

    assert (who("secret-of-ann"), who("alice"), who(f"sha256:{digest}")) == ("ann", "bob", None)
    file.write_text("only-one\n")
    assert read_tokens(file)({"headers": [(b"authorization", b"Bearer only-one")]}) == "client"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "contains no token"),
        ("# nothing\n", "contains no token"),
        ("ann secret more\n", ":1: expected a name and a token"),
        ("ann sha256:12\n", "64 hexadecimal digits"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(UsageError, match=why) as raised:
        read_tokens(tmp_path / "tokens")
    assert "secret" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot read the tokens"):
        read_tokens(tmp_path / "none")


async def test_nothing_that_is_sent_in_a_header_forges_a_line_of_the_log_or_fills_it(refusals: Any) -> None:
    refusals.set_level(logging.INFO)
    app = app_of()
    for _ in range(5):
        await Client(app).initialize(origin="http://x\nforged")
        await Client(app).initialize(host="x\nforged" + "x" * 10_000)
    assert refusals.text.count("forged") == 2
    assert "\nforged" not in refusals.text
    assert len(refusals.text) < 1000
