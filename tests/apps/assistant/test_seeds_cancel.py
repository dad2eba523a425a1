"""What an `AssistantTool` promises about being cancelled: the documented examples and each of the rules."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from tests.apps.assistant.assistants import ASK, LOCATION, PLAIN, Case, statuses
from tests.apps.assistant.cancel_examples import (
    CANCELLED_WORDS,
    EXAMPLES,
    Work,
    cancel,
    minimal,
    reached,
    with_partial_results,
)
from tests.session.editor import CANCELLED, END_TURN

ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("example", "whole", "partial"), EXAMPLES)
async def test_an_example_that_nobody_cancels_returns_all_of_it(
    example: Callable[..., Any], whole: str, partial: str | None
) -> None:
    case, work = Case(PLAIN), Work()
    case.tool.register_execute_tool(example(case, work))
    work.release()
    assert await case.run() == ("completed", whole)


@pytest.mark.parametrize(("example", "whole", "partial"), EXAMPLES)
async def test_an_example_that_the_user_cancels_returns_what_on_cancel_says(
    example: Callable[..., Any], whole: str, partial: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    case, work = Case(PLAIN), Work()
    case.tool.register_execute_tool(example(case, work))
    async with reached(case, work) as (editor, session, prompt):
        await cancel(editor, session)
        assert await editor.answer(prompt) == END_TURN
        # The client was told before the function had got any further.
        assert statuses(editor) == ["pending", "in_progress", "failed"]
        assert "three" not in work.processed
        last = editor.client.updates()[-1]
        assert last["_meta"] == {"outcome": "cancelled"}
        texts = [piece["content"]["text"] for piece in last.get("content", ())]
        assert texts == ([] if partial is None else [partial])
        work.release()
        if "plainly" in example.__name__:
            work.ended.wait(5)
        await editor.settled()
        assert editor.client.updates()[-1] is last
    assert case.outcome == ("cancelled", partial)
    # A thread finishes the item that it is in the middle of, and goes no further.
    done = [] if "minimal" in example.__name__ else ["one", "two"]
    assert work.processed == ([*done, "three"] if "plainly" in example.__name__ else done)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize(("example", "whole", "partial"), EXAMPLES)
async def test_an_example_whose_turn_is_cancelled_leaves_its_partial_results_with_the_user(
    example: Callable[..., Any], whole: str, partial: str | None
) -> None:
    case, work = Case(PLAIN), Work()
    case.tool.register_execute_tool(example(case, work))
    async with reached(case, work) as (editor, session, prompt):
        await editor.cancel(session)
        assert await editor.answer(prompt) == CANCELLED
        last = editor.client.updates()[-1]
        texts = [piece["content"]["text"] for piece in last.get("content", ())]
        assert texts == ([] if partial is None else [partial])
        assert statuses(editor)[-1] == "failed"


async def test_what_the_function_returns_after_the_cancel_reaches_nobody() -> None:
    case, work = Case(PLAIN), Work()

    def execute_tool() -> Any:
        work.process_plainly("three")
        work.ended.set()
        return {"success": True, "message": "late"}

    case.tool.register_execute_tool(execute_tool)
    async with reached(case, work) as (editor, session, prompt):
        await cancel(editor, session)
        work.release()
        work.ended.wait(5)
        assert await editor.answer(prompt) == END_TURN
        await editor.settled()
        assert "late" not in str(editor.client.received)
    assert case.outcome == ("cancelled", None)


@pytest.mark.parametrize("way", ["tool", "turn"])
@pytest.mark.parametrize("plain", [False, True])
async def test_is_cancelled_is_true_from_the_moment_of_the_cancel_on(plain: bool, way: str) -> None:
    case, work = Case(PLAIN), Work()
    seen: list[tuple[str, bool]] = []

    def note(when: str) -> None:
        seen.append((when, case.tool.is_cancelled))

    async def execute_tool() -> Any:
        note("before")
        case.tool.on_cancel = lambda: note("in on_cancel")
        try:
            await work.process("three")
        finally:
            note("after")
            work.ended.set()

    def execute_plainly() -> Any:
        note("before")
        case.tool.on_cancel = lambda: note("in on_cancel")
        work.process_plainly("three")
        note("after")
        work.ended.set()

    case.tool.register_execute_tool(execute_plainly if plain else execute_tool)
    async with reached(case, work) as (editor, session, prompt):
        await (cancel(editor, session) if way == "tool" else editor.cancel(session))
        await editor.settled()
        # A plain `on_cancel` runs in a thread of its own.
        with anyio.fail_after(5):
            while len(seen) < 2:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.001)
        work.release()
        work.ended.wait(5)
        await editor.answer(prompt)
    assert seen == [("before", False), ("in on_cancel", True), ("after", True)]
    assert not case.tool.is_cancelled


async def test_is_cancelled_can_only_be_read() -> None:
    with pytest.raises(AttributeError):
        Case(PLAIN).tool.is_cancelled = True  # pyright: ignore[reportAttributeAccessIssue]


async def test_on_cancel_is_none_again_for_each_execution() -> None:
    case, work = Case(PLAIN), Work()
    found: list[Any] = []

    async def execute_tool() -> Any:
        found.append(case.tool.on_cancel)
        if len(found) == 1:
            case.tool.on_cancel = lambda: "of the first"
            return {"success": True, "message": "done"}
        return await work.process("three")

    case.tool.register_execute_tool(execute_tool)
    async with case.running() as (editor, session, prompt):
        await editor.answer(prompt)
        assert case.tool.on_cancel is None
        prompt = await editor.prompt(session)
        begun = await editor.client.expect(
            lambda m: m.get("params", {}).get("update", {}).get("toolCallId", "c1") != "c1"
        )
        await work.reached.wait()
        await cancel(editor, session, begun["params"]["update"]["toolCallId"])
        await editor.answer(prompt)
    assert found == [None, None]
    assert [(r.status, r.message) for r in case.results] == [("completed", "done"), ("cancelled", None)]


async def test_one_that_is_registered_outside_of_the_function_is_not_called(caplog: pytest.LogCaptureFixture) -> None:
    case, work = Case(PLAIN), Work()
    case.tool.on_cancel = lambda: "from outside"
    case.tool.register_execute_tool(minimal(case, work))
    async with reached(case, work) as (editor, session, prompt):
        case.tool.on_cancel = lambda: "from beside"
        await cancel(editor, session)
        await editor.answer(prompt)
    assert case.outcome == ("cancelled", None)
    warning = "on_cancel of search was set while the tool was not running, so the function is not called"
    assert caplog.text.count(warning) == 2


@pytest.mark.parametrize("value", [None, "Cancelled by the user."])
async def test_text_is_the_message_and_none_is_no_message(value: str | None, caplog: pytest.LogCaptureFixture) -> None:
    case, work = Case(PLAIN), Work()

    async def execute_tool() -> Any:
        case.tool.on_cancel = lambda: value
        await work.process("three")

    case.tool.register_execute_tool(execute_tool)
    async with reached(case, work) as (editor, session, prompt):
        await cancel(editor, session)
        await editor.answer(prompt)
    assert case.outcome == ("cancelled", value)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("automatic", [False, True], ids=["approved by hand", "approved automatically"])
async def test_an_approved_execution_is_cancelled_like_any_other(automatic: bool) -> None:
    case, work = Case(LOCATION), Work()
    case.tool.register_execute_tool_with_approval(with_partial_results(case, work))
    async with case.running_after_setting(automatic) as (editor, session, prompt):
        if not automatic:
            await editor.client.respond(await editor.client.expect_request(ASK), ALLOW)
        with anyio.fail_after(5):
            await work.reached.wait()
        await cancel(editor, session)
        assert await editor.answer(prompt) == END_TURN
        assert editor.asked() == ([] if automatic else [ASK])
        work.release()
    assert case.outcome == ("cancelled", CANCELLED_WORDS)


async def test_a_cancel_while_the_user_is_asked_runs_nothing_and_asks_no_on_cancel(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = Case(LOCATION)
    ran: list[str] = []

    def request() -> Any:
        case.tool.on_cancel = lambda: "from the request"
        return {"message": "May I?"}

    case.tool.register_approval_request(request)
    case.tool.register_execute_tool_with_approval(lambda: ran.append("executed"))
    async with case.running() as (editor, session, prompt):
        asked = await editor.client.expect_request(ASK)
        await cancel(editor, session)
        assert await editor.answer(prompt) == END_TURN
        assert editor.withdrawn() == [asked["id"]]
        # A yes that comes too late.
        await editor.client.respond(asked, ALLOW)
        await editor.settled()
        assert statuses(editor) == ["pending", "failed"]
    assert case.outcome == ("cancelled", None)
    assert not ran
    assert "was set while the tool was not running" in caplog.text


async def test_declining_is_told_by_secondary_confirmed_and_never_by_on_cancel() -> None:
    case = Case(LOCATION)
    said: list[str] = []

    async def execute(params: dict[str, Any], action: Any) -> Any:
        case.tool.on_cancel = lambda: said.append("on_cancel")
        said.append(f"secondary {action.secondary_confirmed}")
        return {"success": False, "message": "Declined."}

    case.tool.register_execute_tool_with_approval(execute)
    assert await case.run(answer="reject_once") == ("rejected", "Declined.")
    assert said == ["secondary True"]
