"""What the agent asks of the client: found, read, answered or refused."""

import json
from typing import Any

import anyio
import pytest

from acp_server.client import Handlers, LocalReader, connect_agent
from acp_server.errors import RpcError, UsageError
from acp_server.peer import reader
from acp_server.schema import (
    CompleteElicitationNotification,
    CreateElicitationResponse,
    ElicitationAcceptAction,
    ElicitationFormMode,
    ReadTextFileRequest,
    ReadTextFileResponse,
    WriteTextFileRequest,
)
from acp_server.tasks.grace import grace
from acp_server.testing import memory_pair
from tests.client.talking import SESSION, prompted, said, shown, talking

pytestmark = pytest.mark.anyio

FORM = {
    "mode": "form",
    "sessionId": SESSION,
    "message": "Your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


class Notes:
    """Files in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def read_text_file(self, request: ReadTextFileRequest, /) -> ReadTextFileResponse:
        if request.path not in self.texts:
            raise RpcError("no such note", code=-32002, data={"path": request.path})
        return ReadTextFileResponse(content=self.texts[request.path])

    async def write_text_file(self, request: WriteTextFileRequest, /) -> None:
        self.texts[request.path] = request.content


async def test_files_are_read_and_written_by_the_program() -> None:
    async with talking(Handlers(files=Notes())) as (_, peer):
        params = {"sessionId": SESSION, "path": "/note"}
        assert await peer.result("fs/write_text_file", params | {"content": "x"}) == {}
        assert await peer.result("fs/read_text_file", params) == {"content": "x"}
        missing = await peer.ask("fs/read_text_file", params | {"path": "/other"})
        assert missing["error"] == {"code": -32002, "message": "no such note", "data": {"path": "/other"}}


async def test_a_text_in_the_place_of_a_response_is_an_error_that_names_the_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Texts:
        async def read_text_file(self, _request: ReadTextFileRequest, /) -> Any:
            return "the text"

    async with talking(Handlers(files=Texts())) as (_, peer):
        answer = await peer.ask("fs/read_text_file", {"sessionId": SESSION, "path": "/note"})
        assert answer["error"]["code"] == -32603
    assert "the handler of fs/read_text_file must return a ReadTextFileResponse, but returned 'the text'" in caplog.text


@pytest.mark.behaviour("A6")
@pytest.mark.parametrize(
    "method",
    ["fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "_x", "session/prompt"],
)
async def test_what_was_not_announced_is_refused_as_unknown(method: str) -> None:
    async with talking() as (_, peer):
        assert (await peer.ask(method, {"sessionId": SESSION}))["error"]["code"] == -32601


async def test_a_reader_is_no_writer() -> None:
    async with talking(Handlers(files=LocalReader(["/"]))) as (_, peer):
        params = {"sessionId": SESSION, "path": "/note", "content": "x"}
        assert (await peer.ask("fs/write_text_file", params))["error"]["code"] == -32601


@pytest.mark.behaviour("A7")
async def test_parameters_that_do_not_fit_are_refused_with_their_places() -> None:
    async with talking(Handlers(files=Notes())) as (_, peer):
        response = await peer.ask("fs/read_text_file", {"path": 5, "line": -1})
        assert response["error"]["code"] == -32602
        places = [problem["path"] for problem in response["error"]["data"]["problems"]]
        assert sorted(places) == ["line", "path", "sessionId"]
        assert (await peer.ask("session/request_permission", [1]))["error"]["code"] == -32602


async def test_a_form_is_answered_and_another_way_of_asking_refused() -> None:
    async def fill_in(request: ElicitationFormMode) -> CreateElicitationResponse:
        assert request.message == "Your name?"
        return ElicitationAcceptAction(content={"name": "Ada"})

    async with talking(Handlers(form=fill_in)) as (_, peer):
        assert await peer.result("elicitation/create", FORM) == {"action": "accept", "content": {"name": "Ada"}}
        url = {"mode": "url", "sessionId": SESSION, "message": "m", "elicitationId": "e", "url": "http://localhost/"}
        assert (await peer.ask("elicitation/create", url))["error"]["code"] == -32602
        assert (await peer.ask("elicitation/create", FORM | {"mode": "dance"}))["error"]["code"] == -32602


async def test_the_end_of_an_elicitation_is_told() -> None:
    done: list[str] = []

    def url_done(notification: CompleteElicitationNotification) -> None:
        done.append(notification.elicitation_id)

    async with talking(Handlers(url_done=url_done)) as (_, peer):
        await peer.notify("elicitation/complete", {"elicitationId": "e1"})
        await peer.notify("elicitation/complete", {"nothing": 1})
        await peer.barrier()
        assert done == ["e1"]


async def test_methods_and_notifications_of_ones_own_are_called_in_order() -> None:
    heard: list[Any] = []

    async def double(params: dict[str, Any]) -> Any:
        return {"n": params["n"] * 2}

    async def hear(params: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(params)

    handlers = Handlers(methods={"_double": double}, notifications={"_tell": hear, "session/update": heard.append})
    async with talking(handlers) as (_, peer):
        assert await peer.result("_double", {"n": 4}) == {"n": 8}
        await peer.notify("_tell", {"a": 1})
        await peer.notify("_tell")
        await peer.update({"sessionUpdate": "x"})
        await peer.barrier()
        assert heard[:2] == [{"a": 1}, {}]
        assert heard[2]["update"] == {"sessionUpdate": "x"}


async def test_a_method_of_the_protocol_cannot_be_taken_by_name() -> None:
    async def handler(_params: dict[str, Any]) -> None: ...

    here, _there = memory_pair()
    with pytest.raises(UsageError, match="fs/read_text_file"):
        async with connect_agent(here, Handlers(methods={"fs/read_text_file": handler})):
            pass


@pytest.mark.behaviour("I5")
async def test_the_agent_gets_its_answers_in_the_middle_of_a_turn() -> None:
    notes = Notes()
    notes.texts["/note"] = "x"
    async with prompted(Handlers(files=notes)) as (_, peer, turn, prompt):
        assert await peer.result("fs/read_text_file", {"sessionId": SESSION, "path": "/note"}) == {"content": "x"}
        await peer.finish(prompt)
        await turn.wait()


async def test_a_handler_is_cancelled_when_the_agent_withdraws_its_request() -> None:
    entered, cut = anyio.Event(), anyio.Event()

    async def slow(_params: dict[str, Any]) -> None:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            cut.set()

    async with talking(Handlers(methods={"_slow": slow})) as (_, peer):
        id = await peer.request("_slow")
        await entered.wait()
        await peer.notify("$/cancel_request", {"requestId": id})
        assert (await peer.response(id))["error"]["code"] == -32800
        assert cut.is_set()


@pytest.mark.behaviour("D8")
async def test_leaving_by_a_cancel_waits_for_the_cleanup_of_the_handlers() -> None:
    entered = anyio.Event()
    cleaned_up = False

    async def slow(_params: dict[str, Any]) -> None:
        nonlocal cleaned_up
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                for _ in range(50):
                    await anyio.lowlevel.checkpoint()
                cleaned_up = True

    with anyio.CancelScope() as scope:
        async with talking(Handlers(methods={"_slow": slow})) as (_, peer):
            await peer.request("_slow")
            await entered.wait()
            scope.cancel()
            await anyio.sleep_forever()
    assert cleaned_up


async def test_a_handler_that_ends_the_program_ends_it() -> None:
    async def leave(_params: dict[str, Any]) -> None:
        raise SystemExit(3)

    async def run() -> None:
        async with talking(Handlers(methods={"_leave": leave})) as (agent, peer):
            await peer.ask("_leave")
            await agent.link.connection.wait_closed()

    with pytest.raises(SystemExit) as left:
        await run()
    assert left.value.code == 3


async def test_what_is_told_of_updates_may_end_the_program_also_where_they_come_faster_than_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_SLICE", 0.0)
    monkeypatch.setattr(reader, "_LOOK", 1)

    def leave(update: Any) -> None:
        if update.content.text == "bye":
            raise SystemExit(7)

    async def run() -> None:
        async with talking() as (agent, peer):
            session = await agent.new_session("/project", on_update=leave)
            async with session.prompt("hello") as turn:
                await peer.expect_request("session/prompt")
                texts = [*"abcdefgh", "bye"]
                await peer.send_raw(b"".join(json.dumps(shown(said(text))).encode() + b"\n" for text in texts))
                await turn.wait()

    with pytest.raises(SystemExit) as left:
        await run()
    assert left.value.code == 7
