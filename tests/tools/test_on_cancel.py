"""Whatever an `on_cancel` does is harmless: nothing stops for it, nothing is answered twice, nothing comes later."""

import gc
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from acp_server import Agent, Cause, RequestCancelled, ToolContext, ToolResult, Turn
from acp_server.tasks.threads import in_loop
from acp_server.tools import runner
from acp_server.tools.assistant import AssistantTool
from acp_server.tools.editor import BlockingEditor
from tests.session.editor import CANCELLED, END_TURN, Editor, editing
from tests.tools.assistants import PLAIN

KINDS = ["async", "plain", "generator", "assistant", "plain assistant"]
OF_AGENTS = ["async", "plain", "generator"]
OWN, OTHER = "own", "other"

pytestmark = pytest.mark.anyio


class Stage:
    """An agent whose turn runs two tools: one with an `on_cancel`, which waits to be cancelled, and one beside it."""

    def __init__(self, kind: str, on_cancel: Callable[["Stage"], Any] | None = None) -> None:
        self.kind = kind
        self.act = on_cancel
        self.agent = Agent("stage")
        self.tool = AssistantTool(PLAIN, self.agent)
        self.results: dict[str, ToolResult] = {}
        self.seen: list[Any] = []
        self.release = threading.Event()
        """Set at the end of the test: for an `on_cancel` and a thread that would go on for long."""
        self.go_on = anyio.Event()
        """Lets the tool beside it return."""
        self.running = anyio.Event()
        self.left = threading.Event()
        """The function of the first tool has ended."""
        self.input_ended = False
        self.call: Any = None
        self.editor: Any = None
        self.turn: Any = None
        if kind == "assistant":
            self.tool.register_execute_tool(self.assistant)
        elif kind == "plain assistant":
            self.tool.register_execute_tool(self.plain_assistant)
        else:
            bodies = {"async": self.body, "plain": self.plain, "generator": self.generator}
            self.agent.tool(name="search")(bodies[kind])

        @self.agent.tool
        async def beside() -> str:
            await self.go_on.wait()
            return "done"

        @self.agent.prompt
        async def prompt(turn: Turn) -> None:
            self.turn = turn
            async with anyio.create_task_group() as group:
                group.start_soon(self.one, "search", OWN)
                group.start_soon(self.one, "beside", OTHER)

    async def one(self, name: str, id: str) -> None:
        self.results[id] = await self.turn.run_tool(name, id=id)

    @property
    def outcome(self) -> tuple[str, str | None]:
        return self.results[OWN].status, self.results[OWN].message

    # -- the function, as each sort has it

    def begin(self, target: Any) -> None:
        if self.act is not None:
            act = self.act
            target.on_cancel = lambda: act(self)

    async def body(self, call: ToolContext) -> str:
        self.call = call
        self.begin(call)
        self.running.set()
        await anyio.sleep_forever()
        return "ignored"

    async def generator(self, call: ToolContext) -> AsyncGenerator[str]:
        yield "first. "
        await self.body(call)

    def plain(self, call: ToolContext) -> str:
        self.call = call
        self.begin(call)
        return self.wait_in_thread(lambda: call.is_cancelled)

    async def assistant(self) -> dict[str, Any]:
        self.begin(self.tool)
        self.running.set()
        await anyio.sleep_forever()
        return {"success": True, "message": "ignored"}

    def plain_assistant(self, params: dict[str, Any], editor: BlockingEditor) -> dict[str, Any]:
        self.editor = editor
        self.begin(self.tool)
        return {"success": True, "message": self.wait_in_thread(lambda: self.tool.is_cancelled)}

    def wait_in_thread(self, is_cancelled: Callable[[], bool]) -> str:
        in_loop(self.running.set)
        while not is_cancelled():
            self.left.wait(0.001)
        self.left.set()
        return "ignored"

    # -- the conversation

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[tuple[Editor, str, Any]]:
        """An editor with a turn in which both tools run."""
        try:
            async with editing(self.agent) as editor:
                session = await editor.open()
                prompt = await editor.prompt(session)
                with anyio.fail_after(5):
                    await self.running.wait()
                await editor.client.expect(lambda m: status_of(m, OTHER) == "in_progress")
                yield editor, session, prompt
                if not self.input_ended:
                    await editor.settled()
            assert_nothing_later(editor, prompt)
        finally:
            self.release.set()

    async def cancelled_alone(self) -> Editor:
        """The first tool is cancelled, and the turn goes on to its end."""
        async with self.started() as (editor, session, prompt):
            await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
            await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
            self.go_on.set()
            assert await editor.answer(prompt) == END_TURN
        assert self.results[OTHER].ok
        return editor


def status_of(message: Any, id: str) -> Any:
    update = message.get("params", {}).get("update", {})
    return update.get("status") if update.get("toolCallId") == id else None


def assert_nothing_later(editor: Editor, prompt: Any) -> None:
    """Behind a call's last status nothing of the call; behind the answer nothing of the turn."""
    received = editor.client.received
    answers = [i for i, m in enumerate(received) if m.get("id") == prompt and "method" not in m]
    assert len(answers) == 1
    for id in (OWN, OTHER):
        told = [i for i, m in enumerate(received) if m.get("params", {}).get("update", {}).get("toolCallId") == id]
        final = [i for i in told if status_of(received[i], id) in ("completed", "failed")]
        assert len(final) == 1
        assert final[0] == told[-1] < answers[0]
    assert "late" not in str(received)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and "on_cancel" in r.getMessage()]


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


# -- one that blocks


def blocks(stage: Stage) -> str:
    stage.release.wait(10)
    return "late"


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_blocks_holds_up_neither_the_call_nor_the_turn(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(kind, blocks)
    with anyio.fail_after(8):
        await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", None)
    assert warnings(caplog)[0] == "on_cancel of search is too slow; going on without it"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["turn", "request", "end of input"])
async def test_one_that_blocks_does_not_hold_up_the_answer_of_a_cancelled_turn(kind: str, way: str) -> None:
    stage = Stage(kind, blocks)
    async with stage.started() as (editor, session, prompt):
        with anyio.fail_after(8):
            if way == "turn":
                await editor.cancel(session)
            elif way == "request":
                await editor.withdraw(prompt)
            else:
                editor.stream.end_input()
                stage.input_ended = True
            answer = await editor.answer(prompt)
        assert not stage.release.is_set()
        assert answer["code"] == -32800 if stage.input_ended else answer == CANCELLED


async def test_a_hundred_that_block_share_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent("many")
    release = threading.Event()
    running: list[int] = []
    all_run = anyio.Event()
    waited: list[float] = []
    wait = threading.Event.wait

    def recorded(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout is not None and timeout <= 0.05:
            waited.append(timeout)
        return wait(event, timeout)

    @agent.tool
    async def search(call: ToolContext) -> None:
        call.on_cancel = lambda: str(release.wait(10))
        running.append(1)
        if len(running) == 100:
            all_run.set()
        await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(turn.run_tool, "search")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await all_run.wait()
        monkeypatch.setattr(threading.Event, "wait", recorded)
        with anyio.fail_after(8):
            await editor.cancel(session)
            assert await editor.answer(id) == CANCELLED
        monkeypatch.undo()
        release.set()
    # The first waits for all of the moment, and the others for what is left of it: nothing.
    assert len(waited) == 100
    assert 0.04 < waited[0] <= 0.05
    assert waited[1:] == [0.0] * 99


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_is_not_quite_quick_is_heard(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_HEAR_OUT", 20.0)
    stage = Stage(kind, lambda stage: "partial" if stage.release.wait(10) else None)
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        assert not [m for m in editor.client.received if status_of(m, OWN) == "failed"]
        stage.release.set()
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN
    assert stage.outcome == ("cancelled", "partial")


async def test_the_client_hears_of_the_end_although_the_function_cleans_up_for_longer() -> None:
    from acp_server import grace

    cleaned_up = anyio.Event()
    stage = Stage("async", blocks)

    async def body(call: ToolContext) -> None:
        stage.begin(call)
        stage.running.set()
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await cleaned_up.wait()

    stage.agent = Agent("cleaning")
    stage.agent.tool(name="search")(body)
    stage.agent.prompt(lambda_prompt(stage))
    async with editing(stage.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await stage.running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        assert not stage.results
        cleaned_up.set()
        assert await editor.answer(prompt) == END_TURN
    stage.release.set()
    assert stage.outcome == ("cancelled", None)


def lambda_prompt(stage: Stage) -> Any:
    async def prompt(turn: Turn) -> None:
        stage.turn = turn
        await stage.one("search", OWN)

    return prompt


# -- one that fails, or returns what is no message


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
    gc.collect()  # a coroutine that nobody awaited would say so now
    assert stage.outcome == ("cancelled", None)
    [warning] = warnings(caplog)
    assert warning.startswith("on_cancel of search returned ")
    assert warning.endswith(", not text")


@pytest.mark.parametrize("text", ["", "\ud800 half of a pair", "x" * 1_000_000], ids=["empty", "surrogate", "long"])
async def test_any_text_is_fit_for_a_message(text: str) -> None:
    stage = Stage("async", lambda stage: text)
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", text)


# -- registering


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
    assert warnings(caplog) == ["on_cancel of search was set while it does not run; that has no effect"] * 2


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_is_set_anew_while_it_is_called_is_not_called(kind: str) -> None:
    def act(stage: Stage) -> str:
        stage.begin(stage.call or stage.tool)
        stage.act = lambda stage: "late"
        return "first"

    stage = Stage(kind, act)
    await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", "first")


# -- one that calls back into the runtime


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
        lambda stage: stage.turn.node.cut(Cause.USER),
        lambda stage: stage.turn.client.notify("_late", {}),
    ],
    ids=["cutting a node", "sending"],
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


async def test_nothing_that_a_slow_one_says_reaches_the_client_meanwhile() -> None:
    def act(stage: Stage) -> str:
        stage.call.progress("late")
        stage.call.locate("/project/late")
        stage.release.wait(10)
        return "partial"

    stage = Stage("async", act)
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.settled()
        stage.release.set()
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN


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
        return "through"

    stage = Stage(kind, act)
    # Slower than quick, on a busy machine.
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN
    assert stage.outcome in [("cancelled", "through"), ("cancelled", None)]


# -- functions that do not care


@pytest.mark.parametrize("kind", ["plain", "plain assistant"])
async def test_a_function_that_goes_on_in_its_thread_is_ignored(kind: str) -> None:
    stage = Stage(kind, lambda stage: "partial")
    refused: list[str] = []

    def go_on(is_cancelled: Callable[[], bool]) -> str:
        in_loop(stage.running.set)
        stage.release.wait(10)
        if stage.call is not None:
            stage.call.progress("late")
            stage.call.raw_output = "late"
        try:
            in_loop(stage.turn.say, "late")
        except RequestCancelled:
            refused.append(kind)
        stage.left.set()
        return "late"

    stage.wait_in_thread = go_on
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        stage.release.set()
        stage.left.wait(5)
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN
    assert stage.outcome == ("cancelled", "partial")
    assert refused == [kind]


@pytest.mark.parametrize("ends", ["returns", "raises"])
async def test_a_function_that_catches_its_cancel_is_ignored(ends: str) -> None:
    stage = Stage("async", lambda stage: "partial")
    body = stage.body

    async def caught(call: ToolContext) -> str:
        try:
            return await body(call)
        except anyio.get_cancelled_exc_class():
            if ends == "raises":
                raise ValueError("late") from None
            return "late"

    other = Stage("async")
    other.agent = Agent("catching")
    other.agent.tool(name="search")(caught)
    other.agent.prompt(lambda_prompt(stage))
    async with editing(other.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await stage.running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        assert await editor.answer(prompt) == END_TURN
        assert "late" not in str(editor.client.received)
    assert stage.outcome == ("cancelled", "partial")
