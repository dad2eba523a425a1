"""The bench agent on bare asyncio and orjson: no types, no validation, no error handling. The lower bound of Python."""

import asyncio
import os
from typing import Any

import orjson

CHUNK = "the quick brown fox jumps over the lazy dog, "
_READ = 1 << 16


class Bench:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._partial = b""
        self._ended = loop.create_future()
        self._output: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._cancelled: dict[str, asyncio.Event] = {}
        self._prompts: dict[int, str] = {}

    async def run(self) -> None:
        self._loop.add_reader(0, self._read)
        await self._ended

    def _read(self) -> None:
        data = os.read(0, _READ)
        if not data:
            self._loop.remove_reader(0)
            self._ended.set_result(None)
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._receive(orjson.loads(line))

    def _receive(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": "session/cancel", "params": {"sessionId": session}}:
                self._cancelled[session].set()
            case {"method": "$/cancel_request", "params": {"requestId": request}}:
                self._cancelled[self._prompts[request]].set()
            case {"method": _, "id": _}:
                task = self._loop.create_task(self._serve(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case {"id": request, "result": result}:
                self._answers.pop(request).set_result(result)
            case _:
                raise ValueError(message)

    async def _serve(self, message: dict[str, Any]) -> None:
        request, params = message["id"], message["params"]
        match message["method"]:
            case "initialize":
                self._send({"id": request, "result": {"protocolVersion": 1}})
            case "session/new":
                session = f"session-{len(self._cancelled)}"
                self._cancelled[session] = asyncio.Event()
                self._send({"id": request, "result": {"sessionId": session}})
            case "session/prompt":
                reason = await self._prompt(request, params["sessionId"], params["prompt"][0]["text"])
                self._send({"id": request, "result": {"stopReason": reason}})
            case "_bench/own":
                self._send({"id": request, "result": {"number": params["number"] + 1}})
            case _:
                self._send({"id": request, "error": {"code": -32601, "message": "Method not found"}})

    async def _prompt(self, request: int, session: str, text: str) -> str:
        work, _, amount = text.partition(" ")
        match work:
            case "echo":
                self._stream(session, 1)
            case "stream":
                self._stream(session, int(amount))
            case "nested":
                await asyncio.gather(*(self._read_file(session, i) for i in range(int(amount))))
            case "hang":
                self._prompts[request] = session
                await self._cancelled[session].wait()
                del self._prompts[request]
                self._cancelled[session].clear()
                return "cancelled"
            case _:
                pass
        return "end_turn"

    def _stream(self, session: str, amount: int) -> None:
        content = {"type": "text", "text": CHUNK}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        for _ in range(amount):
            self._send({"method": "session/update", "params": {"sessionId": session, "update": update}})

    async def _read_file(self, session: str, number: int) -> None:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers[number] = answer
        params = {"sessionId": session, "path": f"/project/{number}.py"}
        self._send({"id": number, "method": "fs/read_text_file", "params": params})
        await answer

    def _send(self, message: dict[str, Any]) -> None:
        message["jsonrpc"] = "2.0"
        if not self._output:
            self._loop.call_soon(self._flush)
        self._output.append(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))

    def _flush(self) -> None:
        data = memoryview(b"".join(self._output))
        self._output.clear()
        while data:
            data = data[os.write(1, data) :]


async def main() -> None:
    await Bench(asyncio.get_running_loop()).run()


if __name__ == "__main__":
    asyncio.run(main())
