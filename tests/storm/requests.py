"""What the oracle knows of each request of a storm: when it was heard, cancelled, begun, ended and answered."""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.storm.client import Received, Sent
from tests.storm.journal import Note
from tests.storm.prompts_v2 import ends
from tests.storm.story import Story

LIFE = ("session/load", "session/resume", "session/close", "session/delete")
NEVER = float("inf")

When = tuple[float, int]
"""A moment: the order of a note, and in a chunk the place of the message."""


@dataclass(frozen=True)
class Cut:
    """Something that cancels. `why`: `peer`, `session`, `interrupt`, `user`, `timeout`, or `end`."""

    why: str
    when: When
    time: float


@dataclass(eq=False)
class Request:
    """One request of the client's."""

    sent: Sent
    key: str
    heard: When
    answers: list[Received]
    begun: Note | None
    finished: Note | None
    inserted: Note | None = None
    """When its message became part of the conversation, of a prompt of version 2. Then `answers` has how it ended."""
    cuts: list[Cut] = field(default_factory=list)

    @property
    def id(self) -> Any:
        return self.sent.message["id"]

    @property
    def method(self) -> str:
        return self.sent.message["method"]

    @property
    def session(self) -> str | None:
        return self.sent.message["params"].get("sessionId")

    @property
    def finish(self) -> When:
        """When its handler ended."""
        return (self.finished.order, 0) if self.finished is not None else (NEVER, 0)

    @cached_property
    def cut(self) -> Cut | None:
        """The first thing that cancelled it before its handler was through."""
        answered = (self.answers[0].note.order, 0) if self.answers and self.finished is None else self.finish
        cuts = [cut for cut in self.cuts if self.heard < cut.when < answered]
        return min(cuts, key=lambda cut: cut.when, default=None)

    @property
    def outcome(self) -> Any:
        """Its answer: a result, or the code of an error."""
        message = self.answers[0].message
        return message["error"]["code"] if "error" in message else message["result"]

    def __str__(self) -> str:
        answer = json.dumps([received.message for received in self.answers])
        cut = self.cut and f"cancelled by {self.cut.why} at {self.cut.time:g} s"
        return f"{self.method} {self.id!r} ({self.key}; {cut or 'not cancelled'}; {self.finished}): {answer}"


class Requests:
    """All of one storm's, in the order in which they were heard."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._reads = story.journal.of("heard")
        self._read_lines = {} if story.transport is None else _matched(story.client.sent, self._reads)
        self._again: dict[str, list[Note]] = {}
        if story.transport == "http":
            for note in self._reads:
                self._again.setdefault(note.more, []).append(note)
        used = Counter(sent.message["id"] for sent in story.client.requests)
        self.repeated = {id for id, times in used.items() if times > 1}
        """Ids that were used more than once, whose answers cannot be told apart."""
        self._ends = ends(story.client) if story.version == 2 else {}
        self.all = [self._request(sent) for sent in story.client.requests if self.heard(sent)[0] < NEVER]
        for request in self.all:
            request.cuts = list(self._cuts(request))

    def heard(self, sent: Sent) -> When:
        """When the agent read it."""
        note = self.read(sent)
        return (note.order, sent.end) if note is not None else (NEVER, sent.end)

    def read(self, sent: Sent) -> Note | None:
        """The same as a note."""
        if self._story.transport is not None:
            return self._read_lines.get(sent.end)
        return next((note for note in self._reads if note.more >= sent.end), None)

    def single(self, *methods: str) -> list[Request]:
        """Those of these methods whose answers can be told from each other."""
        return [request for request in self.all if request.method in methods and request.id not in self.repeated]

    @property
    def end(self) -> Cut | None:
        """The end of the connection as something that cancels, at the earliest."""
        ended = self._story.ended
        return ended and Cut("end", (ended.order, 0), ended.time)

    def _request(self, sent: Sent) -> Request:
        key = key_of(sent.message)
        journal = self._story.journal
        finished = journal.first("returned", key) or journal.first("raised", key)
        answers = self._story.client.answers.get(sent.message["id"], [])
        inserted = journal.first("inserts", key) if sent.message["method"] == "session/prompt" else None
        if inserted is not None:
            end = self._ends.get(key)
            answers = [] if end is None else [end]
        return Request(sent, key, self.heard(sent), answers, journal.first("begin", key), finished, inserted)

    def _cuts(self, request: Request) -> Iterator[Cut]:
        in_session = request.method == "session/prompt"
        for sent in self._story.client.sent:
            message, note = sent.message, self.read(sent)
            if note is None or "method" not in message:
                continue
            if self._story.transport == "http" and (again := self._again.get(json.dumps(message))):
                # A cancel that overtook what it cancels goes out once more behind that.
                note = next((each for each in again if each.order > request.heard[0]), note)
            params = message["params"]
            method = message["method"]
            cut_at = ((note.order, sent.end), note.time)
            if method == "$/cancel_request" and isinstance(params, dict) and _is(params.get("requestId"), request.id):
                # A message that is part of the conversation stays there, and its work goes on.
                if request.inserted is None or cut_at[0] < (request.inserted.order, 0):
                    yield Cut("peer", *cut_at)
            elif in_session and method in ("session/cancel", *LIFE) and params["sessionId"] == request.session:
                yield Cut("session", *cut_at)
        for note in self._story.journal.of("interrupt"):
            if in_session:
                yield Cut("interrupt", (note.order, 0), note.time)
        for note in self._story.journal.of("stop"):
            why, session = note.more
            if in_session and session == request.session:
                yield Cut(why, (note.order, 0), note.time)


def key_of(message: dict[str, Any]) -> str:
    """The name of what a prompt or a method is to do."""
    params = message["params"]
    if message["method"] == "session/prompt":
        return json.loads(params["prompt"][0]["text"])["key"]
    return params.get("key", "")


def is_load(request: Request) -> bool:
    """Whether it asks for the history of a session."""
    return request.method == "session/load" or "replayFrom" in request.sent.message["params"]


def _is(id: Any, other: Any) -> bool:
    return type(id) is type(other) and id == other


def _matched(messages: list[Sent], reads: list[Note]) -> dict[int, Note]:
    """When each message was read, by their ends, where only the text of each line is known: remote transports keep the
    order of a session alone, and read some lines themselves."""
    left: dict[str, deque[Note]] = defaultdict(deque)
    for note in reads:
        left[note.more].append(note)
    return {sent.end: notes.popleft() for sent in messages if (notes := left[json.dumps(sent.message)])}
