"""A call whose end is hard to tell has one all the same, once, and the connection lives on."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from acp_server import Agent, InvalidParams, RpcError, ToolContext, ToolFailed, ToolResult, Turn
from acp_server.safe_text import whole
from acp_server.schema import TextContent
from acp_server.tools.output import problems_in
from tests.session.editor import END_TURN, editing
from tests.tools.calls import shown, text

pytestmark = pytest.mark.anyio


class Raw(BaseModel):
    data: bytes = b"\xff"


def itself() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(400):
        value = [value]
    return value


def unwritable() -> TextContent:
    return TextContent.model_validate({"text": "a", "data": b"\xff"})


def running(agent: Agent, *names: str) -> list[ToolResult]:
    results: list[ToolResult] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        results.extend([await turn.run_tool(name, id=f"id_{name}") for name in names])

    @agent.tool
    async def beside() -> str:
        return "fine"

    return results


async def ends(agent: Agent) -> dict[str, dict[str, Any]]:
    """The last update of each call of one turn, which has exactly one final status each."""
    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        told = shown(editor)
    final = [u for u in told if u.get("status") in ("completed", "failed")]
    last = {u["toolCallId"]: u for u in told}
    assert len(final) == len(last)
    assert [last[u["toolCallId"]] for u in final] == final
    return last


@pytest.mark.parametrize("error", [InvalidParams, RpcError])
@pytest.mark.parametrize(
    "data",
    [None, "x", 5, {"problems": 5}, {"problems": ["path"]}, {"problems": [{"a": 1}]}, {"problems": [{"path": 1}]}],
)
async def test_a_clients_refusal_is_a_failure_of_the_tool_whatever_its_data_is(error: Any, data: Any) -> None:
    agent = Agent("a")

    @agent.tool
    async def read(call: ToolContext) -> str:
        return str(await call.client.read_text_file("/project/a"))

    results = running(agent, "read", "beside")
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        request = await editor.client.expect_request("fs/read_text_file")
        refusal = {"code": error.code, "message": "bad", "data": data}
        await editor.client.send({"jsonrpc": "2.0", "id": request["id"], "error": refusal})
        assert await editor.answer(prompt) == END_TURN
    told = f"bad: {data}" if isinstance(data, str) else "bad"
    assert [(r.status, r.message) for r in results] == [("failed", told), ("completed", "fine")]
    assert isinstance(results[0].error, error)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"problems": [{"path": "a", "message": "is bad"}, {"path": "", "message": "all is"}]}, "a: is bad; all is"),
        ({"problems": [{"message": 5}, "x", {"path": "a"}]}, "5"),
        ({"problems": 5}, "It is bad."),
        (["problems"], "It is bad."),
    ],
)
def test_the_problems_of_arguments_are_told_as_far_as_there_are_any(data: Any, words: str) -> None:
    assert problems_in(InvalidParams("It is bad.", data=data)) == words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ToolFailed(ValueError("no such file")), "no such file"),  # pyright: ignore[reportArgumentType]
        (ToolFailed(["a", 5]), "['a', 5]"),  # pyright: ignore[reportArgumentType]
        (ToolFailed("file \udcff"), "file \udcff"),
        (InvalidParams("inner", data={"problems": ["bad"]}), "inner"),
        (RpcError(""), "The tool failed."),
    ],
)
async def test_what_a_tool_raises_is_told_whatever_its_message_is(error: Exception, words: str) -> None:
    agent = Agent("a")

    @agent.tool
    async def fail() -> None:
        raise error

    results = running(agent, "fail", "beside")
    last = await ends(agent)
    assert text(last["id_fail"]) == [whole(words)]
    assert [(r.status, r.message) for r in results] == [("failed", words), ("completed", "fine")]
    assert results[0].error is error


@pytest.mark.parametrize("make", [Raw, itself, deep], ids=["bytes in a model", "a list in itself", "too deep"])
async def test_a_value_that_cannot_be_shown_is_left_out(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("a")

    @agent.tool
    async def odd(call: ToolContext) -> Any:
        call.raw_output = make()
        return "ok"

    results = running(agent, "odd", "beside")
    last = await ends(agent)
    assert "rawOutput" not in last["id_odd"]
    assert [r.status for r in results] == ["completed", "completed"]
    assert "the client does not get a value of type" in caplog.text


@pytest.mark.parametrize("make", [Raw, itself, deep], ids=["bytes in a model", "a list in itself", "too deep"])
async def test_a_value_that_cannot_be_written_is_no_result(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("a")

    @agent.tool
    async def odd() -> Any:
        return make()

    results = running(agent, "odd", "beside")
    last = await ends(agent)
    assert text(last["id_odd"]) == ["The tool failed."]
    assert [r.status for r in results] == ["failed", "completed"]
    assert "which JSON cannot express" in caplog.text


@pytest.mark.parametrize("way", ["raw_output", "returned"])
async def test_names_that_are_no_text_may_be_keys(way: str) -> None:
    agent = Agent("a")
    sizes = {"caf\udce9": 1, "bl\udce9": [{"\udcff": "\udcff"}]}

    @agent.tool
    async def size(call: ToolContext) -> Any:
        if way == "returned":
            return sizes
        call.raw_output = sizes
        return "ok"

    running(agent, "size", "beside")
    last = await ends(agent)
    assert last["id_size"]["rawOutput"] == {"caf\\udce9": 1, "bl\\udce9": [{"\\udcff": "\N{REPLACEMENT CHARACTER}"}]}


async def test_a_large_number_is_told_to_the_model_as_it_is() -> None:
    agent = Agent("a")

    @agent.tool
    async def power() -> dict[str, int]:
        return {"n": 2**70}

    results = running(agent, "power")
    last = await ends(agent)
    assert results[0].message == '{"n":1180591620717411303424}'
    assert last["id_power"]["status"] == "completed"


async def test_arguments_with_such_names_are_shown_and_checked_like_others() -> None:
    agent = Agent("a")

    @agent.tool
    async def take(sizes: dict[str, Any]) -> str:
        return str(len(sizes))

    results: list[ToolResult] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        results.append(await turn.run_tool("take", {"sizes": {"caf\udce9": 1}}, id="c1"))
        results.append(await turn.run_tool("unknown", {"caf\udce9": 1}, id="c2"))

    last = await ends(agent)
    assert last["c1"]["status"] == ("completed" if results[0].ok else "failed")
    assert results[1].status == "failed"


async def test_what_is_still_being_filled_is_shown_as_it_is_at_the_end() -> None:
    agent = Agent("a")
    raw: dict[str, Any] = {}

    class Filling(TextContent):
        def to_wire(self) -> dict[str, Any]:
            # A thread that does it at this moment.
            raw["another"] = raw
            if len(listed) < 3:
                listed.append(self)
            return {}

    listed: list[Any] = [Filling(text="a")]
    raw["first"] = listed

    @agent.tool
    async def grow(call: ToolContext) -> str:
        call.raw_output = raw
        return "ok"

    running(agent, "grow", "beside")
    assert (await ends(agent))["id_grow"]["rawOutput"] == {"first": [{}]}


async def test_content_that_cannot_be_written_is_left_out_and_the_call_ends(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("a")

    @agent.tool
    async def odd(call: ToolContext) -> str:
        call.progress(unwritable())
        call.progress("more")
        return "ok"

    results = running(agent, "odd", "beside")
    last = await ends(agent)
    assert (last["id_odd"]["status"], text(last["id_odd"])) == ("completed", ["more\nok"])
    assert [(r.status, r.message) for r in results] == [("completed", "ok"), ("completed", "fine")]
    assert [r for r in caplog.records if r.levelno == logging.ERROR and "JSON cannot express" in r.getMessage()]


async def test_a_cancelled_call_whose_content_cannot_be_written_is_cancelled_all_the_same() -> None:
    agent = Agent("a")

    @agent.tool
    async def odd(call: ToolContext) -> None:
        call.progress(unwritable())
        call.turn.cancel_tool(call.id)
        await anyio.sleep_forever()

    results = running(agent, "odd", "beside")
    last = await ends(agent)
    assert (last["id_odd"]["status"], last["id_odd"]["_meta"]) == ("failed", {"outcome": "cancelled"})
    assert [r.status for r in results] == ["cancelled", "completed"]
