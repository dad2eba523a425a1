"""An agent of a program that lives longer than a block: started, ended, and ended with the program."""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE
from typing import Any

import anyio
import pytest

from acp_server.client import (
    AsyncioStream,
    Handlers,
    LocalTerminals,
    RemoteAgent,
    connect_agent,
    spawn_agent,
)
from acp_server.client.source import Reached
from acp_server.errors import ConnectionClosed, UsageError
from acp_server.peer.stream import Stream
from acp_server.schema import CreateTerminalRequest
from acp_server.testing import memory_pair
from tests.client.processes import FAKE, HURRY, PATIENCE, Ear, gone
from tests.client.talking import SESSION, Scripted


@pytest.mark.anyio
async def test_an_agent_is_started_by_one_function_and_ended_by_another(ear: Ear) -> None:
    agent = spawn_agent([sys.executable, "-S", "-E", FAKE, "", ear.path], patience=HURRY)
    assert agent.process is None
    with anyio.fail_after(PATIENCE):
        await agent.start()
        pids = await ear.pids()
        assert (await agent.initialize()).protocol_version == 1
        await agent.aclose()
        await agent.aclose()
    gone(*pids)


@pytest.mark.anyio
async def test_an_agent_that_is_not_running_says_what_to_do() -> None:
    here, _ = memory_pair()
    agent = connect_agent(here)
    with pytest.raises(UsageError, match="start the agent first"):
        await agent.initialize()
    await agent.start()
    with pytest.raises(UsageError, match="an agent can be started only once"):
        await agent.start()
    await agent.aclose()
    with pytest.raises(ConnectionClosed):
        await agent.request("_any")
    with pytest.raises(UsageError, match="an agent can be started only once"):
        await agent.start()


@pytest.mark.anyio
async def test_an_agent_that_was_never_started_is_closed_without_effect() -> None:
    agent = spawn_agent(["/no/such/program"])
    await agent.aclose()
    other = spawn_agent(["/no/such/program"])
    with pytest.raises(FileNotFoundError):
        await other.start()
    await other.aclose()


class SlowToStart(Reached):
    """An agent that takes its time to start."""

    def __init__(self) -> None:
        super().__init__(memory_pair()[0])
        self.go_on = anyio.Event()
        self.told: list[str] = []

    async def start(self) -> Stream:
        self.told.append("start")
        await self.go_on.wait()
        return await super().start()

    async def aclose(self) -> None:
        self.told.append("end")


@pytest.mark.anyio
async def test_an_agent_that_is_closed_while_it_is_being_started_is_not_left_behind() -> None:
    source = SlowToStart()
    agent = RemoteAgent(source, Handlers())

    async def start() -> None:
        with pytest.raises(ConnectionClosed):
            await agent.start()

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await anyio.wait_all_tasks_blocked()
        await agent.aclose()
        source.go_on.set()
    assert source.told == ["start", "end", "end"]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_of_asyncio_is_talked_to(ear: Ear) -> None:
    command = [sys.executable, "-S", "-E", FAKE, "", ear.path]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    with anyio.fail_after(PATIENCE):
        async with connect_agent(AsyncioStream.of(process)) as agent:
            assert (await agent.initialize()).protocol_version == 1
        # Its input is closed, which tells it to end; it is the program that waits for that.
        assert await process.wait() == 0


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_of_asyncio_that_ends_is_a_lost_connection() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-S", "-E", "-c", "", stdin=PIPE, stdout=PIPE)
    with anyio.fail_after(PATIENCE):
        async with connect_agent(AsyncioStream.of(process)) as agent:
            with pytest.raises(ConnectionClosed):
                await agent.initialize()
        assert await process.wait() == 0


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_without_pipes_is_refused() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-S", "-E", "-c", "")
    with pytest.raises(ValueError, match="stdin=PIPE and stdout=PIPE"):
        AsyncioStream.of(process)
    await process.wait()


class Closer:
    """Stands for what a program has closed with a connection."""

    def __init__(self) -> None:
        self.began = self.ended = 0

    async def __call__(self) -> None:
        self.began += 1
        await asyncio.sleep(0)
        self.ended += 1


@pytest.mark.parametrize("rounds", [None, *range(24)])
def test_what_ends_with_a_connection_ends_where_asyncio_run_ends_meanwhile(
    rounds: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    terminals, first, last = LocalTerminals(), Closer(), Closer()
    pids: list[int] = []

    async def serve(ready: asyncio.Event, go_on: asyncio.Event) -> None:
        here, _ = memory_pair()
        async with connect_agent(here, Handlers(terminals=terminals)) as agent:
            agent.link.connection.on_close(last)
            agent.link.connection._closers.insert(0, first)
            request = CreateTerminalRequest(session_id="s", command=sys.executable, args=["-c", "input()"])
            id = (await terminals.create(request)).terminal_id
            pids.append(terminals._terminals[id]._process.pid)
            ready.set()
            await go_on.wait()

    async def main() -> None:
        ready, go_on = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(serve(ready, go_on))
        await ready.wait()
        if rounds is not None:
            go_on.set()
            for _ in range(rounds):
                await asyncio.sleep(0)
        assert serving

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    gone(*pids)
    # One that was under way is told of it, as every task is; it is not begun again, and no other is skipped.
    assert (first.began, last.began) == (1, 1)
    assert first.ended + last.ended >= 1
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING]


# What the session knows


@pytest.mark.anyio
async def test_an_update_that_comes_before_the_session_reaches_a_handler_that_knows_it() -> None:
    here, there = memory_pair()
    heard: list[tuple[str, str | None, str]] = []
    kept: dict[str, Any] = {}

    def on_update(session: Any, update: Any) -> None:
        kept[session.id] = session
        heard.append((session.id, session.response.model_extra["models"], update.title))

    async with Scripted(there) as peer, connect_agent(here) as agent:

        async def serve() -> None:
            request = await peer.expect_request("session/new")
            await peer.update({"sessionUpdate": "session_info_update", "title": "before"})
            await peer.respond(request, {"sessionId": SESSION, "models": "m"})
            await peer.update({"sessionUpdate": "session_info_update", "title": "behind"})

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            session = await agent.new_session("/project", on_update=on_update)
        await peer.barrier()
    assert heard == [(SESSION, "m", "before"), (SESSION, "m", "behind")]
    assert kept == {SESSION: session}
    assert session.on_update is on_update


async def _run_twice(agent: RemoteAgent, peer: Scripted, on_update: Any) -> None:
    session = await agent.new_session("/project", on_update=on_update)
    async with anyio.create_task_group() as group:
        group.start_soon(peer_turn, peer)
        await session.run("hello", on_update=on_update)


async def peer_turn(peer: Scripted) -> None:
    prompt = await peer.expect_request("session/prompt")
    await peer.update({"sessionUpdate": "session_info_update", "title": "t"})
    await peer.finish(prompt)


class Takes:
    """Handlers in the forms that programs have."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def update(self, update: Any) -> None:
        self.heard.append(update)

    def both(self, session: Any, update: Any) -> None:
        self.heard.append((session, update))

    async def waits(self, session: Any, update: Any) -> None:
        await anyio.lowlevel.checkpoint()
        self.both(session, update)

    def any(self, *arguments: Any) -> None:
        self.heard.append(*arguments)

    def optional(self, update: Any, more: Any = None) -> None:
        assert more is None
        self.heard.append(update)


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["update", "optional", "any", "append", "both", "waits"])
async def test_a_handler_takes_the_update_or_the_session_and_the_update(form: str) -> None:
    here, there = memory_pair()
    takes = Takes()
    async with Scripted(there) as peer, connect_agent(here) as agent:
        peer.answer("session/new", {"sessionId": SESSION})
        await _run_twice(agent, peer, takes.heard.append if form == "append" else getattr(takes, form))
        session = agent.sessions[SESSION]
        found = [
            each[0] is session and each[1].title if isinstance(each, tuple) else each.title for each in takes.heard
        ]
        assert found == ["t", "t"]
        assert all(isinstance(each, tuple) == (form in ("both", "waits")) for each in takes.heard)


@pytest.mark.anyio
async def test_a_handler_that_can_take_neither_is_refused() -> None:
    here, there = memory_pair()
    async with Scripted(there) as peer, connect_agent(here) as agent:
        peer.answer("session/new", {"sessionId": SESSION})
        session = await agent.new_session("/project")
        wrong: Any = lambda a, b, c: None  # noqa: E731
        with pytest.raises(UsageError, match="on_update must take an update, or a session and an update"):
            session.on_update = wrong
        with pytest.raises(UsageError, match="on_update must take"):
            await session.run("hello", on_update=wrong)
        assert session.on_update is None
