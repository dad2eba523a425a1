"""What the client of a storm does: one step after the other, each drawn by lot, until the lot is cast on the end."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.storm.client import Asked, RawClient, Sent
from tests.storm.plans import Plan, Planner

GARBAGE = (b"\n", b"garbage\n", b'{"jsonrpc": "2.0", "method\n', b"\xff\xfe\n", b"[]\n", b"[1]\n", b"null\n", b"{}\n")
BAD_CANCELS: tuple[Any, ...] = (None, [], {}, {"requestId": None}, {"requestId": 1.5}, {"requestId": "unknown"}, 7)
RIGHT: dict[str, Any] = {
    "fs/read_text_file": {"content": "text"},
    "fs/write_text_file": {},
    "elicitation/create": {"action": "decline"},
    "terminal/wait_for_exit": {"exitCode": 0},
    "terminal/output": {"output": "", "truncated": False},
}
WRONG: tuple[Any, ...] = (
    {"result": None},
    {"result": "text"},
    {"result": {"content": 7, "terminalId": 7, "outcome": 7, "action": 7}},
    {"error": {"code": -32800, "message": "cancelled"}},
    {"error": {"code": -32000, "message": "no"}},
    {"error": "no"},
    {"result": 1, "error": {"code": 1, "message": "both"}},
)


class Scenario:
    """The client's part, in single steps. It sends nothing itself: what it says is in the outbox of `client`."""

    def __init__(self, random: Random, planner: Planner, client: RawClient, version: int = 1) -> None:
        self._random = random
        self._planner = planner
        self._client = client
        self._version = version
        self._count = 0
        self._last: Sent | None = None
        self.sessions: list[str] = []
        """Those that the agent has opened."""
        self.touched: set[str] = set()
        """Those whose life was tampered with: closed, deleted, loaded, resumed."""
        self.terminals: dict[str, Asked] = {}
        """Those that were made for the agent, by their ids."""
        self.waiting: list[Asked] = []
        """Requests of the agent's that may still get an answer."""

    # -- the agent's requests

    def asked(self, asked: Asked) -> None:
        """The agent asks: it is answered at once, later, or never."""
        fate = self._random.random()
        if fate < 0.35 and not asked.method.startswith("session/"):
            self.answer(asked)
        elif fate < 0.9:
            self.waiting.append(asked)

    def answer(self, asked: Asked, kind: str | None = None) -> None:
        """Answer it: `right`, `wrong`, `twice`, or by lot."""
        kind = kind or self._random.choices(("right", "wrong", "twice"), (8, 2, 1))[0]
        if kind == "wrong":
            self._client.answer(asked, self._random.choice(WRONG))
            return
        for _ in range(2 if kind == "twice" else 1):
            self._client.answer(asked, {"result": self._right(asked)})

    def _right(self, asked: Asked) -> Any:
        if asked.method == "session/request_permission":
            options = [option["optionId"] for option in asked.params["options"]]
            weights = {"allow_once": 6, "yes": 6, "reject_once": 2, "reject_always": 1, "allow_always": 1}
            choice = self._random.choices([*options, "unknown"], [*(weights[id] for id in options), 1])[0]
            if self._random.random() < 0.1:
                return {"outcome": {"outcome": "cancelled"}}
            return {"outcome": {"outcome": "selected", "optionId": choice}}
        if asked.method == "terminal/create":
            id = f"terminal-{asked.message['id']}"
            self.terminals[id] = asked
            return {"terminalId": id}
        return RIGHT.get(asked.method, {})

    # -- steps

    def step(self) -> None:
        """One thing that a client does."""
        steps: dict[Callable[[], object], int] = {
            self._prompt: 10,
            self._method: 5,
            self._session: 2,
            self._life: 2,
            self._session_cancel: 4,
            self._child_cancel: 3,
            self._cancel: 6,
            self._cancel_badly: 2,
            self._cancel_again: 2,
            self._cancel_tool: 4,
            self._answer: 12,
            self._answer_nothing: 1,
            self._gates: 3,
            self._garbage: 1,
            self._duplicate: 1,
            self._batch: 1,
        }
        self._random.choices(list(steps), list(steps.values()))[0]()

    def next_id(self) -> Any:
        """A new id, of either type."""
        self._count += 1
        return self._count if self._count % 3 else f"id-{self._count}"

    def prompt_with(self, session: str, plan: Plan) -> Sent:
        """A prompt with this plan."""
        id = self.next_id()
        prompt = [{"type": "text", "text": json.dumps({"key": f"p{self._count}", "plan": plan})}]
        return self._client.request(id, "session/prompt", {"sessionId": session, "prompt": prompt})

    def cancel_all(self) -> None:
        """Cancel all that runs or waits."""
        for sent in self._client.open_requests():
            self._client.notify("$/cancel_request", {"requestId": sent.message["id"]})
        if self._version == 2:
            for session in self.sessions:
                self._client.notify("session/cancel", {"sessionId": session})

    def _prompt(self) -> None:
        session = self._random.choice([*self.sessions, *self.sessions, "unknown"])
        sent = self.prompt_with(session, self._planner.prompt())
        if self._random.random() < 0.1:
            self._cancel_of(sent.message["id"]) if self._random.random() < 0.5 else self._session_cancel(session)

    def _method(self) -> None:
        id = self.next_id()
        threaded = self._random.random() < 0.3
        params = {"key": f"m{self._count}", "plan": self._planner.thread() if threaded else self._planner.method()}
        self._client.request(id, "_storm/thread" if threaded else "_storm/play", params)
        if self._random.random() < 0.1:
            self._cancel_of(id)

    def _session(self) -> None:
        method = self._random.choice(("session/new", "session/list"))
        self._client.request(self.next_id(), method, {"cwd": "/", "mcpServers": []})

    def _life(self) -> None:
        method = self._random.choice(("load" if self._version == 1 else "resume", "resume", "close", "delete"))
        session = self._random.choice([*self.sessions, "unknown"])
        self.touched.add(session)
        params: dict[str, Any] = {"sessionId": session}
        if method in ("load", "resume"):
            params |= {"cwd": "/", "mcpServers": []}
            if self._version == 2 and self._random.random() < 0.5:
                params["replayFrom"] = {"type": "start"}
        self._client.request(self.next_id(), f"session/{method}", params)

    def _session_cancel(self, session: str | None = None) -> None:
        session = session or self._random.choice([*self.sessions, "unknown"])
        self._last = self._client.notify("session/cancel", {"sessionId": session})

    def _child_cancel(self) -> None:
        """Cancel one of the newest child sessions; it may have ended."""
        children = [
            update["sessionId"]
            for received in self._client.updates()
            if (update := received.message["params"]["update"]).get("sessionUpdate") == "subagent_update"
        ]
        if children:
            self._session_cancel(self._random.choice(children[-4:]))

    def _cancel_of(self, id: Any) -> None:
        self._last = self._client.notify("$/cancel_request", {"requestId": id})

    def _cancel(self) -> None:
        open_requests = self._client.open_requests()
        if open_requests:
            self._cancel_of(self._random.choice(open_requests).message["id"])

    def _cancel_badly(self) -> None:
        """Nothing that is running has this id."""
        answered = [sent.message["id"] for sent in self._client.requests if sent.message["id"] in self._client.answers]
        running = [sent.message["id"] for sent in self._client.open_requests()]
        # A number as text, and text that is no id.
        others = [str(id) if isinstance(id, int) else f"{id} " for id in running]
        if answered and self._random.random() < 0.4:
            self._cancel_of(self._random.choice(answered))
        elif others and self._random.random() < 0.6:
            self._cancel_of(self._random.choice(others))
        else:
            self._client.notify("$/cancel_request", self._random.choice(BAD_CANCELS))

    def _cancel_again(self) -> None:
        if self._last is not None:
            self._client.say(self._last.message)

    def _cancel_tool(self) -> None:
        calls = [
            (update.message["params"]["sessionId"], update.message["params"]["update"]["toolCallId"])
            for update in self._client.updates()
            if update.message["params"]["update"].get("status") == "pending"
        ]
        session, call = self._random.choice(calls[-4:]) if calls else ("unknown", "unknown")
        params = {"sessionId": session, "toolCallId": call}
        self._client.request(self.next_id(), "_tool_call/cancel" if self._version == 1 else "tool_call/cancel", params)

    def _answer(self) -> None:
        if self.waiting:
            # The last ones too, so that some wait long and are answered late.
            self.answer(self.waiting.pop(self._random.randrange(len(self.waiting))))

    def _answer_nothing(self) -> None:
        id = self._random.choice((10_000, "0", None, -1))
        self._client.say({"jsonrpc": "2.0", "id": id, "result": {}})

    def _gates(self) -> None:
        self._client.notify("_storm/gates", {})

    def _garbage(self) -> None:
        self._client.say_raw(self._random.choice(GARBAGE))

    def _duplicate(self) -> None:
        open_requests = self._client.open_requests()
        if open_requests:
            id = self._random.choice(open_requests).message["id"]
            self._client.request(id, "_storm/play", {"key": f"d{id}", "plan": []})

    def _batch(self) -> None:
        # What a batch holds is answered together; cancels in it are applied in order, too.
        self._client.say_raw(b'[{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "none"}}]\n')
