"""A client in plain Python that does everything right; the faulty ones differ from it in one thing each.

    python clean.py AGENT...            starts the agent, prompts once, and leaves
    python clean.py --line="AGENT..."   the agent as one string
    python clean.py AGENT... --again    prompts once more, when the first turn has ended and its user types a line

Its user answers permission requests with the number of an option, in a line of standard input, and stops the turn by
SIGINT.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PIPE = asyncio.subprocess.PIPE


class Refusal(Exception):
    """A request is answered with this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class AgentGone(Exception):
    """The agent has closed its output."""


class Terminal:
    """A command of the agent."""

    def __init__(self, process: asyncio.subprocess.Process, limit: int | None) -> None:
        self.process = process
        self.limit = limit
        self.data = b""
        self.truncated = False
        self.complete = asyncio.create_task(self.listen())

    async def listen(self) -> int:
        assert self.process.stdout is not None
        while piece := await self.process.stdout.read(65536):
            self.data += piece
            if self.limit is not None and len(self.data) > self.limit:
                self.data = self.data[-self.limit :]
                self.truncated = True
        return await self.process.wait()

    def output(self) -> str:
        data = self.data
        while self.truncated and data and data[0] & 0xC0 == 0x80:
            data = data[1:]
        return codecs.getincrementaldecoder("utf-8")("replace").decode(data)

    def status(self) -> dict[str, Any] | None:
        code = self.process.returncode
        if code is None or not self.complete.done():
            return None
        return {"exitCode": code, "signal": None} if code >= 0 else {"exitCode": None, "signal": str(-code)}

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.complete


class Client:
    """One run. The faulty clients replace single methods."""

    limit = 1 << 26
    capabilities: dict[str, Any] = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}  # noqa: RUF012

    again = False

    def __init__(self, agent: list[str]) -> None:
        self.agent = agent
        self.ids = 0
        self.waiting: dict[Any, asyncio.Future[Any]] = {}
        self.serving: dict[Any, asyncio.Task[None]] = {}
        self.permissions: set[asyncio.Task[None]] = set()
        self.terminals: dict[str, Terminal] = {}
        self.session_id = ""
        self.in_turn = False
        self.cancelling = False
        self.asking = asyncio.Lock()

    # -- the run

    async def start(self, **options: Any) -> None:
        """Start the agent."""
        pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE}
        self.process = await asyncio.create_subprocess_exec(
            *self.agent, limit=self.limit, start_new_session=True, **pipes, **options
        )

    async def run(self) -> int:
        """Start the agent, prompt, end it: the exit status."""
        await self.start()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.interrupted)
        tasks = [asyncio.create_task(self.read()), asyncio.create_task(self.read_stderr())]
        try:
            await self.work()
        except (AgentGone, RuntimeError) as error:
            print(error, file=sys.stderr)  # noqa: T201
            return 1
        finally:
            await self.end()
            for task in tasks:
                task.cancel()
        return 0

    async def work(self) -> None:
        """What the user came for."""
        answer = await self.initialize()
        if answer["protocolVersion"] != 1:
            return
        await self.new_session()
        if self.again:
            with suppress(RuntimeError):
                await self.prompt()
            await self.typed()
        await self.prompt()

    async def initialize(self) -> dict[str, Any]:
        info = {"name": "clean", "version": "1.0"}
        params = {"protocolVersion": 1, "clientCapabilities": self.capabilities, "clientInfo": info}
        return await self.request("initialize", params)

    async def new_session(self) -> None:
        answer = await self.request("session/new", {"cwd": os.getcwd(), "mcpServers": []})
        self.session_id = answer["sessionId"]

    async def prompt(self) -> None:
        self.in_turn = True
        try:
            params = {"sessionId": self.session_id, "prompt": [{"type": "text", "text": "hello"}]}
            await self.request("session/prompt", params)
        finally:
            self.in_turn = self.cancelling = False

    async def end(self) -> None:
        """Close the agent's input, wait, end it by force."""
        for terminal in self.terminals.values():
            await terminal.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        for end in (self.process.terminate, self.process.kill):
            try:
                await asyncio.wait_for(self.process.wait(), 1)
            except TimeoutError:
                end()
        await self.process.wait()

    # -- the user

    def interrupted(self) -> None:
        """Ctrl-C: stop the turn."""
        if self.in_turn and not self.cancelling:
            self.cancelling = True
            self.notify("session/cancel", {"sessionId": self.session_id})
            self.dismiss()

    def dismiss(self) -> None:
        for task in self.permissions:
            task.cancel()

    async def choose(self, options: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask the user."""
        async with self.asking:
            while True:
                line = await self.typed()
                if line.isdecimal() and 1 <= int(line) <= len(options):
                    return options[int(line) - 1]

    async def typed(self) -> str:
        """A line of standard input; at its end there is none, ever."""
        if not hasattr(self, "stdin"):
            self.stdin = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(self.stdin)
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        line = await self.stdin.readline()
        if not line:
            await asyncio.get_running_loop().create_future()
        return line.decode().strip()

    # -- messages

    def write(self, message: Any) -> None:
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def notify(self, method: str, params: Any) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: Any) -> Any:
        self.ids += 1
        future = self.waiting[self.ids] = asyncio.get_running_loop().create_future()
        self.write({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params})
        return await future

    async def read(self) -> None:
        assert self.process.stdout is not None
        try:
            while line := await self.process.stdout.readline():
                self.line(line)
        finally:
            self.lost()

    def lost(self) -> None:
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(AgentGone("the agent is gone"))

    async def read_stderr(self) -> None:
        assert self.process.stderr is not None
        while await self.process.stderr.read(65536):
            pass

    def line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict):
                self.message(each)

    def message(self, message: dict[str, Any]) -> None:
        id = message.get("id")
        if "method" not in message:
            future = self.waiting.pop(id, None) if isinstance(id, int) and not isinstance(id, bool) else None
            if future is None:
                self.unasked(message)
            elif "error" in message:
                future.set_exception(RuntimeError(message["error"]["message"]))
            else:
                future.set_result(message["result"])
        elif "id" in message:
            task = asyncio.create_task(self.serve(message))
            self.serving[type(id), id] = task
            task.add_done_callback(lambda _: self.serving.pop((type(id), id), None))
            if message["method"] == "session/request_permission":
                self.permissions.add(task)
                task.add_done_callback(self.permissions.discard)
        else:
            self.notified(message)

    def unasked(self, message: dict[str, Any]) -> None:
        """A response to nothing."""

    def notified(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        if message["method"] == "$/cancel_request" and isinstance(params, dict):
            id = params.get("requestId")
            task = self.serving.get((type(id), id)) if isinstance(id, int | str) else None
            if task is not None:
                self.withdrawn(task)
        elif message["method"] == "session/update":
            self.updated(params)

    def withdrawn(self, task: asyncio.Task[None]) -> None:
        task.cancel()

    def updated(self, params: Any) -> None:
        """A session/update, be it a good one or not."""

    # -- what the agent asks for

    async def serve(self, message: dict[str, Any]) -> None:
        """Answer a request."""
        id = message["id"]
        try:
            handler = self.handlers().get(message["method"])
            if handler is None:
                raise Refusal(-32601, "Method not found")
            try:
                self.answer(id, result=await handler(message.get("params")))
            except (KeyError, TypeError, AttributeError) as error:
                raise Refusal(-32602, "Invalid params") from error
        except Refusal as refusal:
            self.answer(id, error={"code": refusal.code, "message": str(refusal)})
        except asyncio.CancelledError:
            self.cut(message)

    def cut(self, message: dict[str, Any]) -> None:
        """Answer a request that was cut."""
        if self.cancelling and message["method"] == "session/request_permission":
            self.answer(message["id"], result={"outcome": {"outcome": "cancelled"}})
        else:
            self.answer(message["id"], error={"code": -32800, "message": "Request cancelled"})

    def answer(self, id: Any, **outcome: Any) -> None:
        self.write({"jsonrpc": "2.0", "id": id, **outcome})

    def handlers(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "session/request_permission": self.permission,
            "fs/read_text_file": self.read_file,
            "fs/write_text_file": self.write_file,
            "terminal/create": self.create,
            "terminal/output": self.output,
            "terminal/wait_for_exit": self.wait_for_exit,
            "terminal/kill": self.kill,
            "terminal/release": self.release,
        }

    async def permission(self, params: Any) -> Any:
        options, _ = params["options"], params["toolCall"]["toolCallId"]
        if not all(isinstance(option["optionId"], str) for option in options):
            raise TypeError
        if self.cancelling:
            return {"outcome": {"outcome": "cancelled"}}
        option = await self.choose(options)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    def path(self, params: Any) -> str:
        if not os.path.isabs(params["path"]):
            raise Refusal(-32602, "The path must be absolute")
        return params["path"]

    async def read_file(self, params: Any) -> Any:
        try:
            with open(self.path(params), encoding="utf-8", newline="") as file:  # noqa: ASYNC230
                lines = file.readlines()
        except FileNotFoundError as error:
            raise Refusal(-32002, "Resource not found") from error
        return {"content": "".join(self.cut_out(lines, params))}

    def cut_out(self, lines: list[str], params: Any) -> list[str]:
        lines = lines[(params.get("line") or 1) - 1 :]
        return lines if params.get("limit") is None else lines[: params["limit"]]

    async def write_file(self, params: Any) -> Any:
        try:
            with open(self.path(params), "w", encoding="utf-8", newline="") as file:  # noqa: ASYNC230
                file.write(params["content"])
        except OSError as error:
            raise Refusal(-32603, str(error)) from error
        return None

    async def create(self, params: Any) -> Any:
        env = {**os.environ, **{each["name"]: each["value"] for each in params.get("env") or ()}}
        try:
            process = await asyncio.create_subprocess_exec(
                *(params["command"], *(params.get("args") or ())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=env,
                cwd=params.get("cwd"),
            )
        except OSError as error:
            raise Refusal(-32602, "The command cannot be started") from error
        id = f"terminal-{len(self.terminals) + 1}"
        self.terminals[id] = Terminal(process, params.get("outputByteLimit"))
        return {"terminalId": id}

    def terminal(self, params: Any) -> Terminal:
        if params["terminalId"] not in self.terminals:
            raise Refusal(-32002, "No such terminal")
        return self.terminals[params["terminalId"]]

    async def output(self, params: Any) -> Any:
        terminal = self.terminal(params)
        found = {"output": terminal.output(), "truncated": terminal.truncated}
        return found if terminal.status() is None else {**found, "exitStatus": terminal.status()}

    async def wait_for_exit(self, params: Any) -> Any:
        terminal = self.terminal(params)
        await asyncio.shield(terminal.complete)
        return terminal.status()

    async def kill(self, params: Any) -> Any:
        await self.terminal(params).kill()
        return {}

    async def release(self, params: Any) -> Any:
        terminal = self.terminal(params)
        await terminal.kill()
        del self.terminals[params["terminalId"]]
        return {}


def main(kind: type[Client], arguments: list[str]) -> None:
    """Run a client of this kind."""
    kind.again = "--again" in arguments
    first, *_ = arguments = [word for word in arguments if word != "--again"]
    agent = shlex.split(first.removeprefix("--line=")) if first.startswith("--line=") else arguments
    raise SystemExit(asyncio.run(kind(agent).run()))


if __name__ == "__main__":
    main(Client, sys.argv[1:])
