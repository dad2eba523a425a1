"""What was said between an editor and its agent, read from the agent's recording while it grows."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 30.0


class Wire:
    """The recording of one conversation, or of several one after the other."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begin = 0

    def lines(self) -> list[dict[str, Any]]:
        """What was said since `forget`."""
        if not self._file.exists():
            return []
        whole, _, _ = self._file.read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines() if line][self._begin :]

    def forget(self) -> None:
        """What was said so far is no more of interest."""
        self._begin += len(self.lines())

    def calls(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the requests and notifications of that method."""
        return [said["msg"].get("params") or {} for said in self.lines() if said.get("msg", {}).get("method") == method]

    def updates(self, kind: str) -> list[dict[str, Any]]:
        """The updates of that kind."""
        found = [params["update"] for params in self.calls("session/update")]
        return [update for update in found if update["sessionUpdate"] == kind]

    def text(self) -> str:
        """All that the agent has streamed."""
        return "".join(update["content"].get("text", "") for update in self.updates("agent_message_chunk"))

    def answers(self, method: str) -> list[dict[str, Any]]:
        """What requests of that method were answered: `result` or `error`, and `took` in seconds."""
        found: list[dict[str, Any]] = []
        open_: dict[tuple[str, Any], float] = {}
        for said in self.lines():
            message = said.get("msg", {})
            if message.get("method") == method and "id" in message:
                open_[said["dir"], message["id"]] = said["t"]
            elif "method" not in message and "id" in message:
                begun = open_.pop(("out" if said["dir"] == "in" else "in", message["id"]), None)
                if begun is not None:
                    found.append({**message, "took": said["t"] - begun, "t": said["t"]})
        return found

    def until(self, seen: Callable[[], Any], what: object) -> Any:
        """Wait until something was said; what `seen` gives then."""
        end = time.monotonic() + PATIENCE
        while not (found := seen()):
            assert time.monotonic() < end, f"waited on the wire for {what}, heard {self.lines()[-12:]}"
            time.sleep(0.05)
        return found

    def prompt_ends(self) -> str:
        """Wait until a prompt is answered; its stop reason, or the error."""
        answer = self.until(lambda: self.answers("session/prompt"), "the end of the prompt")[-1]
        return answer["result"]["stopReason"] if "result" in answer else f"error: {answer['error']['message']}"

    def outcome(self) -> str:
        """How the last question was answered: `selected allow_once`, `cancelled` or the like."""
        answer = self.until(lambda: self.answers("session/request_permission"), "an answer to the question")[-1]
        outcome = answer.get("result", {}).get("outcome", {})
        return " ".join(filter(None, [outcome.get("outcome", "an error"), outcome.get("optionId")]))

    def stopped_within(self) -> float:
        """Seconds from `session/cancel` to the answer of the prompt."""
        told = [said["t"] for said in self.lines() if said.get("msg", {}).get("method") == "session/cancel"]
        return self.answers("session/prompt")[-1]["t"] - told[0]
