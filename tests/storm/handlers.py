"""The agent of a storm: its handlers carry out the plans that they are sent, and write down what they do."""

import asyncio
import itertools
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from subprocess import DEVNULL
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import sniffio

from acp_server import (
    AcpError,
    Agent,
    Approval,
    Call,
    Cause,
    Message,
    RpcError,
    Tool,
    ToolContext,
    Turn,
    grace,
)
from acp_server.peer.connection import Connection
from acp_server.schema.elicitation import ElicitationSchema
from acp_server.schema.tool_call import PermissionOption, ToolCallUpdate
from acp_server.session.turn import live_of
from tests.storm.failures import failure, recorded
from tests.storm.plans import Plan
from tests.storm.threads import Gates, Note, play_in_thread, walk

NOT_NOW = -31000
"""The code with which the agent refuses what the user says while a turn runs."""


class Stage:
    """What all handlers of one agent share. `over`: set when whatever hangs is to end."""

    def __init__(self, note: Note, gates: Gates) -> None:
        self.note = note
        self.gates = gates
        self.over = anyio.Event()
        self.loose: set[asyncio.Task[None]] = set()
        """Native tasks that have not ended."""
        self._counts: dict[str, itertools.count[int]] = {}

    def gone(self, task: asyncio.Task[None]) -> None:
        """A native task has ended. What became of it is looked at, also if nobody waits for it any more."""
        self.loose.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.note("a native task raised", more=type(error).__name__)

    def tag(self, key: str) -> str:
        """A name for the next thing that is done in the name of `key`."""
        return f"{key}.{next(self._counts.setdefault(key, itertools.count()))}"


class Player:
    """Carries out the plan of one handler."""

    def __init__(
        self,
        stage: Stage,
        key: str,
        *,
        turn: Turn | None = None,
        call: Call | None = None,
        tool: ToolContext | None = None,
    ) -> None:
        self._stage = stage
        self._key = key
        self._turn = turn
        self._call = call
        self._tool = tool

    async def play(self, plan: Plan) -> None:
        """Step by step."""
        for name, *arguments in plan:
            await getattr(self, f"_do_{name}")(*arguments)

    async def _do_say(self) -> None:
        tag = self._stage.tag(self._key)
        if self._tool is not None:
            self._tool.progress(tag)
        elif self._turn is not None:
            await self._turn.say(tag)
        elif self._call is not None:
            self._call.partial({"part": tag})
            self._stage.note("partial", self._key, tag)

    async def _do_ask(self, kind: str, tolerant: bool) -> None:
        try:
            await self._ask(kind, f"/{self._stage.tag(self._key)}")
        except AcpError:
            if not tolerant:
                raise

    async def _ask(self, kind: str, path: str) -> None:
        if self._turn is None:
            assert self._call is not None
            await self._call.request_peer("_client/ask", {"path": path})
            return
        client = self._turn.client
        match kind if client.capabilities.fs.read_text_file or kind in ("permission", "elicit") else "ask":
            case "read":
                await client.read_text_file(path)
            case "write":
                await client.write_text_file(path, "text")
            case "ask":
                await client.request("_client/ask", {"path": path}, timeout=3.0)
            case "permission":
                options = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]
                await client.request_permission(ToolCallUpdate(tool_call_id=path), options)
            case _:
                await client.elicit_form(path, ElicitationSchema(properties={}))

    async def _do_terminal(self, tolerant: bool, plan: Plan) -> None:
        assert self._turn is not None
        if not self._turn.client.capabilities.fs.read_text_file:
            # On version 2 a terminal is a process of the agent's.
            await self.play(plan)
            return
        try:
            async with await self._turn.client.create_terminal(f"/{self._stage.tag(self._key)}") as terminal:
                await self.play(plan)
                await terminal.wait_for_exit()
        except AcpError:
            if not tolerant:
                raise

    async def _do_subagent(self, tolerant: bool, plan: Plan) -> None:
        above = self._tool or self._turn
        assert above is not None
        try:
            async with above.subagent(self._stage.tag(self._key)) as child:
                id = child.session.id
                self._stage.note("delegates", id)
                try:
                    await Player(self._stage, self._key, turn=child).play(plan)
                finally:
                    self._stage.note("delegated", id)
        except AcpError:
            if not tolerant:
                raise

    async def _do_steps(self, count: int) -> None:
        for _ in range(count):
            await anyio.lowlevel.checkpoint()

    async def _do_sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def _do_hang(self) -> None:
        await self._stage.over.wait()

    async def _do_raise(self, kind: str) -> None:
        raise failure(kind)

    async def _do_thread(self) -> None:
        await anyio.to_thread.run_sync(self._stage.gates.gate)

    async def _do_child(self, how: str) -> None:
        # It does not end by itself; the second number tells whose it is.
        command = ["sleep", "1000", f"0.{os.getpid()}"]
        with grace(1000.0) if how == "shielded" else nullcontext():
            async with await anyio.open_process(command, stdin=DEVNULL, stdout=DEVNULL) as process:
                self._stage.note("child", self._key, process.pid)
                await self._stage.over.wait()
                process.terminate()
                await process.wait()

    async def _do_stop(self, what: str) -> None:
        assert self._turn is not None
        if what != "tool":
            cause = Cause.USER if what == "user" else Cause.TIMEOUT
            self._stage.note("stop", more=[what, self._turn.session.id])
            self._turn.session.cancel(cause)
        elif calls := live_of(self._turn).tool_calls:
            id = next(iter(calls))
            self._stage.note("stop tool", id)
            self._turn.cancel_tool(id)

    async def _do_all(self, plans: list[Plan]) -> None:
        async with anyio.create_task_group() as group:
            for plan in plans:
                group.start_soon(self.play, plan)

    async def _do_shield(self, seconds: float, plan: Plan) -> None:
        with grace(seconds):
            await self.play(plan)

    async def _do_finally(self, plan: Plan, seconds: float, cleanup: Plan) -> None:
        try:
            await self.play(plan)
        finally:
            with grace(seconds):
                await self.play(cleanup)

    async def _do_swallow(self, times: int, plan: Plan) -> None:
        for _ in range(times):
            try:
                await self.play(plan)
                return
            except BaseException as error:
                if not isinstance(error, (Exception, anyio.get_cancelled_exc_class())):
                    raise

    async def _do_limit(self, seconds: float, plan: Plan) -> None:
        with anyio.move_on_after(seconds):
            await self.play(plan)

    async def _do_native(self, shielded: bool, plan: Plan) -> None:
        if sniffio.current_async_library() != "asyncio":
            await self.play(plan)
            return
        task = asyncio.ensure_future(self.play(plan))
        self._stage.loose.add(task)
        task.add_done_callback(self._stage.gone)
        await (asyncio.shield(task) if shielded else task)

    async def _do_tools(self, calls: list[dict[str, Any]]) -> None:
        assert self._turn is not None
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(self._run_tool, self._turn, call)

    async def _run_tool(self, turn: Turn, call: dict[str, Any]) -> None:
        id = self._stage.tag(self._key)
        arguments = {name: call[name] for name in ("plan", "before", "words")}
        self._stage.note("called", id, [call["tool"], turn.session.id])
        result = await turn.run_tool(call["tool"], {"key": id, **arguments}, id=id)
        self._stage.note("tool ended", id, result.status)


def storm_agent(stage: Stage, **options: Any) -> Agent:
    """An agent whose every handler does what it is told."""
    agent = Agent("storm", unstable={"subagents"}, **options)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        told = json.loads(turn.text)
        await recorded(stage.note, told["key"], Player(stage, told["key"], turn=turn).play(told["plan"]))

    @agent.steer
    async def steer(_turn: Turn, message: Message) -> None:
        key = json.loads(message.text)["key"]
        stage.note("steered", key)
        number = int(key[1:])
        if number % 3 == 0:
            await anyio.sleep(0.3)
        if number % 5 == 0:
            raise RpcError("not now", code=NOT_NOW)

    @agent.method("_storm/play")
    async def play(call: Call, key: str, plan: list[Any]) -> Any:
        return await recorded(stage.note, key, Player(stage, key, call=call).play(plan), {"returned": key})

    @agent.method("_storm/thread")
    def thread(call: Call, key: str, plan: list[Any]) -> Any:
        stage.note("begin", key)
        # Whoever plays in a thread of anyio's may not ask, so those steps are left out.
        play_in_thread(stage, key, [step for step in plan if step[0] not in ("say", "read", "raise")], call)
        stage.note("returned", key)
        return {"returned": key}

    @agent.notification("_storm/over")
    def over(_connection: Connection) -> None:
        stage.over.set()
        stage.gates.open_gates(for_good=True)

    @agent.notification("_storm/gates")
    def gates(_connection: Connection) -> None:
        stage.gates.open_gates()

    async def asked(call: ToolContext, key: str, plan: Any, before: list[Any], words: str | None) -> Approval:
        await Player(stage, f"{key}.before", turn=call.turn, tool=call).play(before)
        return Approval("May I?", remember=True)

    for form, function in _tools(stage).items():
        for asks, approval in {"free": False, "asks": True, "asked": asked}.items():
            agent.add_tool(Tool(function, name=f"{form}_{asks}", approval=approval))
    return agent


def _tools(stage: Stage) -> dict[str, Callable[..., Any]]:
    def begin(call: ToolContext, key: str, words: str | None) -> None:
        stage.note("ran", key, call.id)
        if words is not None:
            call.on_cancel = lambda: 1 / 0 if words == "raises" else f"{key} stopped"  # pyright: ignore[reportAttributeAccessIssue]

    async def coroutine(call: ToolContext, key: str, plan: list[Any], before: list[Any], words: str | None) -> str:
        begin(call, key, words)
        try:
            await Player(stage, key, turn=call.turn, tool=call).play(plan)
        finally:
            stage.note("left", key)
        return f"{key} done"

    async def stream(call: ToolContext, key: str, plan: list[Any], before: list[Any], words: str | None) -> Any:
        begin(call, key, words)
        try:
            for step in plan:
                yield f"{key} goes on\n"
                await Player(stage, key, turn=call.turn, tool=call).play([step])
        finally:
            stage.note("left", key)

    def plain(call: ToolContext, key: str, plan: list[Any], before: list[Any], words: str | None) -> str:
        begin(call, key, words)
        play_in_thread(stage, key, plan, call)
        return f"{key} done"

    def pieces(call: ToolContext, key: str, plan: list[Any], before: list[Any], words: str | None) -> Any:
        begin(call, key, words)
        yield from walk(stage, key, plan, call)

    return {"coroutine": coroutine, "stream": stream, "plain": plain, "pieces": pieces}
