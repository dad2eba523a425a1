"""A call that is cancelled while it is found out whether it may run: it does not run, whatever authors' code does with
the cancel, and nobody is asked any more."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from acp_server import Agent, Session, ToolContext, Turn, grace
from tests.session.editor import CANCELLED, END_TURN, Editor, editing
from tests.tools.calls import shown

PERMISSION = "session/request_permission"

pytestmark = pytest.mark.anyio


class Asking:
    """An agent with a tool that needs approval, and a step before it runs that does not give in to a cancel."""

    def __init__(self, step: str, *, known: bool | None = None, asks: bool = False) -> None:
        self.step = step
        self.known = known
        self.reached = anyio.Event()
        self.go_on = anyio.Event()
        self.done: list[str] = []
        self.status: list[str] = []
        agent = self.agent = Agent("a", approvals=self)

        @agent.tool(approval=self.question if asks else True, auto_approve=True)
        async def touch(call: ToolContext) -> None:
            self.done.append("ran")

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            with grace():
                self.status.append((await turn.run_tool("touch", id="c1")).status)

    async def at(self, step: str) -> None:
        if step != self.step:
            return
        self.reached.set()
        with anyio.CancelScope(shield=True):
            await self.go_on.wait()

    async def question(self) -> str:
        await self.at("question")
        if self.step == "swallows":
            self.reached.set()
            with suppress(BaseException):
                await anyio.sleep_forever()
        return "May it?"

    async def get(self, session: Session, tool: str) -> bool | None:
        self.done.append("looked up")
        await self.at("get")
        return self.known

    async def put(self, session: Session, tool: str, allowed: bool) -> None:
        self.done.append("remembered")
        await self.at("put")


async def of_the_session(editor: Editor, session: str) -> None:
    await editor.cancel(session)


async def of_the_call(editor: Editor, session: str) -> None:
    await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "c1"})


CANCELS = pytest.mark.parametrize("cancel", [of_the_session, of_the_call])


async def cut(asking: Asking, cancel: Callable[[Editor, str], Any], *, allow: bool = False, auto: bool = False) -> None:
    """Cancel it at its step, and let that return."""
    async with editing(asking.agent) as editor:
        if allow:
            editor.client.answer(PERMISSION, {"outcome": {"outcome": "selected", "optionId": "allow_always"}})
        session = await editor.open()
        if auto:
            setting = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": True}
            await editor.client.result("session/set_config_option", setting)
        id = await editor.prompt(session)
        with anyio.fail_after(5):
            await asking.reached.wait()
        await cancel(editor, session)
        await editor.client.expect(lambda m: m.get("params", {}).get("update", {}).get("status") == "failed")
        asking.go_on.set()
        assert await editor.answer(id) == (CANCELLED if cancel is of_the_session else END_TURN)
        assert len(editor.asked(PERMISSION)) == allow
        # The question is shown before it is asked.
        assert [u["status"] for u in shown(editor)] == ["pending", *["pending"] * allow, "failed"]
        assert shown(editor)[-1]["_meta"] == {"outcome": "cancelled"}
    assert asking.status == ["cancelled"]


@CANCELS
@pytest.mark.parametrize("known", [True, None])
async def test_a_call_that_is_cancelled_while_its_decision_is_looked_up_does_not_run(cancel: Any, known: Any) -> None:
    asking = Asking("get", known=known)
    await cut(asking, cancel)
    assert asking.done == ["looked up"]


@CANCELS
async def test_a_call_that_is_cancelled_while_its_decision_is_kept_does_not_run(cancel: Any) -> None:
    asking = Asking("put")
    await cut(asking, cancel, allow=True)
    assert asking.done == ["looked up", "remembered"]


@CANCELS
@pytest.mark.parametrize("step", ["question", "swallows"])
async def test_a_call_that_is_cancelled_while_its_question_is_made_is_not_even_asked_for(
    cancel: Any, step: str
) -> None:
    asking = Asking(step, asks=True)
    await cut(asking, cancel, auto=True)
    assert asking.done == []
