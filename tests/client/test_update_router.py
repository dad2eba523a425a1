"""Sessions whose updates come too early, whose answer comes too late, or that are not open here."""

import logging
from functools import partial
from typing import Any

import anyio
import pytest

from acp_server.client import update_router
from acp_server.client.update_router import EARLY_BYTES
from acp_server.schema import SessionUpdate
from tests.client.talking import EVERYTHING, SESSION, said, shown, talking, text

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("I9")
async def test_updates_in_one_chunk_with_the_answer_that_names_the_session_reach_it() -> None:
    async with talking() as (agent, peer):
        peer.leave_unanswered("session/new")
        seen: list[str] = []

        async def on_update(update: SessionUpdate) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(update.to_wire()["sessionUpdate"])

        async def serve() -> None:
            request = await peer.expect_request("session/new")
            commands = [{"name": "search", "description": "Search"}]
            await peer.send(
                shown(said("before the answer")),
                {"jsonrpc": "2.0", "id": request["id"], "result": {"sessionId": SESSION}},
                shown({"sessionUpdate": "available_commands_update", "availableCommands": commands}),
                shown(said("somebody else's"), "sess_other"),
            )

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            session = await agent.new_session("/project", on_update=on_update)
        await peer.barrier()
        assert seen == ["agent_message_chunk", "available_commands_update"]
        assert [command.name for command in session.available_commands] == ["search"]


async def test_updates_of_sessions_that_are_not_open_here_are_kept_out_of_the_way() -> None:
    async with talking() as (agent, peer):
        seen: list[SessionUpdate] = []
        session = await agent.new_session("/project", on_update=seen.append)
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            await peer.update(said("stray"), session="sess_other")
            await peer.update(said("mine"))
            await peer.finish(prompt)
            assert [text(update) async for update in turn] == ["mine"]
        assert [text(update) for update in seen] == ["mine"]


@pytest.mark.behaviour("C4", "C5")
async def test_a_session_that_is_made_when_nobody_waits_for_it_any_more_is_closed() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        peer.leave_unanswered("session/new")
        async with anyio.create_task_group() as group:
            group.start_soon(agent.new_session, "/project")
            request = await peer.expect_request("session/new")
            group.cancel_scope.cancel()
        assert (await peer.expect("$/cancel_request"))["params"] == {"requestId": request["id"]}
        await peer.respond(request, {"sessionId": "late"})
        close = await peer.expect_request("session/close")
        assert close["params"] == {"sessionId": "late"}
        await peer.respond(close, {})
        assert agent.sessions == {}


async def test_an_unwanted_session_that_cannot_be_closed_disturbs_nobody() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        peer.leave_unanswered("session/new")
        async with anyio.create_task_group() as group:
            group.start_soon(agent.new_session, "/project")
            request = await peer.expect_request("session/new")
            group.cancel_scope.cancel()
        await peer.respond(request, {"sessionId": "late"})
        await peer.refuse(await peer.expect_request("session/close"), -32002)
        peer.answer("session/new", {"sessionId": SESSION})
        await agent.new_session("/project")


async def test_a_handler_that_fails_at_an_early_update_costs_neither_the_session_nor_the_next_update(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    def on_update(update: SessionUpdate) -> None:
        seen.append(text(update))
        raise ValueError(seen)

    async with talking() as (agent, peer):
        peer.leave_unanswered("session/new")

        async def serve() -> None:
            request = await peer.expect_request("session/new")
            await peer.update(said("one"), said("two"))
            await peer.respond(request, {"sessionId": SESSION})

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            session = await agent.new_session("/project", on_update=on_update)
        assert agent.sessions == {SESSION: session}
    assert seen == ["one", "two"]
    assert caplog.text.count("the handler of session/update failed") == 2


async def test_updates_for_sessions_that_are_not_open_yet_are_kept_up_to_a_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "acp_server.client")
    size = 10_000
    seen: list[str] = []

    async with talking() as (agent, peer):
        peer.leave_unanswered("session/new")

        async def serve() -> None:
            request = await peer.expect_request("session/new")
            for number in range(2 * EARLY_BYTES // size):
                await peer.update(said(f"{number:04}" + "x" * size), session=SESSION if number % 2 else "never opened")
            await peer.respond(request, {"sessionId": SESSION})

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            await agent.new_session("/project", on_update=lambda update: seen.append(text(update)))
        # The first ones, without a gap, up to the bound.
        assert [int(piece[:4]) for piece in seen] == list(range(1, 2 * len(seen), 2))
        assert 0.95 * EARLY_BYTES < 2 * sum(map(len, seen)) < EARLY_BYTES
        assert [record.message for record in caplog.records] == [
            "the agent sends too many updates of sessions that are not open yet; they are dropped"
        ]
        # The room is free again for the next one.
        async with anyio.create_task_group() as group:
            group.start_soon(agent.new_session, "/project")
            request = await peer.expect_request("session/new")
            await peer.update(said("first"), session="sess_2")
            await peer.respond(request, {"sessionId": "sess_2"})
        assert len(caplog.records) == 1


async def test_the_room_that_a_new_session_took_is_there_for_another_as_soon_as_it_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(update_router, "EARLY_BYTES", 1000)
    seen: list[str] = []
    async with talking() as (agent, peer):
        peer.leave_unanswered("session/new")
        async with anyio.create_task_group() as group:
            requests: list[Any] = []
            for folder in ("/first", "/second"):
                group.start_soon(partial(agent.new_session, folder, on_update=lambda update: seen.append(text(update))))
                requests.append(await peer.expect_request("session/new"))
            for id, request in zip(("sess_1", "sess_2"), requests, strict=True):
                await peer.update(said(id + "x" * 500), session=id)
                await peer.respond(request, {"sessionId": id})
                await peer.barrier()
        assert [piece[:6] for piece in seen] == ["sess_1", "sess_2"]
