"""Faults of reading and writing messages."""

import asyncio
import json
from typing import Any

from clean import Client, Refusal


class NoVersion(Client):
    """Leaves jsonrpc out."""

    def write(self, message: Any) -> None:
        super().write({key: value for key, value in message.items() if key != "jsonrpc"})


class WritesALog(Client):
    """Writes a line of its log to its agent."""

    async def new_session(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"opening a session\n")
        await super().new_session()


class WritesNumbers(Client):
    """Writes JSON that is no message."""

    async def new_session(self) -> None:
        self.write(1)
        await super().new_session()


class WritesLatin(Client):
    """Writes ISO 8859-1."""

    def write(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message, ensure_ascii=False).encode("latin-1", "replace") + b"\n")


class SendsBatches(Client):
    """Sends every message in a batch."""

    def write(self, message: Any) -> None:
        super().write([message])


class UsesAnIdTwice(Client):
    """Sends two requests with one id."""

    async def prompt(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().prompt())
            await asyncio.sleep(0)
            self.ids -= 1
            group.create_task(super().prompt())


class IdsAreNull(Client):
    """Has the id null in each request, one of which waits at a time."""

    def write(self, message: dict[str, Any]) -> None:
        super().write({**message, "id": None} if "method" in message and "id" in message else message)

    def message(self, message: dict[str, Any]) -> None:
        if "method" not in message and message["id"] is None:
            message["id"] = self.ids
        super().message(message)


class IdsAreFloats(Client):
    """Numbers its requests with fractions."""

    def __init__(self, agent: list[str]) -> None:
        super().__init__(agent)
        self.ids = 0.5

    def message(self, message: dict[str, Any]) -> None:
        if "method" not in message and isinstance(message["id"], float):
            self.waiting[1] = self.waiting.pop(message["id"])
            message["id"] = 1
        super().message(message)


class ReadsIdsAsNumbers(Client):
    """Takes what looks like a number for one."""

    def answer(self, id: Any, **outcome: Any) -> None:
        super().answer(int(id) if isinstance(id, str) and id.isdecimal() else id, **outcome)


class ReadsIdsAsStrings(Client):
    """Takes every id for a string."""

    def answer(self, id: Any, **outcome: Any) -> None:
        super().answer(str(id), **outcome)


class ReadsIdsAsDoubles(Client):
    """Reads numbers as JavaScript does."""

    def answer(self, id: Any, **outcome: Any) -> None:
        super().answer(int(float(id)) if isinstance(id, int) else id, **outcome)


class SilentAboutUnknown(Client):
    """Does not answer what it does not know."""

    async def serve(self, message: dict[str, Any]) -> None:
        if message["method"] in self.handlers():
            await super().serve(message)


class UnknownIsInternal(Client):
    """Has one error for everything."""

    def answer(self, id: Any, **outcome: Any) -> None:
        if "error" in outcome:
            outcome["error"]["code"] = -32603
        super().answer(id, **outcome)


class IgnoresDollar(Client):
    """Ignores all that begins with $/, requests as well."""

    async def serve(self, message: dict[str, Any]) -> None:
        if not message["method"].startswith("$/"):
            await super().serve(message)


class SilentAboutUnannounced(Client):
    """Has no terminals, and does not say so."""

    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}}  # noqa: RUF012

    async def create(self, params: Any) -> Any:
        await asyncio.get_running_loop().create_future()


class ErrorWithoutMessage(Client):
    """Says only the code of an error."""

    def answer(self, id: Any, **outcome: Any) -> None:
        if "error" in outcome:
            del outcome["error"]["message"]
        super().answer(id, **outcome)


class ResultAndError(Client):
    """Answers with a result and an error."""

    def answer(self, id: Any, **outcome: Any) -> None:
        super().answer(id, **{"result": None, **outcome})


class AnswersNotifications(Client):
    """Answers notifications that it does not know."""

    def notified(self, message: dict[str, Any]) -> None:
        if message["method"] in ("session/update", "$/cancel_request"):
            super().notified(message)
        else:
            self.answer(None, error={"code": -32601, "message": "Method not found"})


class AnswersBadUpdates(Client):
    """Answers updates that it cannot read."""

    def updated(self, params: Any) -> None:
        if not isinstance(params, dict) or not isinstance(params.get("update"), dict):
            self.answer(None, error={"code": -32602, "message": "Invalid params"})


class AnswersEveryUpdate(Client):
    """Confirms updates."""

    def updated(self, params: Any) -> None:
        self.answer(None, result=None)


class DiesOfUnknownUpdates(Client):
    """Knows only some updates."""

    def updated(self, params: Any) -> None:
        kind = params["update"]["sessionUpdate"]
        if kind not in ("agent_message_chunk", "tool_call", "tool_call_update"):
            raise ValueError(f"no update {kind}")


class DiesOfUnknownFields(Client):
    """Knows all fields of a tool call, of today."""

    def updated(self, params: Any) -> None:
        known = {"sessionUpdate", "toolCallId", "title", "kind", "status", "content", "locations", "_meta"}
        if params["update"]["sessionUpdate"] == "tool_call" and set(params["update"]) - known:
            raise ValueError("unknown fields")


class DiesOfMeta(Client):
    """Wants _meta to be text."""

    def updated(self, params: Any) -> None:
        if params.get("_meta"):
            params["_meta"].encode()


class DiesOfOtherSessions(Client):
    """Looks up the session of an update."""

    def updated(self, params: Any) -> None:
        _ = {self.session_id: True}[params["sessionId"]]


class DiesOfMany(Client):
    """Keeps the updates of a turn in a queue that is too short."""

    taken = 0

    def updated(self, params: Any) -> None:
        self.taken += 1
        if self.taken > 500:
            raise asyncio.QueueFull


class AnswersResponses(Client):
    """Answers responses to what it has not asked."""

    def unasked(self, message: dict[str, Any]) -> None:
        self.answer(message["id"], error={"code": -32600, "message": "No such request"})


class HangsOnText(Client):
    """Stops reading at a line that is not JSON, and does not notice."""

    def line(self, line: bytes) -> None:
        json.loads(line)
        super().line(line)

    def lost(self) -> None:
        pass


class HangsOnNumbers(HangsOnText):
    """Stops reading at JSON that is no object, and does not notice."""

    def line(self, line: bytes) -> None:
        if line.startswith(b"4"):
            raise AttributeError("'int' object has no attribute 'get'")
        Client.line(self, line)


class HangsOnBytes(HangsOnText):
    """Stops reading at a line that is not UTF-8, and does not notice."""

    def line(self, line: bytes) -> None:
        line.decode()
        Client.line(self, line)


class ShortLines(Client):
    """Reads lines of 64 KiB at most."""

    limit = 65536


class OneMessageARead(Client):
    """Takes what one read brings for one message."""

    async def read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(1 << 20):
            self.line(data.split(b"\n")[0])
        self.lost()


class WantsNoWhitespace(Client):
    """Takes only lines that begin like an object."""

    def line(self, line: bytes) -> None:
        if line.startswith(b"{"):
            super().line(line)


class DoesNotReadStderr(Client):
    """Has a pipe for its agent's standard error that nobody reads."""

    async def read_stderr(self) -> None:
        vars(self.process)["_transport"].get_pipe_transport(2).pause_reading()


class Floods(Client):
    """Never stops to send."""

    async def prompt(self) -> None:
        asyncio.create_task(super().prompt())  # noqa: RUF006
        await asyncio.sleep(0)
        assert self.process.stdin is not None
        while True:
            for _ in range(1000):
                self.notify("_flood", {"text": "x" * 1000})
            await self.process.stdin.drain()


class NeverEndsItsLine(Client):
    """Writes one line that does not end."""

    async def prompt(self) -> None:
        asyncio.create_task(super().prompt())  # noqa: RUF006
        await asyncio.sleep(0)
        assert self.process.stdin is not None
        while True:
            self.process.stdin.write(b"x" * 1_000_000)
            await self.process.stdin.drain()


class ResultOfAnotherShape(Client):
    """Answers fs/read_text_file with the text alone."""

    async def read_file(self, params: Any) -> Any:
        return (await super().read_file(params))["content"]


class GuessesParams(Client):
    """Takes a permission request for granted that it cannot read."""

    async def permission(self, params: Any) -> Any:
        try:
            return await super().permission(params)
        except (KeyError, TypeError, Refusal):
            return {"outcome": {"outcome": "selected", "optionId": "allow"}}


class AnswersLate(Client):
    """Takes longer for an answer than it took for anything before."""

    async def serve(self, message: dict[str, Any]) -> None:
        await asyncio.sleep(0.9)
        await super().serve(message)


class ShortRequests(Client):
    """Has no answer to a request that is longer than its buffer."""

    async def serve(self, message: dict[str, Any]) -> None:
        if len(json.dumps(message)) <= 65536:
            await super().serve(message)


class DiesOfUnknownToolCalls(Client):
    """Looks up the tool call of an update."""

    def __init__(self, agent: list[str]) -> None:
        super().__init__(agent)
        self.calls: set[str] = set()

    def updated(self, params: Any) -> None:
        update = params["update"]
        if update["sessionUpdate"] == "tool_call":
            self.calls.add(update["toolCallId"])
        elif update["sessionUpdate"] == "tool_call_update":
            _ = dict.fromkeys(self.calls, True)[update["toolCallId"]]


class AnswersCompletions(Client):
    """Answers the completion of an elicitation that it does not know."""

    def notified(self, message: dict[str, Any]) -> None:
        if message["method"] == "elicitation/complete":
            self.answer(None, error={"code": -32602, "message": "No such elicitation"})
        super().notified(message)
