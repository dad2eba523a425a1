"""An agent that asks for much at once: what is taken in, what is refused, and what waits until it reads."""

import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.client import Handlers
from acp_server.client.routes import LARGE_ANSWERS, QUESTIONS
from acp_server.peer.limits import Limits
from acp_server.schema import (
    CreateElicitationResponse,
    ElicitationFormMode,
    PermissionOption,
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    TerminalOutputRequest,
    TerminalOutputResponse,
)
from acp_server.testing import FaultyStream
from tests.client.talking import SESSION, Scripted, permission, prompted, talking
from tests.client.test_handlers import FORM
from tests.peer.ends import until

pytestmark = pytest.mark.anyio

LARGE = "x" * 100_000
"""More than what may be on its way to an agent before more is made."""


class Large:
    """Files and terminals with much in them; it counts how often it was asked."""

    def __init__(self) -> None:
        self.made = 0

    async def read_text_file(self, _request: ReadTextFileRequest, /) -> ReadTextFileResponse:
        self.made += 1
        return ReadTextFileResponse(content=LARGE)

    async def output(self, _request: TerminalOutputRequest, /) -> TerminalOutputResponse:
        self.made += 1
        return TerminalOutputResponse(output=LARGE, truncated=True)

    async def never(self, _request: Any, /) -> Any:
        await anyio.sleep_forever()

    create = wait_for_exit = kill = release = never

    async def aclose(self) -> None: ...


async def ask_often(peer: Scripted, method: str, count: int, params: dict[str, Any]) -> list[int]:
    """Send `count` requests in one chunk: their ids."""
    requests = [peer.new_request(method, params) for _ in range(count)]
    await peer.send(*requests)
    return [request["id"] for request in requests]


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/output"])
async def test_large_answers_are_made_when_the_agent_has_taken_those_before(method: str) -> None:
    streams: list[FaultyStream] = []
    large = Large()

    def faulty(stream: Any) -> FaultyStream:
        streams.append(FaultyStream(stream))
        return streams[0]

    async with talking(Handlers(files=large, terminals=large), wrap=faulty) as (agent, peer):
        streams[0].stall_sending()
        params = {"sessionId": SESSION, "path": "/note", "terminalId": "t"}
        ids = await ask_often(peer, method, 200, params)
        await streams[0].stalled.wait()
        await anyio.wait_all_tasks_blocked()
        assert large.made <= LARGE_ANSWERS + 1
        assert agent.link.connection.writer.size <= (LARGE_ANSWERS + 1) * (len(LARGE) + 1000)
        # A cancel gets through to one that waits, and what is small is answered meanwhile.
        await peer.notify("$/cancel_request", {"requestId": ids[-1]})
        refused = await peer.request("_no/such")
        await anyio.wait_all_tasks_blocked()
        streams[0].release()
        assert (await peer.response(refused))["error"]["code"] == -32601
        assert (await peer.response(ids[-1]))["error"]["code"] == -32800
        for id in ids[:-1]:
            assert LARGE in (await peer.response(id))["result"].values()
        assert large.made == len(ids) - 1


async def test_large_answers_are_encoded_in_rounds_of_their_own() -> None:
    rounds = asked = 0
    ready = anyio.Event()
    encoded: list[int] = []

    class Counted(ReadTextFileResponse):
        def to_wire(self) -> dict[str, Any]:
            encoded.append(rounds)
            return super().to_wire()

    class Files(Large):
        async def read_text_file(self, _request: ReadTextFileRequest, /) -> ReadTextFileResponse:
            nonlocal asked
            asked += 1
            await ready.wait()
            return Counted(content=LARGE)

    async with talking(Handlers(files=Files())) as (_, peer):
        ids = await ask_often(peer, "fs/read_text_file", LARGE_ANSWERS, {"sessionId": SESSION, "path": "/note"})
        await until(lambda: asked == LARGE_ANSWERS)
        ready.set()
        with anyio.fail_after(5):
            while len(encoded) < LARGE_ANSWERS:
                await anyio.lowlevel.checkpoint()
                rounds += 1
        for id in ids:
            assert "result" in await peer.response(id)
    assert len(set(encoded)) == LARGE_ANSWERS


async def test_questions_beyond_the_bound_are_refused_and_a_cancel_of_the_turn_makes_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown = 0

    async def think(_request: RequestPermissionRequest) -> PermissionOption | None:
        nonlocal shown
        shown += 1
        await anyio.sleep_forever()

    async def fill_in(_request: ElicitationFormMode) -> CreateElicitationResponse:
        raise AssertionError("not to be asked")

    async with prompted(Handlers(permission=think, form=fill_in)) as (_, peer, turn, prompt):
        ids = await ask_often(peer, "session/request_permission", QUESTIONS + 50, permission())
        for id in ids[QUESTIONS:]:
            error = (await peer.response(id))["error"]
            assert (error["code"], error["data"]) == (-32603, {"limit": "questions"})
        assert (await peer.ask("elicitation/create", FORM))["error"]["data"] == {"limit": "questions"}
        await until(lambda: shown == QUESTIONS)
        turn.cancel()
        for id in ids[:QUESTIONS]:
            assert (await peer.response(id))["result"] == {"outcome": {"outcome": "cancelled"}}
        await peer.finish(prompt, "cancelled")
        await turn.wait()
        again = await ask_often(peer, "session/request_permission", QUESTIONS + 1, permission())
        assert (await peer.response(again[-1]))["error"]["data"] == {"limit": "questions"}
        # Refusals do not wait for the handlers before them to begin.
        await until(lambda: shown == 2 * QUESTIONS)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_requests_beyond_the_limit_of_the_connection_are_refused_until_others_are_answered() -> None:
    async def hang(_params: dict[str, Any]) -> Any:
        await anyio.sleep_forever()

    async with talking(Handlers(methods={"_hang": hang}), limits=Limits(requests=100_000)) as (_, peer):
        ids = await ask_often(peer, "_hang", 5, {"x": "x" * 20_000})
        for id in ids[3:]:
            assert (await peer.response(id))["error"] == {
                "code": -32603,
                "message": "Too many requests are in flight",
                "data": {"limit": "requests"},
            }
        await peer.notify("$/cancel_request", {"requestId": ids[0]})
        assert (await peer.response(ids[0]))["error"]["code"] == -32800
        # The others are not refused: they run until they are withdrawn.
        (again,) = await ask_often(peer, "_hang", 1, {"x": "x" * 20_000})
        for id in (*ids[1:3], again):
            await peer.notify("$/cancel_request", {"requestId": id})
        for id in (*ids[1:3], again):
            assert (await peer.response(id))["error"]["code"] == -32800
