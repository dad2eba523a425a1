"""One tool call, or one question, is cancelled while the rest of its session goes on."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from acp_server import Agent, Cause, ToolContext, ToolFailed, Turn, grace
from acp_server.errors import INVALID_PARAMS, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from acp_server.peer import reader
from acp_server.schema import Content, PermissionOption, TextContent, ToolCall, ToolCallProgress, ToolCallUpdate
from acp_server.schema.elicitation import ElicitationSchema
from tests.session.v2.editor import Editor, editing

pytestmark = pytest.mark.anyio

OPTIONS = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
OFFERED = {"cancel": {}}
PERMISSION = "session/request_permission"


class Bench:
    """An agent that runs the tools that it is told to, in parallel."""

    def __init__(self) -> None:
        self.agent = Agent("bench")
        self.turns: list[Turn] = []
        self.results: dict[str, str] = {}
        self.go_on = anyio.Event()
        """Lets what waits go on."""
        self.agent.tool(self.search)
        self.agent.tool(approval=True)(self.write)
        self.agent.tool(self.outstay)
        self.agent.tool(self.ask)
        self.agent.tool(self.fail)
        self.agent.prompt(self.prompt)

    async def prompt(self, turn: Turn) -> None:
        self.turns.append(turn)
        async with anyio.create_task_group() as group:
            for name in turn.text.split():
                group.start_soon(self.run, turn, name)

    async def run(self, turn: Turn, name: str) -> None:
        if name == "show":
            await turn.update(ToolCall(tool_call_id="show", title="By hand", status="in_progress"))
            await self.go_on.wait()
            await turn.update(ToolCallProgress(tool_call_id="show", status="completed"))
        elif name == "question":
            await turn.client.request_permission(ToolCallUpdate(tool_call_id="question", title="May I?"), OPTIONS)
        elif name == "timeout":
            turn.session.cancel(Cause.TIMEOUT)
            await anyio.sleep_forever()
        else:
            self.results[name] = (await turn.run_tool(name, id=name)).status

    async def search(self, call: ToolContext) -> AsyncIterator[str]:
        call.on_cancel = lambda: "stopped half way"
        yield "one\n"
        await self.go_on.wait()
        yield "two\n"

    async def write(self) -> str:
        await self.go_on.wait()
        return "written"

    async def outstay(self) -> str:
        with grace(5):
            await self.go_on.wait()
        return "done all the same"

    async def ask(self, call: ToolContext) -> str:
        answer = await call.client.elicit_form("Which?", ElicitationSchema(properties={}), tool_call_id=call.id)
        return answer.action

    async def fail(self) -> str:
        raise ToolFailed("no such thing")


async def at(editor: Editor, text: str, *calls: str, status: str = "in_progress") -> str:
    """A session in which these calls are as far as that."""
    session = await editor.open()
    await editor.answer(await editor.prompt(session, text))
    for call in calls:
        await editor.until(session, "tool_call_update", toolCallId=call, status=status)
    return session


def stopping(session: str, call: str) -> dict[str, str]:
    return {"sessionId": session, "toolCallId": call}


async def code_of(editor: Editor, session: str, call: str) -> int:
    """The code of the error that `tool_call/cancel` is answered with."""
    return (await editor.refusal("tool_call/cancel", stopping(session, call)))["code"]


def final(editor: Editor, session: str, call: str) -> dict[str, Any]:
    (found,) = [one for one in editor.calls(session) if one["toolCallId"] == call]
    return found


# -- which call can be cancelled, and when


@pytest.mark.behaviour("M6")
async def test_a_call_offers_to_be_cancelled_from_its_first_update_to_its_last() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "search", "search")
        bench.go_on.set()
        await editor.idle(session)
        updates = [one for one in editor.client.updates(session) if one.get("toolCallId") == "search"]
        assert updates[0]["status"] == "pending"
        assert updates[0]["capabilities"] == OFFERED
        assert updates[-1]["status"] == "completed"
        assert updates[-1]["capabilities"] is None
        assert not [one for one in updates[1:-1] if "capabilities" in one]


@pytest.mark.behaviour("M6")
async def test_a_call_that_there_never_was_cannot_be_cancelled() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "search", "search")
        assert await code_of(editor, session, "unknown") == INVALID_PARAMS
        bench.go_on.set()
        assert await editor.idle(session) == {"stopReason": "end_turn"}


@pytest.mark.behaviour("M6")
@pytest.mark.parametrize("name", ["search", "fail"])
async def test_a_call_that_has_ended_cannot_be_cancelled(name: str) -> None:
    bench = Bench()
    bench.go_on.set()
    async with editing(bench.agent) as editor:
        session = await editor.open()
        await editor.ask(session, name)
        before = editor.client.updates(session)
        assert await code_of(editor, session, name) == INVALID_PARAMS
        assert editor.client.updates(session) == before


@pytest.mark.behaviour("M6")
async def test_a_call_of_another_session_cannot_be_cancelled() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "search", "search")
        other = await editor.open()
        assert await code_of(editor, other, "search") == INVALID_PARAMS
        refused = await editor.refusal("tool_call/cancel", stopping("unknown", "search"))
        assert (refused["code"], refused["data"]) == (RESOURCE_NOT_FOUND, {"sessionId": "unknown"})
        bench.go_on.set()
        await editor.idle(session)
        assert bench.results == {"search": "completed"}


@pytest.mark.behaviour("M6")
async def test_a_call_that_does_not_offer_it_cannot_be_cancelled() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "show", "show")
        assert await code_of(editor, session, "show") == INVALID_PARAMS
        bench.go_on.set()
        await editor.idle(session)
        assert final(editor, session, "show")["status"] == "completed"
        assert not [one for one in editor.client.updates(session) if "capabilities" in one]


@pytest.mark.behaviour("M6")
@pytest.mark.parametrize("params", [{}, {"toolCallId": 7}, {"toolCallId": None}, {"sessionId": [], "toolCallId": "x"}])
async def test_what_names_no_call_is_refused(params: Any) -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await editor.open()
        refused = await editor.refusal("tool_call/cancel", {"sessionId": session, **params})
        assert refused["code"] == INVALID_PARAMS


@pytest.mark.behaviour("M6", "M7")
async def test_to_cancel_a_call_again_before_it_has_ended_changes_nothing() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "outstay search", "outstay", "search")
        twice = [editor.client.new_request("tool_call/cancel", stopping(session, "search")) for _ in range(2)]
        await editor.client.send(*twice)
        answers = [await editor.client.response(one["id"]) for one in twice]
        assert answers[0]["result"] == {}
        # By the second one it has ended.
        assert answers[1]["error"]["code"] == INVALID_PARAMS
        bench.go_on.set()
        await editor.idle(session)
        finals = [one for one in editor.client.updates(session) if one.get("toolCallId") == "search"]
        assert [one["status"] for one in finals if one["status"] in ("cancelled", "completed")] == ["cancelled"]


# -- what becomes of it


@pytest.mark.behaviour("M7")
async def test_what_a_cancelled_call_has_found_is_in_its_content_before_its_status_is_final() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "search", "search")
        await editor.until(session, "tool_call_update", toolCallId="search", content=[_text("one\n")])
        assert await editor.client.result("tool_call/cancel", stopping(session, "search")) == {}
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        ended = final(editor, session, "search")
        assert ended["status"] == "cancelled"
        assert ended["content"] == [_text("one\nstopped half way")]
        # Nothing is said of it behind its end.
        last = [one for one in editor.client.updates(session) if one.get("toolCallId") == "search"][-1]
        assert last["status"] == "cancelled"
        assert bench.results == {"search": "cancelled"}


def _text(text: str) -> dict[str, Any]:
    return Content(content=TextContent(text=text)).to_wire()


@pytest.mark.behaviour("M7")
async def test_a_cancelled_call_leaves_the_others_and_the_state_of_the_session_as_they_are() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "search outstay", "search", "outstay")
        await editor.client.result("tool_call/cancel", stopping(session, "search"))
        await editor.until(session, "tool_call_update", toolCallId="search", status="cancelled")
        assert editor.reasons(session) == ["running"]
        bench.go_on.set()
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        assert bench.results == {"search": "cancelled", "outstay": "completed"}
        assert editor.reasons(session) == ["running", "end_turn"]


@pytest.mark.behaviour("M7")
async def test_a_call_that_ends_before_it_heeds_the_cancel_is_cancelled_all_the_same() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "outstay", "outstay")
        await editor.client.result("tool_call/cancel", stopping(session, "outstay"))
        await editor.until(session, "tool_call_update", toolCallId="outstay", status="cancelled")
        bench.go_on.set()
        await editor.idle(session)
        assert final(editor, session, "outstay")["status"] == "cancelled"


@pytest.mark.behaviour("M6", "M7", "M8")
async def test_a_call_that_waits_for_approval_can_be_cancelled_and_a_late_yes_runs_nothing() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "write", "write", status="pending")
        question = await editor.client.expect_request(PERMISSION)
        await editor.client.result("tool_call/cancel", stopping(session, "write"))
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        assert editor.withdrawn() == [question["id"]]
        await editor.client.respond(question, ALLOW)
        await editor.settled()
        assert final(editor, session, "write")["status"] == "cancelled"
        assert bench.results == {"write": "cancelled"}
        assert editor.reasons(session) == ["running", "requires_action", "running", "end_turn"]


@pytest.mark.behaviour("M2", "M7")
async def test_the_calls_of_a_session_that_is_cancelled_end_before_its_idle() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "search outstay", "search", "outstay")
        await editor.cancel(session)
        for call in ("search", "outstay"):
            await editor.until(session, "tool_call_update", toolCallId=call, status="cancelled")
        bench.go_on.set()
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        assert [one["status"] for one in editor.calls(session)] == ["cancelled", "cancelled"]
        assert editor.client.updates(session)[-1]["sessionUpdate"] == "state_update"
        assert await code_of(editor, session, "search") == INVALID_PARAMS


@pytest.mark.behaviour("M5")
async def test_a_time_limit_of_the_agents_own_is_an_error() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "search timeout"))
        ended = await editor.idle(session)
        assert ended["stopReason"] == "error"
        assert ended["error"]["code"] == REQUEST_CANCELLED


# -- questions


@pytest.mark.behaviour("M8")
async def test_the_user_is_needed_only_while_nothing_goes_on_without_an_answer() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "write search", "search")
        question = await editor.client.expect_request(PERMISSION)
        await editor.settled()
        assert editor.reasons(session)[-1] == "running"
        await editor.client.result("tool_call/cancel", stopping(session, "search"))
        await editor.until(session, "state_update", state="requires_action")
        await editor.client.respond(question, ALLOW)
        await editor.until(session, "tool_call_update", toolCallId="write", status="in_progress")
        assert editor.reasons(session)[-1] == "running"
        bench.go_on.set()
        await editor.idle(session)
        assert editor.reasons(session)[-3:] == ["requires_action", "running", "end_turn"]


@pytest.mark.behaviour("M8")
async def test_the_user_is_needed_until_the_last_question_is_answered() -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "question question")
        questions = [await editor.client.expect_request(PERMISSION) for _ in range(2)]
        await editor.client.respond(questions[0], YES)
        await editor.settled()
        assert editor.reasons(session) == ["running", "requires_action"]
        await editor.client.respond(questions[1], YES)
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        assert editor.reasons(session) == ["running", "requires_action", "running", "end_turn"]


@pytest.mark.behaviour("M2", "M8")
@pytest.mark.parametrize("first", ["cancel", "answer"])
async def test_an_answer_in_the_same_chunk_as_a_cancel_resumes_nothing(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of the chunk is read at once, also if the machine is busy with something else in the middle of it.
    monkeypatch.setattr(reader, "perf_counter", lambda: 0.0)
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "write", "write", status="pending")
        question = await editor.client.expect_request(PERMISSION)
        yes = {"jsonrpc": "2.0", "id": question["id"], "result": ALLOW}
        both = [editor.cancelling(session), yes]
        await editor.client.send(*(both if first == "cancel" else both[::-1]))
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        # The answer is here: there is nothing to be withdrawn.
        assert editor.withdrawn() == []
        statuses = [one["status"] for one in editor.client.updates(session) if one.get("toolCallId") == "write"]
        assert statuses == ["pending", "pending", "cancelled"]


@pytest.mark.behaviour("M8")
async def test_a_form_is_withdrawn_with_the_call_that_asks_it() -> None:
    bench = Bench()
    async with editing(bench.agent, capabilities={"elicitation": {"form": {}}}) as editor:
        session = await at(editor, "ask", "ask")
        question = await editor.client.expect_request("elicitation/create")
        assert editor.reasons(session) == ["running", "requires_action"]
        await editor.client.result("tool_call/cancel", stopping(session, "ask"))
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        assert editor.withdrawn() == [question["id"]]
        await editor.client.respond(question, {"action": "decline"})
        await editor.settled()
        assert bench.results == {"ask": "cancelled"}
        assert editor.reasons(session)[-1] == "end_turn"


@pytest.mark.behaviour("M8", "M9")
@pytest.mark.parametrize("end", ["session/close", "session/delete"])
async def test_a_session_that_is_closed_withdraws_its_questions_before_the_answer(end: str) -> None:
    bench = Bench()
    async with editing(bench.agent) as editor:
        session = await at(editor, "question")
        question = await editor.client.expect_request(PERMISSION)
        held = await editor.prompt(session, "held")
        id = await editor.client.request(end, {"sessionId": session})
        assert await editor.answer(id) == {}
        received = editor.client.received
        answered = next(place for place, message in enumerate(received) if message.get("id") == id)
        assert editor.withdrawn() == [question["id"]]
        await editor.client.respond(question, YES)
        await editor.settled()
        assert await editor.code(held) == REQUEST_CANCELLED
        told = [place for place, message in enumerate(received) if "method" in message or message.get("id") == held]
        assert max(told) < answered
        assert editor.reasons(session) == ["running", "requires_action", "cancelled"]
        refused = await editor.refusal(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        )
        assert refused["code"] == RESOURCE_NOT_FOUND
