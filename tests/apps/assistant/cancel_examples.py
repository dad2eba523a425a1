"""The documented examples of tools that a user may cancel, carried over: what they process, and what comes of them."""

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_server.tasks.threads import in_loop
from tests.apps.assistant.assistants import Case
from tests.session.editor import Editor

ITEMS = ["one", "two", "three", "four"]


class Work:
    """What the examples call `process` and `doSomethingSlow`: it stops at the third item until it is let go on."""

    def __init__(self) -> None:
        self.processed: list[str] = []
        self.reached = anyio.Event()
        self.go_on = anyio.Event()
        self.thread_goes_on = threading.Event()
        self.ended = threading.Event()
        """The function is through, or was cancelled."""

    def release(self) -> None:
        self.go_on.set()
        self.thread_goes_on.set()

    async def process(self, item: str) -> str:
        if item == "three":
            self.reached.set()
            await self.go_on.wait()
        self.processed.append(item)
        return f"result {item}"

    def process_plainly(self, item: str) -> str:
        if item == "three":
            in_loop(self.reached.set)
            self.thread_goes_on.wait(10)
        self.processed.append(item)
        return f"result {item}"


def minimal(case: Case, work: Work) -> Callable[..., Any]:
    async def execute_tool() -> Any:
        await work.process("three")

        return {"success": True, "message": "Operation completed."}

    return execute_tool


def minimal_plainly(case: Case, work: Work) -> Callable[..., Any]:
    def execute_tool() -> Any:
        work.process_plainly("three")

        work.ended.set()
        return {"success": True, "message": "Operation completed."}

    return execute_tool


def with_partial_results(case: Case, work: Work) -> Callable[..., Any]:
    tool = case.tool

    async def execute_tool() -> Any:
        partial_results: list[str] = []

        tool.on_cancel = lambda: "\n".join(
            ["Operation was cancelled by the user.", "Partial results:", *partial_results]
        )

        for item in ITEMS:
            if tool.is_cancelled:
                break
            result = await work.process(item)
            partial_results.append(result)

        return {"success": True, "message": "\n".join(partial_results)}

    return execute_tool


def with_partial_results_plainly(case: Case, work: Work) -> Callable[..., Any]:
    tool = case.tool

    def execute_tool() -> Any:
        partial_results: list[str] = []

        tool.on_cancel = lambda: "\n".join(
            ["Operation was cancelled by the user.", "Partial results:", *partial_results]
        )

        for item in ITEMS:
            if tool.is_cancelled:
                break
            result = work.process_plainly(item)
            partial_results.append(result)

        work.ended.set()
        return {"success": True, "message": "\n".join(partial_results)}

    return execute_tool


def recommended(case: Case, work: Work) -> Callable[..., Any]:
    tool = case.tool

    async def execute_tool() -> Any:
        partial: list[str] = []

        tool.on_cancel = lambda: f"Partial: {partial}"

        for item in ITEMS:
            if tool.is_cancelled:
                break
            r = await work.process(item)
            partial.append(r)

        if tool.is_cancelled:
            return None

        return {"success": True, "message": f"Final: {partial}"}

    return execute_tool


def recommended_plainly(case: Case, work: Work) -> Callable[..., Any]:
    tool = case.tool

    def execute_tool() -> Any:
        partial: list[str] = []

        tool.on_cancel = lambda: f"Partial: {partial}"

        for item in ITEMS:
            if tool.is_cancelled:
                break
            r = work.process_plainly(item)
            partial.append(r)

        work.ended.set()
        if tool.is_cancelled:
            return None

        return {"success": True, "message": f"Final: {partial}"}

    return execute_tool


def recommended_in_short(case: Case, work: Work) -> Callable[..., Any]:
    tool = case.tool

    async def execute_tool() -> Any:
        partial: list[str] = []

        tool.on_cancel = lambda: f"Partial: {partial}"

        for item in ITEMS:
            if tool.is_cancelled:
                break
            r = await work.process(item)
            partial.append(r)

        return {"success": True, "message": f"Final: {partial}"}

    return execute_tool


CANCELLED_WORDS = "Operation was cancelled by the user.\nPartial results:\nresult one\nresult two"
ALL = "result one\nresult two\nresult three\nresult four"
FINAL = "Final: ['result one', 'result two', 'result three', 'result four']"
PARTIAL = "Partial: ['result one', 'result two']"
EXAMPLES = [
    (minimal, "Operation completed.", None),
    (minimal_plainly, "Operation completed.", None),
    (with_partial_results, ALL, CANCELLED_WORDS),
    (with_partial_results_plainly, ALL, CANCELLED_WORDS),
    (recommended, FINAL, PARTIAL),
    (recommended_plainly, FINAL, PARTIAL),
    (recommended_in_short, FINAL, PARTIAL),
]
"""The example, its message when nobody cancels it, and the one when it is cancelled."""


@asynccontextmanager
async def reached(case: Case, work: Work) -> AsyncGenerator[tuple[Editor, str, Any]]:
    """The tool runs, and has reached the third item."""
    try:
        async with case.running() as (editor, session, prompt):
            with anyio.fail_after(5):
                await work.reached.wait()
            yield editor, session, prompt
    finally:
        work.release()


async def cancel(editor: Editor, session: str, id: str = "c1") -> None:
    await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": id})
