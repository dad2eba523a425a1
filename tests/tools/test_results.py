"""What came of the tools of a turn outlives the cancel of the turn: in its `finally`, in its record, in the next
turn."""

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server import Agent, Call, Cause, SqliteStore, ToolContext, ToolResult, Turn
from acp_server.errors import REQUEST_CANCELLED
from acp_server.session.turn import live_of
from acp_server.store.encoding import decode_session, encode_session
from tests.session.editor import CANCELLED, END_TURN, Editor, editing

pytestmark = pytest.mark.anyio

WORDS = "Cancelled by the user.\nPartial results: a"


class Searching:
    """An agent whose turns run a search that is cancelled, one that is through, and one that does not begin."""

    def __init__(self, **options: Any) -> None:
        self.agent = Agent("searching", **options)
        self.running = anyio.Event()
        self.seen: list[ToolResult] = []
        self.turns: list[Turn] = []
        self.context: list[str] = []
        self.agent.tool(name="search")(self.search)
        self.agent.tool(name="quick")(self.quick)
        self.agent.prompt(self.prompt)

    async def search(self, call: ToolContext) -> str:
        call.on_cancel = lambda: WORDS
        self.running.set()
        await anyio.sleep_forever()
        return "ignored"

    async def quick(self) -> dict[str, int]:
        return {"found": 1}

    async def prompt(self, turn: Turn) -> None:
        self.turns.append(turn)
        if turn.text == "context":
            self.context = [message.text for message in turn.context(cancelled=True)]
            assert [message.text for message in turn.context()] == ["context"]
            return
        await turn.say("Searching. ")
        try:
            await turn.run_tool("quick", id="q")
            await turn.run_tool("nothing of that name", id="n")
            await turn.run_tool("search", id="s")
        finally:
            try:
                await turn.run_tool("quick", id="late")
            finally:
                self.seen = list(turn.tool_results)


async def cancelled(stage: Searching, editor: Editor, by: str) -> str:
    """The session in which a turn was cancelled while its search ran."""
    session = await editor.open()
    id = await editor.prompt(session)
    with anyio.fail_after(5):
        await stage.running.wait()
    await (editor.cancel(session) if by == "session" else editor.withdraw(id))
    assert await editor.answer(id) == CANCELLED
    return session


def told(results: Any) -> list[tuple[str, str, str, str | None]]:
    return [(result.id, result.name, result.status, result.message) for result in results]


@pytest.mark.parametrize("by", ["session", "request"])
async def test_what_came_of_the_tools_of_a_cancelled_turn_can_be_read_in_its_finally(by: str) -> None:
    stage = Searching()
    async with editing(stage.agent) as editor:
        await cancelled(stage, editor, by)
    (missing,) = (result.message for result in stage.seen if result.id == "n")
    assert told(stage.seen) == [
        ("q", "quick", "completed", '{"found":1}'),
        ("n", "nothing of that name", "failed", missing),
        ("s", "search", "cancelled", WORDS),
        ("late", "quick", "cancelled", None),
    ]
    assert stage.seen[0].value == {"found": 1}


async def test_the_results_are_kept_with_the_turn_and_are_no_updates(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        stage = Searching(store=store)
        async with editing(stage.agent) as editor:
            session = await cancelled(stage, editor, "session")
            before = len(editor.client.updates())
            await editor.client.result("session/load", {"sessionId": session, "cwd": "/p", "mcpServers": []})
            # What the client is shown again has the last words.
            replayed = editor.client.updates()[before:]
            (search,) = (update for update in replayed if update.get("toolCallId") == "s")
            assert (search["status"], search["content"][-1]["content"]["text"]) == ("failed", WORDS)
            kinds = {update["sessionUpdate"] for update in editor.client.updates()}
            assert not [kind for kind in kinds if kind.startswith("_")]
        record = await store.load(session)
    assert record is not None
    assert told(record.turns[0].tool_results) == told(stage.seen)
    assert told(decode_session(encode_session(record)).turns[0].tool_results) == told(stage.seen)
    assert not [event for event in record.turns[0].events if "toolCallId" not in event and "content" not in event]


async def test_a_cancelled_turn_is_context_with_its_partial_results_only_if_its_author_says_so() -> None:
    stage = Searching()
    async with editing(stage.agent) as editor:
        session = await cancelled(stage, editor, "session")
        assert await editor.ask(session, "context") == END_TURN
    assert stage.context == ["go", f"Searching. \nsearch: {WORDS}", "context"]


async def test_no_result_is_added_to_a_turn_that_has_ended() -> None:
    stage = Searching()
    async with editing(stage.agent) as editor:
        await cancelled(stage, editor, "session")
    turn = stage.turns[0]
    live_of(turn).tool_ended(ToolResult("x", "search", "completed", None))
    assert told(turn.tool_results) == told(stage.seen)


# -- a time limit of the author's


class Limited:
    """An agent whose turn gives its tool a time limit, which runs out while the tool runs."""

    def __init__(self, kind: str, tool: str, *, lets_out: bool = False) -> None:
        self.agent = Agent("limited")
        self.tool = tool
        self.lets_out = lets_out
        self.limit = anyio.fail_after if kind == "fail_after" else anyio.move_on_after
        self.raised: list[BaseException] = []
        self.seen: list[ToolResult] = []
        self.turns: list[Turn] = []
        self.scope = anyio.CancelScope()
        self.agent.tool(name="search")(self.search)
        self.agent.tool(name="thread")(self.thread)
        self.agent.prompt(self.prompt)

    async def search(self, call: ToolContext) -> str:
        call.on_cancel = lambda: f"{WORDS} {call.is_cancelled}"
        self.run_out()
        await anyio.sleep_forever()
        return "ignored"

    def thread(self, call: ToolContext) -> str:
        call.on_cancel = lambda: f"{WORDS} {call.is_cancelled}"
        call.run(self.run_out)
        while not call.is_cancelled:
            threading.Event().wait(0.001)
        return "ignored"

    def run_out(self) -> None:
        self.scope.deadline = anyio.current_time()

    async def prompt(self, turn: Turn) -> str:
        self.turns.append(turn)
        try:
            with self.limit(3600) as self.scope:
                await turn.run_tool(self.tool, id="s")
        except TimeoutError as error:
            self.raised.append(error)
            if self.lets_out:
                raise
        finally:
            self.seen = list(turn.tool_results)
        return "It took too long."


@pytest.mark.parametrize("tool", ["search", "thread"])
@pytest.mark.parametrize("kind", ["move_on_after", "fail_after"])
async def test_a_time_limit_around_a_tool_keeps_what_came_of_it(kind: str, tool: str) -> None:
    stage = Limited(kind, tool)
    async with editing(stage.agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ["It took too long."]
        ends = [update for update in editor.client.updates() if update.get("status") == "failed"]
    assert len(stage.raised) == (kind == "fail_after")
    assert told(stage.seen) == [("s", tool, "cancelled", f"{WORDS} True")]
    assert told(stage.turns[0].record.tool_results) == told(stage.seen)
    assert [end["_meta"] for end in ends] == [{"outcome": "cancelled"}]


async def test_a_time_limit_around_a_tool_that_ends_the_prompt_keeps_what_came_of_it() -> None:
    stage = Limited("fail_after", "search", lets_out=True)
    async with editing(stage.agent) as editor:
        assert (await editor.ask(await editor.open()))["code"] == REQUEST_CANCELLED
    assert told(stage.turns[0].record.tool_results) == [("s", "search", "cancelled", f"{WORDS} True")]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_time_limit_around_a_tool_keeps_what_came_of_it() -> None:
    import asyncio

    agent = Agent("limited")
    limit = asyncio.timeout(3600)
    seen: list[ToolResult] = []

    @agent.tool(name="search")
    async def search(call: ToolContext) -> None:
        call.on_cancel = lambda: WORDS
        limit.reschedule(0)
        await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with pytest.raises(TimeoutError):
            async with limit:
                await turn.run_tool("search", id="s")
        seen.extend(turn.tool_results)

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert told(seen) == [("s", "search", "cancelled", WORDS)]


# -- cancelling from outside


@pytest.mark.parametrize(("cause", "answer"), [(None, None), (Cause.USER, {"done": 1}), (Cause.TIMEOUT, None)])
async def test_a_request_is_cancelled_from_a_thread_of_its_authors(cause: Cause | None, answer: Any) -> None:
    agent = Agent("watched")
    calls: list[Call] = []
    threads: list[threading.Thread] = []
    said: list[bool] = []

    @agent.method("_long")
    async def long(call: Call) -> None:
        calls.append(call)
        call.partial({"done": 1})
        thread = threading.Thread(target=lambda: said.append(call.cancel(*(() if cause is None else (cause,)))))
        threads.append(thread)
        thread.start()
        await anyio.sleep_forever()

    async with editing(agent) as editor:
        response = await editor.client.ask("_long")
        assert response["result"] == answer if answer else response["error"]["code"] == REQUEST_CANCELLED
        assert calls[0].cause is (cause or Cause.TIMEOUT)
        threads[0].join(5)
        assert said == [True]
        assert not calls[0].cancel()


async def test_a_request_that_is_being_cancelled_keeps_its_cause() -> None:
    agent = Agent("watched")
    said: list[Any] = []

    @agent.method("_long")
    async def long(call: Call) -> None:
        said.append(call.cancel(Cause.USER))
        said.append(call.cancel(Cause.TIMEOUT))
        said.append(call.cause)

    async with editing(agent) as editor:
        await editor.client.ask("_long")
    assert said == [True, False, Cause.USER]


async def test_a_tool_call_is_cancelled_from_a_thread_and_its_turn_goes_on() -> None:
    agent = Agent("watched")
    results: list[ToolResult] = []

    @agent.tool(name="search")
    async def tool(call: ToolContext) -> None:
        call.on_cancel = lambda: f"{call.cause}"
        thread = threading.Thread(target=call.cancel)
        thread.start()
        try:
            await anyio.sleep_forever()
        finally:
            thread.join(5)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        results.append(await turn.run_tool("search", id="s"))

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert told(results) == [("s", "search", "cancelled", "Cause.TIMEOUT")]
