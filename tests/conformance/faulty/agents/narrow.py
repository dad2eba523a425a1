"""Faults that show in one kind of message alone: each breaks a sentence that agents of the other modules keep."""

from __future__ import annotations

import json
import os
import signal
import sys

from clean import Clean
from rpc import INVALID_PARAMS, INVALID_REQUEST, Batch, Json, Request, RpcError
from situations import Session


class WorksWithItsVersionAlone(Clean):
    """Makes no sessions for a client that asked for a later version."""

    later = False

    def negotiated(self, version: int) -> int:
        self.later = version > 1
        return super().negotiated(version)

    async def new_session(self, request: Request) -> Json:
        if self.later:
            raise RpcError(INVALID_REQUEST, "This is another version")
        return await super().new_session(request)


class RefusesOlderVersions(Clean):
    """Refuses a client of an older version."""

    def negotiated(self, version: int) -> int:
        if version < 1:
            raise RpcError(INVALID_PARAMS, "This version is too old")
        return super().negotiated(version)


class NullIsNoClient(Clean):
    """Refuses a client whose name is null."""

    async def initialize(self, request: Request) -> Json:
        if request.params.get("clientInfo", ...) is None:
            raise RpcError(INVALID_PARAMS, "clientInfo is null")
        return await super().initialize(request)


class NoMetaInAClient(Clean):
    """Refuses `_meta` in what a client says of itself."""

    async def initialize(self, request: Request) -> Json:
        if "_meta" in (request.params.get("clientInfo") or {}):
            raise RpcError(INVALID_PARAMS, "clientInfo has members that are not known")
        return await super().initialize(request)


class ListsNoCapabilities(Clean):
    """Says nothing of what it can do."""

    async def initialize(self, request: Request) -> Json:
        result = await super().initialize(request)
        del result["agentCapabilities"]
        return result


class WritesArrays(Clean):
    """Sends an update as an array of one."""

    def notify(self, method: str, params: Json) -> None:
        self.write([{"jsonrpc": "2.0", "method": method, "params": params}])


class SilentAtProtocolRequests(Clean):
    """Takes every `$/` for a notification."""

    def take_request(self, request: Request) -> None:
        if not request.method.startswith("$/"):
            super().take_request(request)


class NoIdIsNull(Clean):
    """Reads a missing id as null, and answers."""

    def take_notification(self, method: str, params: Json) -> None:
        if method in self.methods:
            self.take_request(Request(None, method, params, None))
        else:
            super().take_notification(method, params)


class WantsParams(Clean):
    """Says nothing to a request without parameters."""

    def take(self, value: Json, batch: Batch | None) -> None:
        if not isinstance(value, dict) or "method" not in value or "params" in value:
            super().take(value, batch)


class NoSpaceInFront(Clean):
    """Drops a line that does not begin with a brace."""

    def receive(self, line: bytes) -> None:
        if not line.startswith(b" {"):
            super().receive(line)


class VersionComesFirst(Clean):
    """Drops a message that does not begin with `jsonrpc`."""

    def receive(self, line: bytes) -> None:
        if not line.startswith(b'{"params"'):
            super().receive(line)


class KnowsNoEscapes(Clean):
    """Looks for the names of methods in the line as it came."""

    def receive(self, line: bytes) -> None:
        self.raw = line
        super().receive(line)

    def take_request(self, request: Request) -> None:
        if json.dumps(request.method).encode() not in self.raw:
            request.method = "unknown"
        super().take_request(request)


class SixteenBitsACharacter(Clean):
    """Drops a line that has a character beyond 16 bits, of which a piece may come first."""

    def receive(self, line: bytes) -> None:
        if max(line, default=0) < 0xF0:
            super().receive(line)


class FirstLineOfARead(Clean):
    """Takes the first line of what it reads at once, and drops the others."""

    def serve(self) -> None:
        rest = b""
        while data := os.read(0, 1 << 20):
            first, newline, behind = (rest + data).partition(b"\n")
            rest = b"" if newline else first
            if newline:
                self.receive(first)
            del behind
        self.ended()


class LongNumbersAsText(Clean):
    """Answers with ids of four digits and more as strings."""

    def answer(self, request: Request, message: Json) -> None:
        id = request.id
        long = isinstance(id, int) and abs(id) > 30
        super().answer(request, {**message, "id": str(id)} if long else message)


class LoudIds(Clean):
    """Answers with string ids in capital letters."""

    def answer(self, request: Request, message: Json) -> None:
        id = request.id
        super().answer(request, {**message, "id": id.upper()} if isinstance(id, str) else message)


class RoundsWideIds(Clean):
    """Answers with the nearest double of an id."""

    def answer(self, request: Request, message: Json) -> None:
        id = request.id
        super().answer(request, {**message, "id": int(float(id))} if isinstance(id, int) else message)


class NullIsNoId(Clean):
    """Takes a request whose id is null for a notification."""

    def take_request(self, request: Request) -> None:
        if request.id is not None:
            super().take_request(request)


class FoldsIds(Clean):
    """Takes 7 and "7" for the same id."""

    def key(self, id: Json) -> tuple[str, Json]:
        return "id", str(id)


class SilentAtNull(Clean):
    """Says nothing to a line that is null."""

    def read(self, value: Json) -> None:
        if value is not None:
            super().read(value)


class AnyMethodIsAName(Clean):
    """Looks a method up that is a number, and does not find it."""

    def is_message(self, value: dict[str, Json]) -> bool:
        return super().is_message({**value, "method": str(value.get("method"))})


class ParamsOfAnyKind(Clean):
    """Takes parameters that are a number for none."""

    def take(self, value: Json, batch: Batch | None) -> None:
        if isinstance(value, dict) and not isinstance(value.get("params", {}), dict | list):
            value = {**value, "method": "session/list", "params": {}}
        super().take(value, batch)


class ByPosition(Clean):
    """Takes parameters by their position."""

    def take_request(self, request: Request) -> None:
        if request.method == "session/new" and isinstance(request.params, list):
            request.params = dict(zip(("cwd", "mcpServers"), request.params, strict=False))
        super().take_request(request)


class ComplainsOfNotifications(Clean):
    """Answers a notification whose parameters do not fit."""

    def take_notification(self, method: str, params: Json) -> None:
        if method == "session/cancel" and not (isinstance(params, dict) and isinstance(params.get("sessionId"), str)):
            self.refuse(None, INVALID_PARAMS, "Invalid params", None)
        else:
            super().take_notification(method, params)


class ComplainsOfResponses(Clean):
    """Answers a response that is malformed."""

    def take_response(self, value: dict[str, Json]) -> None:
        if not isinstance(value.get("error", {}), dict) or ("result" in value) == ("error" in value):
            self.refuse(None, INVALID_REQUEST, "Invalid Request", None)
        else:
            super().take_response(value)


class EndsAtNoMessage(Clean):
    """Ends at an object that is no message."""

    def is_message(self, value: dict[str, Json]) -> bool:
        return super().is_message(value) or sys.exit(1)


class EndsAtBadParams(Clean):
    """Ends at parameters that do not fit."""

    def fail(self, request: Request, error: RpcError) -> None:
        if error.code == INVALID_PARAMS:
            sys.exit(1)
        super().fail(request, error)


class EndsAtAMark(Clean):
    """Ends at a byte order mark."""

    def receive(self, line: bytes) -> None:
        if line.startswith(b"\xef\xbb\xbf"):
            sys.exit(1)
        super().receive(line)


class EndsAtNul(Clean):
    """Ends at a NUL byte."""

    def receive(self, line: bytes) -> None:
        if b"\0" in line:
            sys.exit(1)
        super().receive(line)


class EndsAtHugeNumbers(Clean):
    """Ends at a number of thousands of digits."""

    def receive(self, line: bytes) -> None:
        if b"9" * 5000 in line or b"1" * 5000 in line or b"0" * 5000 in line:
            sys.exit(1)
        super().receive(line)


class EndsAtDuplicateNames(Clean):
    """Ends at an object that has a name twice."""

    def decode(self, line: bytes) -> Json:
        return json.loads(line.decode("utf-8"), object_pairs_hook=self.only_once)

    def only_once(self, pairs: list[tuple[str, Json]]) -> Json:
        return dict(pairs) if len(dict(pairs)) == len(pairs) else sys.exit(1)


class EndsAtHalfCharacters(Clean):
    """Writes ids in UTF-8, which half a character has none in."""

    def encode(self, message: Json) -> bytes:
        return json.dumps(message, ensure_ascii=False, allow_nan=False).encode() + b"\n"


class NothingSaidIsAllAllowed(Clean):
    """Takes a client that announces nothing for one that can do everything."""

    def announced(self, name: str) -> bool:
        return not self.client or super().announced(name)


class OneBlockAPrompt(Clean):
    """Refuses a prompt of several blocks."""

    def text(self, prompt: list[Json]) -> str:
        if sum(block.get("type") == "text" for block in prompt) > 1:
            raise RpcError(INVALID_PARAMS, "One block is enough")
        return super().text(prompt)


class RefusesWhatItAnnounces(Clean):
    """Announces images, sound and embedded resources, and refuses them."""

    def capabilities(self) -> dict[str, Json]:
        return {
            **super().capabilities(),
            "promptCapabilities": dict.fromkeys(("image", "audio", "embeddedContext"), True),
        }

    def text(self, prompt: list[Json]) -> str:
        if any(block.get("type") in ("image", "audio", "resource") for block in prompt):
            raise RpcError(INVALID_PARAMS, "This content is not supported")
        return super().text(prompt)


class ResumesUnannounced(Clean):
    """Resumes sessions without saying that it can."""

    def capabilities(self) -> dict[str, Json]:
        found = super().capabilities()
        return {**found, "sessionCapabilities": {"list": {}, "close": {}, "delete": {}}}

    async def resume_session(self, request: Request) -> Json:
        self.directory(request)
        return {}


class SessionsOfThisRevision(Clean):
    """Refuses a session with members that it does not know."""

    def directory(self, request: Request) -> str:
        if request.params.keys() - {"sessionId", "cwd", "mcpServers", "additionalDirectories"}:
            raise RpcError(INVALID_PARAMS, "A member is not known")
        return super().directory(request)


class EndsWithoutItsServer(Clean):
    """Ends if an MCP server cannot be started."""

    def connect(self, server: Json) -> None:
        if not os.path.exists(server.get("command", "/")):
            sys.exit(1)
        super().connect(server)


class ClosesAll(Clean):
    """Closes every session at once."""

    def close(self, session: Session) -> None:
        for each in self.sessions.values():
            super().close(each)


class AnyCursorIsTheStart(Clean):
    """Begins a list anew at a cursor that it did not give out."""

    async def list_sessions(self, request: Request) -> Json:
        if request.params.get("cursor") not in self.sessions:
            request.params = {**request.params, "cursor": None}
        return await super().list_sessions(request)


class ListsItsOwnFolder(Clean):
    """Lists every session with the folder that the agent itself was started in."""

    def listed(self, cwd: Json, cursor: Json) -> list[Json]:
        return [{**each, "cwd": os.getcwd()} for each in super().listed(cwd, cursor)]


class LoadedIsReadOnly(Clean):
    """Takes no prompts in a session that was loaded."""

    async def load_session(self, request: Request) -> Json:
        result = await super().load_session(request)
        self.sessions[request.params["sessionId"]].open = False
        return result


class CancelOfNothingEnds(Clean):
    """Ends at a cancel that names no session."""

    def cancel_session(self, params: Json) -> None:
        if not isinstance(params, dict) or not isinstance(params.get("sessionId"), str):
            sys.exit(1)
        super().cancel_session(params)


class HundredAtATime(Clean):
    """Drops all but the first hundred requests that it meets."""

    met = 0

    def take_request(self, request: Request) -> None:
        self.met += 1
        if self.met <= 100:
            super().take_request(request)


class WaitsForTheFirst(Clean):
    """Lives on if its input ends before anything was said."""

    def ended(self) -> None:
        super().ended()
        if self.client is None:
            signal.pause()


class WaitsForTheRest(Clean):
    """Lives on if its input ends inside of a line."""

    def receive(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            signal.pause()
        super().receive(line)


class BrokenOutputIsForgotten(Clean):
    """Lives on when what it writes has no reader."""

    def put(self, data: bytes) -> None:
        try:
            os.write(1, data)
        except BrokenPipeError:
            signal.pause()


class CannotBeTerminated(Clean):
    """Ignores SIGTERM."""

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().serve()


class ClosesItsOutput(Clean):
    """Closes its output at a notification that it does not know."""

    def notification(self, method: str, params: Json) -> None:
        if method not in ("session/cancel", "$/cancel_request"):
            os.close(1)
        super().notification(method, params)
