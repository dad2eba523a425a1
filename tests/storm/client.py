"""The raw end of the wire: it sends what it is told to, byte by byte if need be, and keeps what it has seen."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.storm.journal import Journal, Note

Message = dict[str, Any]


@dataclass(eq=False)
class Sent:
    """A message that went out. `end`: the number of bytes that the agent has read when it has read this."""

    message: Message
    end: int
    note: Note


@dataclass(eq=False)
class Received:
    """A message that came in."""

    message: Message
    note: Note


@dataclass(eq=False)
class Asked:
    """A request of the agent's."""

    message: Message
    note: Note
    answers: list[Sent] = field(default_factory=list)
    withdrawn: list[Note] = field(default_factory=list)

    @property
    def method(self) -> str:
        return self.message["method"]

    @property
    def params(self) -> Any:
        return self.message.get("params")


class RawClient:
    """What is said is kept in `outbox` until it is flushed. `on_ask` is told of each request of the agent's."""

    def __init__(self, journal: Journal, on_ask: Callable[[Asked], None]) -> None:
        self.journal = journal
        self.sent: list[Sent] = []
        self.requests: list[Sent] = []
        self.received: list[Received] = []
        self.answers: dict[Any, list[Received]] = {}
        self.asked: dict[int, Asked] = {}
        self.torn: list[bytes] = []
        """Lines that are no messages."""
        self.unread = b""
        """What came behind the last whole line."""
        self.outbox = b""
        self._said = 0
        self._on_ask = on_ask

    # -- out

    def say(self, message: Message) -> Sent:
        """Put a message into the outbox."""
        sent = Sent(
            message, self.say_raw(json.dumps(message).encode() + b"\n"), self.journal.note("sent", more=message)
        )
        self.sent.append(sent)
        if "method" in message and "id" in message:
            self.requests.append(sent)
        return sent

    def say_raw(self, data: bytes) -> int:
        """Put bytes into the outbox: how many were said altogether."""
        self.outbox += data
        self._said += len(data)
        return self._said

    def request(self, id: Any, method: str, params: Any) -> Sent:
        """Put a request into the outbox."""
        return self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def notify(self, method: str, params: Any) -> Sent:
        """Put a notification into the outbox."""
        return self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, asked: Asked, outcome: Message) -> None:
        """Answer a request of the agent's, be it for the second time. `outcome`: `result` or `error`."""
        asked.answers.append(self.say({"jsonrpc": "2.0", "id": asked.message["id"], **outcome}))

    def flush(self) -> bytes:
        """Take what is in the outbox."""
        data, self.outbox = self.outbox, b""
        return data

    # -- in

    def feed(self, data: bytes) -> None:
        """Bytes have come in."""
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                self.torn.append(line)
                continue
            for single in message if isinstance(message, list) else [message]:
                self._hear(single)

    def _hear(self, message: Message) -> None:
        note = self.journal.note("received", more=message)
        self.received.append(Received(message, note))
        if "method" not in message:
            data = message.get("error", {}).get("data")
            duplicate = data.get("duplicateId") if isinstance(data, dict) else None
            id = message["id"] if duplicate is None else ("duplicate", duplicate)
            self.answers.setdefault(id, []).append(self.received[-1])
        elif "id" in message:
            asked = self.asked[message["id"]] = Asked(message, note)
            self._on_ask(asked)
        elif message["method"] == "$/cancel_request":
            self.asked[message["params"]["requestId"]].withdrawn.append(note)

    # -- what is known

    def open_requests(self) -> list[Sent]:
        """Requests without an answer."""
        return [sent for sent in self.requests if sent.message["id"] not in self.answers]

    def updates(self) -> list[Received]:
        """All session updates."""
        return [received for received in self.received if received.message.get("method") == "session/update"]
