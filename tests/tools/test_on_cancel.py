"""What an `on_cancel` returns or raises, and when it is set: harmless, whatever it is."""

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from acp_server import Agent, ToolContext, Turn
from acp_server.tasks import threads
from tests.session.editor import END_TURN, editing
from tests.tools.stage import KINDS, OWN, Stage, warnings

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", KINDS)
async def test_what_on_cancel_returns_is_told_to_the_model_and_the_user(kind: str) -> None:
    stage = Stage(kind, lambda stage: "Cancelled.\nPartial results: one")
    editor = await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "Cancelled.\nPartial results: one")
    last = next(u for u in reversed(editor.client.updates()) if u.get("toolCallId") == OWN)
    assert last["_meta"] == {"outcome": "cancelled"}
    assert last["content"][-1]["content"]["text"].endswith("Cancelled.\nPartial results: one")


@pytest.mark.parametrize("kind", KINDS)
async def test_without_on_cancel_there_is_nothing_to_tell(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(kind)
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", None)
    assert not warnings(caplog)


class Ending(BaseException):
    pass


def raises(error: BaseException) -> Callable[[Stage], str]:
    def act(stage: Stage) -> str:
        raise error

    return act


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [ValueError("late"), SystemExit(3), KeyboardInterrupt(), Ending()], ids=repr)
async def test_one_that_raises_is_logged_and_says_nothing(
    kind: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(kind, raises(error))
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", None)
    [record] = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert record.getMessage() == "on_cancel of search failed"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def coroutine() -> str:
    return "late"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [lambda: 5, lambda: b"late", lambda: ["late"], lambda: {"late": 1}, coroutine])
async def test_one_that_returns_no_text_says_nothing_and_warns(
    kind: str, make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(kind, lambda stage: make())
    await stage.cancelled_alone()
    if make is coroutine:
        gc.collect()  # that nobody awaited it would be said now
    assert stage.outcome == ("cancelled", None)
    [warning] = warnings(caplog)
    assert warning.startswith("on_cancel of search must return a string, but returned ")


@pytest.mark.parametrize("text", ["", "\ud800 half of a pair", "x" * 1_000_000], ids=["empty", "surrogate", "long"])
async def test_any_text_is_fit_for_a_message(text: str) -> None:
    stage = Stage("async", lambda stage: text)
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", text)


@pytest.mark.parametrize("kind", KINDS)
async def test_of_two_that_are_registered_the_last_counts(kind: str) -> None:
    stage = Stage(kind, lambda stage: "second")
    begin = stage.begin

    def twice(target: Any) -> None:
        target.on_cancel = lambda: "first, late"
        begin(target)

    stage.begin = twice
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "second")


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_is_taken_back_is_not_called(kind: str) -> None:
    stage = Stage(kind, lambda stage: "late")
    begin = stage.begin

    def and_none(target: Any) -> None:
        begin(target)
        target.on_cancel = None
        assert target.on_cancel is None

    stage.begin = and_none
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", None)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_one_that_is_set_before_or_after_the_function_runs_has_no_effect_and_warns(
    in_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("a")
    kept: list[ToolContext] = []

    def question(call: ToolContext) -> str:
        # Nothing is executed yet.
        call.on_cancel = lambda: "late"
        assert call.on_cancel is None
        return "May it?"

    async def body(call: ToolContext) -> str:
        assert call.on_cancel is None
        call.on_cancel = lambda: "late"
        assert call.on_cancel is not None
        kept.append(call)
        return "done"

    def plain(call: ToolContext) -> str:
        call.on_cancel = lambda: "late"
        kept.append(call)
        return "done"

    agent.tool(name="search", approval=question)(plain if in_thread else body)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        result = await turn.run_tool("search", id=OWN)
        [call] = kept
        assert call.on_cancel is None
        call.on_cancel = lambda: "late"
        assert call.on_cancel is None
        assert not turn.cancel_tool(OWN)
        return str(result.message)

    async with editing(agent) as editor:
        allow = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        editor.client.answer("session/request_permission", allow)
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ["done"]
    warning = "on_cancel of search was set while the tool was not running, so the function is not called"
    assert warnings(caplog) == [warning] * 2


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_is_set_anew_while_it_is_called_is_not_called(kind: str) -> None:
    def act(stage: Stage) -> str:
        stage.begin(stage.call or stage.tool)
        stage.act = lambda stage: "late"
        return "first"

    stage = Stage(kind, act)
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "first")


# -- too much that still runs


@pytest.mark.parametrize("kind", ["async", "generator", "assistant"])
async def test_one_is_heard_although_too_much_that_was_cancelled_still_runs(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "ABANDONED", 0)
    stage = Stage(kind, lambda stage: "partial")
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "partial")


@pytest.mark.parametrize("kind", KINDS)
async def test_where_too_many_of_them_still_run_it_is_not_called_and_the_call_ends_without_its_words(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "ASKED", 0)
    stage = Stage(kind, lambda stage: "late")
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", None)
    assert warnings(caplog) == ["on_cancel of search was not called, because too many threads still run"]
