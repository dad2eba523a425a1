"""Run the client on the TypeScript SDK through a plan, and read what it saw.

`node/plan.js` says what a plan is. Every run is checked for what must hold whatever the plan was: see `_check`.
"""

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from .subjects import HERE, assert_quiet, no_orphans

Message: TypeAlias = dict[str, Any]
Turn: TypeAlias = dict[str, Any]

NODE = HERE / "node"
_SECONDS = 50  # the driver's own bounds are tighter
_OF_A_TURN = {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}


@dataclass(frozen=True)
class Ended:
    """How one turn ended, and what the agent had said in it."""

    text: str
    stop_reason: str | None
    code: int | None
    said: str


@dataclass(frozen=True)
class Run:
    """What the client observed, in order."""

    observations: list[Message]
    stderr: str
    sessions: list[str] = field(default_factory=list[str])

    def of(self, event: str) -> list[Message]:
        return [one for one in self.observations if one["event"] == event]

    def received(self, method: str) -> list[Message]:
        """Parameters of the requests and notifications of the agent."""
        return [m["params"] for m in self._messages("received") if m.get("method") == method]

    def sent(self, method: str) -> list[Message]:
        """Parameters of the requests and notifications of the client."""
        return [m["params"] for m in self._messages("sent") if m.get("method") == method]

    def updates(self, kind: str) -> list[Message]:
        updates = [params["update"] for params in self.received("session/update")]
        return [update for update in updates if update["sessionUpdate"] == kind]

    def withdrawn(self) -> list[str]:
        """Methods of the agent's requests whose handlers saw their signal abort."""
        return [one["method"] for one in self.of("withdrawn")]

    def turns(self, session: int = 0) -> list[Ended]:
        wanted, ended, said = self.sessions[session], list[Ended](), ""
        for one in self.observations:
            if one["event"] in {"answer", "refusal"} and one["sessionId"] == wanted:
                ended.append(Ended(one["text"], one.get("stopReason"), one.get("code"), said))
                said = ""
            elif one["event"] == "received" and _session(one["message"]) == wanted:
                said += _chunk(one["message"])
        return ended

    def _messages(self, direction: str) -> list[Message]:
        return [one["message"] for one in self.of(direction)]


class Host:
    """A process that carries out one plan after the other; made by `hosting`."""

    def __init__(self, process: "subprocess.Popen[str]", log: Any) -> None:
        self._process = process
        self._log = log

    def drive(self, version: int | str, plan: Message, command: Sequence[str]) -> tuple[list[Message], str]:
        """What was observed while a plan was carried out, to its end, and what was written to standard error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        observations: list[Message] = []
        with no_orphans() as mark, _ended_after(_SECONDS, self._process):
            order = {"version": version, "plan": plan, "command": command, "env": mark}
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                observations.append(json.loads(line))
                if observations[-1]["event"] == "done":
                    break
        said = self._log.read().decode()
        assert observations, said
        done = observations.pop()
        assert done == {"event": "done", "code": 0}, (observations[-3:], done, said)
        return observations, said


@contextmanager
def _ended_after(seconds: float, process: "subprocess.Popen[str]") -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


_host: Host | None = None


@contextmanager
def hosting() -> Iterator[Host]:
    """Carry out the plans in this block in one process, for to load the SDK takes longer than most plans."""
    global _host
    pipe = subprocess.PIPE
    with (
        tempfile.NamedTemporaryFile() as log,
        open(log.name, "rb") as said,
        subprocess.Popen(["node", "host.js"], cwd=NODE, stdin=pipe, stdout=pipe, stderr=log, text=True) as process,
    ):
        _host = Host(process, said)
        try:
            yield _host
        finally:
            _host = None


def observed(version: int | str, plan: Message, command: Sequence[str]) -> tuple[list[Message], str]:
    """See `Host.drive`; by the host of the block, or by one of its own."""
    if _host is not None:
        return _host.drive(version, plan, command)
    with hosting() as host:
        return host.drive(version, plan, command)


def drive(command: Sequence[str], cwd: Path, *sessions: Sequence[Turn], **options: str | bool | dict[str, str]) -> Run:
    """Carry out a plan: one list of turns a session. `options` are the plan's own, such as `permission`."""
    observations, said = observed(1, {"cwd": str(cwd), "sessions": sessions, **options}, command)
    opened = [one["message"]["result"] for one in observations if _is_result(one, "sessionId")]
    run = Run(observations, said, [result["sessionId"] for result in opened])
    _check(run)
    return run


def _check(run: Run) -> None:
    assert_quiet(run.stderr)
    assert run.of("exit") == [{"event": "exit", "code": 0, "signal": None}]
    assert run.of("disposed") == [{"event": "disposed", "unreleased": []}]
    _check_answers(run)
    _check_withdrawals(run)
    _check_updates(run)


def _check_answers(run: Run) -> None:
    """Every request of the client has exactly one answer."""
    asked = [m["id"] for m in run._messages("sent") if "method" in m and "id" in m]
    answered = [m["id"] for m in run._messages("received") if "method" not in m]
    assert sorted(asked) == sorted(answered)


def _check_withdrawals(run: Run) -> None:
    """Each withdrawal names a request that the agent had sent before, and none is withdrawn twice."""
    sent: set[object] = set()
    for message in run._messages("received"):
        if message.get("method") == "$/cancel_request":
            sent.remove(message["params"]["requestId"])
        elif "method" in message and "id" in message:
            sent.add(message["id"])


def _check_updates(run: Run) -> None:
    """What belongs to a turn comes between the prompt and its answer."""
    running: dict[object, str] = {}
    for one in run.observations:
        message = one.get("message", {})
        if one["event"] == "sent" and message.get("method") == "session/prompt":
            running[message["id"]] = message["params"]["sessionId"]
        elif one["event"] == "received" and "method" not in message:
            running.pop(message["id"], None)
        elif one["event"] == "received" and _kind(message) in _OF_A_TURN:
            assert _session(message) in running.values(), message


def _is_result(observation: Message, key: str) -> bool:
    return observation["event"] == "received" and key in (observation["message"].get("result") or {})


def _session(message: Message) -> str | None:
    return message.get("params", {}).get("sessionId")


def _kind(message: Message) -> str | None:
    return message.get("params", {}).get("update", {}).get("sessionUpdate")


def _chunk(message: Message) -> str:
    if _kind(message) != "agent_message_chunk":
        return ""
    return message["params"]["update"]["content"].get("text", "")
