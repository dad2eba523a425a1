"""An agent that keeps to nothing: what it answers, says and asks, and when it dies, is drawn by lot.

It notes all that it reads and sends, in order, for the oracle.
"""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

import anyio
import anyio.abc

from acp_server.testing import FaultyStream, MemoryStream
from tests.client.talking import EVERYTHING, permission, said, shown

LINE = 20_000
"""The longest line that its client reads."""
DELAYS = (0.0, 0.0, 0.0, 0.001, 0.1, 2.0, 8.0)
ENDS = ("end_input", "fail_reading", "break_sending", "die", "torn")

_WRONG: list[dict[str, Any]] = [
    {"result": None},
    {"result": []},
    {"result": {"sessionId": 5, "stopReason": 7, "sessions": 1}},
    {"error": {"code": -32800, "message": "cancelled"}},
    {"error": {"code": -32603, "message": "failed", "data": {"x": 1}}},
    {"error": {"code": "x"}},
    {"error": "text"},
    {"result": {}, "error": {"code": 1, "message": ""}},
    {},
]
_GARBAGE: list[bytes] = [
    b"not json",
    b"{",
    b"[]",
    b"5",
    b"\xff\xfe",
    b"",
    b"[" * 2000,
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","method":5,"id":[]}',
    b'{"jsonrpc":"1.0","method":"x","id":"old"}',
    b'{"jsonrpc":"2.0","id":"x","result":{}}',
    b'[1,{"jsonrpc":"2.0","method":"session/update"},{"jsonrpc":"2.0","id":100000,"result":{}}]',
    b'{"jsonrpc":"2.0","method":"session/update","params":[1]}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s0","update":{"no":"kind"}}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s0","update":{"sessionUpdate":"hologram"}}}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{}}}',
    b'{"jsonrpc":"2.0","method":"' + b"x" * LINE + b'"}',
    b'{"jsonrpc":"2.0","method":"_note","params":{"a":1}}',
]


@dataclass
class Note:
    """One message: what the client sent if it is `heard`, else what the agent did. `number`: of an update."""

    heard: bool
    message: dict[str, Any]
    number: int = -1

    @property
    def line(self) -> bytes:
        """It on the wire."""
        return json.dumps(self.message).encode()


class Rogue:
    """The agent's end of a connection. `client` is the client's end, in which it makes faults."""

    def __init__(self, stream: MemoryStream, client: FaultyStream, random: Random) -> None:
        self.notes: list[Note] = []
        self.is_whole = True
        """Whether both pipes are as they were."""
        self.is_calm = False
        """Whether it keeps quiet but for answers."""
        self._stream = stream
        self._client = client
        self._random = random
        self._honesty = random.choice((0.3, 0.7, 0.9, 0.97))
        self._mortality = random.choice((0.0, 0.0, 0.02, 0.1))
        self._group: anyio.abc.TaskGroup | None = None
        self._prompts: dict[int, str] = {}
        self._sessions = 0
        self._updates = 0
        self._asked = 0
        self._waiting: list[tuple[bytes, Note | None]] | None = None
        self._is_stalling = False

    async def run(self, group: anyio.abc.TaskGroup) -> None:
        """Read until the client has gone."""
        self._group = group
        group.start_soon(self._chaos)
        rest = b""
        while data := await self._stream.receive():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                value = json.loads(line)
                # An array is the answer to a batch.
                for message in value if isinstance(value, list) else [value]:
                    self.notes.append(Note(True, message))
                    self._react(message)
        assert not rest or not self.is_whole, "the client tore a line"

    def ask(self, method: str, params: Any) -> str:
        """Ask the client something: the id."""
        self._asked += 1
        id = f"q{self._asked}"
        self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    def read_on(self) -> None:
        """Take what the client sends."""
        self._is_stalling = False
        self._client.release()

    # -- reactions

    def _react(self, message: dict[str, Any]) -> None:
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            return
        if id is not None:
            self._later(self._answer, id, method, params)
        elif method == "session/cancel":
            for prompt, session in list(self._prompts.items()):
                if session == params["sessionId"]:
                    self._later(self._end, prompt)
        elif method == "$/cancel_request" and not self._is_honest():
            self._later(self._respond, params["requestId"], self._wrong())

    def _answer(self, id: int, method: str, params: dict[str, Any]) -> None:
        if method == "session/prompt":
            self._prompts[id] = params["sessionId"]
            self._later(self._play, id, self._random.randint(0, 6))
        elif self._is_honest() or (method == "initialize" and self._random.random() < 0.8):
            self._respond(id, {"result": self._right(method, params)})
        else:
            self._misanswer(id, {"result": self._right(method, params)})

    def _misanswer(self, id: int, right: dict[str, Any]) -> None:
        match self._random.choice(("wrong", "never", "late", "twice", "other id", "batch")):
            case "wrong":
                self._respond(id, self._wrong())
            case "late":
                self._later(self._respond, id, right)
            case "twice":
                self._respond(id, right)
                self._respond(id, self._random.choice((right, self._wrong())))
            case "other id":
                self._respond(self._random.choice((str(id), float(id), id + 1000, None)), right)
            case "batch":
                note = Note(False, {"jsonrpc": "2.0", "id": id, **right})
                self._put(b"[" + note.line + b",1]", note)
            case _:
                pass

    def _right(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            return {"protocolVersion": 1, "agentCapabilities": EVERYTHING}
        if method == "session/new":
            if self._random.random() > 0.1:
                self._sessions += 1
            return {"sessionId": f"s{self._sessions}"}
        if method in ("session/load", "session/resume"):
            self._say(params["sessionId"], 3)
        return {"sessions": [], "configOptions": []}

    def _play(self, id: int, steps: int) -> None:
        session = self._prompts.get(id)
        if session is None:
            return
        if steps:
            self._act(session)
            self._later(self._play, id, steps - 1)
        elif self._is_honest():
            self._end(id, "end_turn")
        else:
            self._misanswer(id, {"result": {"stopReason": "end_turn"}})

    def _end(self, id: int, reason: str = "cancelled") -> None:
        if self._prompts.pop(id, None) is None:
            return
        right = {"result": {"stopReason": reason}}
        self._respond(id, right) if self._is_honest() else self._misanswer(id, right)

    # -- of its own accord

    async def _chaos(self) -> None:
        for _ in range(self._random.randint(0, 12)):
            await anyio.sleep(self._random.choice(DELAYS))
            self._act(f"s{self._random.randint(0, self._sessions + 1)}")
            if self._random.random() < self._mortality and self.is_whole and not self.is_calm:
                self._die()

    def _act(self, session: str) -> None:
        if self.is_calm:
            return
        match self._random.choice(
            ("say", "say", "say", "flood", "garbage", "half", "ask", "ask", "ask", "cancel", "stall")
        ):
            case "say":
                self._say(session, 1)
            case "flood":
                self._say(session, self._random.randint(10, 60))
            case "garbage":
                self._put(self._random.choice(_GARBAGE))
            case "half":
                self._hold()
                self._say(session, 2)
            case "ask":
                self._ask(session)
            case "stall":
                if not self._is_stalling:
                    self._is_stalling = True
                    self._client.stall_sending(self._random.randint(0, 500))
                    self._later(self.read_on)
            case _:
                number = self._random.randint(1, self._asked + 1)
                self._send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": f"q{number}"}})

    def _ask(self, session: str) -> None:
        both = {"sessionId": session, "terminalId": "t", "path": "/x", "content": "y", "command": "z", "message": "m"}
        form = {"mode": "form", "requestedSchema": {"type": "object", "properties": {}}}
        asks: list[tuple[str, Any]] = [
            ("session/request_permission", permission(session)),
            ("session/request_permission", permission(session)),
            ("elicitation/create", both | form),
            ("_echo", {"n": 1}),
            ("_no/such", {}),
            *((f"fs/{name}_text_file", both) for name in ("read", "write")),
            *((f"terminal/{name}", both) for name in ("create", "output", "wait_for_exit", "kill", "release")),
        ]
        method, params = self._random.choice(asks)
        self.ask(method, self._random.choice((params, params, params, {}, [1])))

    def _say(self, session: str, count: int) -> None:
        for _ in range(count):
            self._updates += 1
            note = Note(False, shown(said(str(self._updates)), session), self._updates)
            self._put(note.line, note)

    def _die(self) -> None:
        self.is_whole = False
        match self._random.choice(ENDS):
            case "end_input":
                self._client.end_input()
            case "fail_reading":
                self._client.fail_reading(OSError("the pipe broke"))
            case "break_sending":
                self._client.break_sending(self._random.randint(0, 100))
            case "torn":
                self._stream.send_nowait(b'{"jsonrpc":"2.0","id":"torn","method":"_ec')
                self._client.end_input()
            case _:
                self._stream.send_eof()

    # -- the pipe

    def _is_honest(self) -> bool:
        return self.is_calm or self._random.random() < self._honesty

    def _wrong(self) -> dict[str, Any]:
        return self._random.choice(_WRONG)

    def _respond(self, id: Any, outcome: dict[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", "id": id, **outcome})

    def _send(self, message: dict[str, Any]) -> None:
        note = Note(False, message)
        self._put(note.line, note)

    def _put(self, line: bytes, note: Note | None = None) -> None:
        if self._waiting is not None:
            self._waiting.append((line, note))
            return
        if note is not None:
            self.notes.append(note)
        data = line + b"\n"
        cut = self._random.randint(0, len(data)) if self._random.random() < 0.2 else 0
        for piece in (data[:cut], data[cut:]):
            try:
                self._stream.send_nowait(piece)
            except anyio.BrokenResourceError:
                self.is_whole = False

    def _hold(self) -> None:
        """Half a line now; the rest, and what comes behind it, later."""
        if self._waiting is None and self.is_whole:
            self._stream.send_nowait(b'{"jsonrpc":"2.0","method":"_note",')
            self._waiting = [(b'"params":{}}', None)]
            self._later(self._let_go)

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for line, note in waiting:
            self._put(line, note)

    def _later(self, function: Any, *args: Any) -> None:
        assert self._group is not None
        self._group.start_soon(self._after, self._random.choice(DELAYS), function, args)

    async def _after(self, seconds: float, function: Any, args: tuple[Any, ...]) -> None:
        await anyio.sleep(seconds)
        function(*args)
