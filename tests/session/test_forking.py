"""`session/fork`: both sessions go on, and neither sees what happens in the other."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_server import Agent, MemoryStore, SessionRecord, SqliteStore, Turn
from acp_server.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from acp_server.store.encoding import decode_session, encode_session
from acp_server.store.session_store import Page
from tests.session.editor import Editor, editing
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio


class FourMethods:
    """A store as an author writes it: sessions as bytes."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def save(self, record: SessionRecord) -> None:
        self._kept[record.id] = encode_session(record)

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        kept = self._kept.get(session_id)
        return None if kept is None else decode_session(kept)

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        return Page([decode_session(kept) for kept in self._kept.values()], None)

    async def delete(self, session_id: str) -> None:
        self._kept.pop(session_id, None)


STORES = ["memory", "sqlite", "four methods"]


@contextmanager
def made(kind: str, path: Path) -> Iterator[Any]:
    """A store. That of a file has nothing in memory that it can read."""
    if kind == "sqlite":
        with SqliteStore(path / "sessions.db", history=0) as store:
            yield store
    else:
        yield MemoryStore() if kind == "memory" else FourMethods()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with made(request.param, tmp_path) as store:
        yield store


def remembering(store: Any = None) -> Agent:
    """Says what it knows of what the user has said before."""
    agent = Agent("parrot", store=store, unstable={"fork"})

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        if turn.text == "hang":
            await anyio.sleep_forever()
        return " ".join(message.text for message in turn.context() if message.role == "user")

    return agent


async def fork(editor: Editor, session: str, **params: Any) -> str:
    params = {"sessionId": session, "cwd": "/project", "mcpServers": [], **params}
    return (await editor.client.result("session/fork", params))["sessionId"]


async def known(editor: Editor, session: str, text: str) -> str:
    """What the agent knows in a session when it is told one thing more."""
    before = len(editor.said(session))
    await editor.ask(session, text)
    return "".join(editor.said(session)[before:])


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_fork_knows_what_was_said_and_neither_session_sees_the_other(store: Any, is_open: bool) -> None:
    async with editing(remembering(store)) as editor:
        first = await editor.open()
        await editor.ask(first, "a")
        if not is_open:
            await editor.client.result("session/close", {"sessionId": first})
        second = await fork(editor, first)
        assert second != first
        assert not editor.said(second)
        if not is_open:
            named = {"sessionId": first, "cwd": "/project", "mcpServers": []}
            await editor.client.result("session/resume", named)
        assert await known(editor, second, "b") == "a b"
        assert await known(editor, first, "c") == "a c"
        assert await known(editor, second, "d") == "a b d"
        await editor.client.result("session/delete", {"sessionId": first})
        assert await known(editor, second, "e") == "a b d e"


async def test_a_running_turn_goes_on_and_is_not_part_of_the_fork(store: Any) -> None:
    async with editing(remembering(store)) as editor:
        first = await editor.open()
        await editor.ask(first, "a")
        hanging = await editor.prompt(first, "hang")
        await editor.settled()
        second = await fork(editor, first)
        assert await known(editor, second, "b") == "a b"
        await editor.cancel(first)
        assert await editor.answer(hanging) == {"stopReason": "cancelled"}


async def test_version_2_forks_as_well(store: Any) -> None:
    async with v2.editing(remembering(store)) as editor:
        first = await editor.open()
        await editor.ask(first, "a")
        second = (await editor.client.result("session/fork", {"sessionId": first, "cwd": "/project"}))["sessionId"]
        await editor.ask(second, "b")
        assert editor.said(second) == ["a b"]


async def test_what_is_not_there_or_not_named_is_not_forked() -> None:
    named = {"sessionId": "sess_none", "cwd": "/project", "mcpServers": []}
    async with editing(remembering()) as editor:
        assert (await editor.refusal("session/fork", named))["code"] == RESOURCE_NOT_FOUND
        assert (await editor.refusal("session/fork", {**named, "cwd": "here"}))["code"] == INVALID_PARAMS
    plain = Agent("plain")

    @plain.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(plain) as editor:
        session = await editor.open()
        assert (await editor.refusal("session/fork", {**named, "sessionId": session}))["code"] == METHOD_NOT_FOUND


def at(**message: Any) -> dict[str, Any]:
    return {"_meta": {"jetbrains": {"air": {"fork": {"version": 1, **message}}}}}


def mark(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize(
    ("place", "knows"),
    [
        ({"messageId": "gone", "messageFingerprint": mark("a")}, "a x"),
        ({"messageFingerprint": mark("a b")}, "a b x"),
        ({"messageFingerprint": mark("a b b"), "messageOccurrence": 1}, "a b b x"),
    ],
)
async def test_a_fork_at_a_message_has_nothing_of_the_turns_behind_it(
    store: Any, place: dict[str, Any], knows: str
) -> None:
    async with editing(remembering(store)) as editor:
        first = await editor.open()
        for text in ("a", "b", "b"):
            await editor.ask(first, text)
        second = await fork(editor, first, **at(**place))
        assert await known(editor, second, "x") == knows


async def test_a_fork_at_a_message_that_is_not_there_is_refused() -> None:
    async with editing(remembering()) as editor:
        first = await editor.open()
        await editor.ask(first, "a")
        named = {"sessionId": first, "cwd": "/project", "mcpServers": []}
        for place in ({"messageId": "m"}, {"messageFingerprint": mark("a"), "messageOccurrence": 2}, {}):
            error = await editor.refusal("session/fork", {**named, **at(**place)})
            assert (error["code"], error["data"]) == (INVALID_PARAMS, {"messageId": place.get("messageId")})
        # A form of tomorrow is a fork of all of it.
        second = await fork(editor, first, **at(version=2, messageId="m"))
        assert await known(editor, second, "x") == "a x"


STEPS = st.lists(st.tuples(st.sampled_from(["say", "fork"]), st.integers(0, 9)), max_size=12)


@pytest.mark.parametrize("kind", STORES)
@given(steps=STEPS)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_fork_has_what_was_said_before_it_and_nothing_of_any_other(
    kind: str, steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def run() -> None:
        folder = tmp_path_factory.mktemp("forks")
        with made(kind, folder) as store:
            async with editing(remembering(store)) as editor:
                await go_through(editor)

    async def go_through(editor: Editor) -> None:
        said = {await editor.open(): list[str]()}
        for number, (step, which) in enumerate(steps):
            session = list(said)[which % len(said)]
            if step == "fork":
                said[await fork(editor, session)] = [*said[session]]
            else:
                said[session].append(f"w{number}")
                assert await known(editor, session, f"w{number}") == " ".join(said[session])
        for session, words in said.items():
            assert await known(editor, session, "end") == " ".join([*words, "end"])

    anyio.run(run)
