"""An `on_cancel` that calls back into the runtime: what it may do works, what it may not is refused, nothing hangs."""

from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from acp_server import Cause, RequestCancelled
from acp_server.session.turn import live_of
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.tools.stage import KINDS, OF_AGENTS, OTHER, OWN, Stage, status_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", KINDS)
async def test_one_may_cancel_its_own_call_once_more(kind: str) -> None:
    def act(stage: Stage) -> str:
        return str([stage.turn.cancel_tool(OWN), stage.turn.cancel_tool("unknown")])

    stage = Stage(kind, act)
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "[False, False]")


@pytest.mark.parametrize("kind", KINDS)
async def test_one_may_cancel_another_call(kind: str) -> None:
    stage = Stage(kind, lambda stage: str(stage.turn.cancel_tool(OTHER)))
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        assert await editor.answer(prompt) == END_TURN
    assert stage.outcome == ("cancelled", "True")
    assert (stage.results[OTHER].status, stage.results[OTHER].message) == ("cancelled", None)


@pytest.mark.parametrize("kind", KINDS)
async def test_one_may_cancel_its_session(kind: str) -> None:
    stage = Stage(kind, lambda stage: stage.seen.append(stage.turn.session.cancel()))
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        assert await editor.answer(prompt) == CANCELLED
        # The session is as good as new.
        assert not stage.turn.session.cancel()
    assert stage.seen == [True]
    assert stage.turn.cause is Cause.SESSION


@pytest.mark.parametrize("kind", KINDS)
async def test_one_may_close_the_connection(kind: str) -> None:
    stage = Stage(kind, lambda stage: stage.turn.client.connection.close())
    try:
        async with editing(stage.agent) as editor:
            session = await editor.open()
            prompt = await editor.prompt(session)
            await stage.running.wait()
            await editor.client.request("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
            assert (await editor.answer(prompt))["code"] == -32800
    finally:
        stage.release.set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "act",
    [
        lambda stage: live_of(stage.turn).node.cancel(Cause.USER),
        lambda stage: stage.turn.client.notify("_late", {}),
    ],
    ids=["cancelling a node", "sending"],
)
async def test_what_only_the_loops_thread_may_do_is_refused_in_another(
    kind: str, act: Callable[[Stage], Any], caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(kind, act)
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", None)
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("kind", OF_AGENTS)
async def test_nothing_that_one_says_reaches_the_client(kind: str) -> None:
    def act(stage: Stage) -> str:
        stage.call.progress("late")
        stage.call.set_title("late")
        stage.call.locate("/project/late")
        stage.call.locations = []
        return "partial"

    stage = Stage(kind, act)
    editor = await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "partial")
    own = [u for u in editor.client.updates() if u.get("toolCallId") == OWN]
    assert not [u for u in own if "locations" in u or ("title" in u and u["sessionUpdate"] != "tool_call")]


@pytest.mark.parametrize("kind", OF_AGENTS)
async def test_one_cannot_have_the_loop_wait_for_it_and_sends_nothing(kind: str) -> None:
    def act(stage: Stage) -> str:
        for function, *args in [
            (stage.call.client.read_text_file, "/project/late"),
            (stage.turn.say, "late"),
            (stage.turn.run_tool, "beside"),
            (anyio.sleep, 0),
        ]:
            with pytest.raises(RequestCancelled):
                stage.call.run(function, *args)
        return "refused"

    stage = Stage(kind, act)
    editor = await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "refused")
    assert editor.asked() == []


async def test_one_that_uses_an_editor_is_refused_and_sends_nothing() -> None:
    def act(stage: Stage) -> str:
        with pytest.raises(RequestCancelled):
            stage.editor.write_to_file("a", "late")
        return "refused"

    stage = Stage("plain assistant", act)
    editor = await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "refused")
    assert editor.asked() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_anyios_functions_do_not_take_its_thread_for_the_loops(kind: str, anyio_backend_name: str) -> None:
    def act(stage: Stage) -> str:
        for function in (lambda: anyio.from_thread.run(anyio.sleep, 0), anyio.current_time):
            with pytest.raises(RuntimeError):
                function()
        # A loop of its own is possible.
        anyio.run(anyio.sleep, 0, backend=anyio_backend_name)
        stage.seen.append("through")
        stage.acted.set()
        return "through"

    stage = Stage(kind, act)
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN
        assert await anyio.to_thread.run_sync(stage.acted.wait, 5)
    # On a busy machine it is slower than quick, and not heard.
    assert stage.outcome in [("cancelled", "through"), ("cancelled", None)]
    assert stage.seen == ["through"]
