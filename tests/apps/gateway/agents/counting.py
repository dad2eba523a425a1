"""An agent that numbers its sessions from 1 in each run, and keeps nothing for the next one. It uses nothing but the
protocol, and announces what it is told to: `counting.py LOG CAPABILITY...`. What it is asked for is in the log.

A prompt is answered with the session's number and all that it was prompted with. `die` ends the agent; `hang` is not
answered, not even when it is cancelled; `think` is answered by a thought and a message of other ids, `think only` by
the thought alone.
"""

import json
import sys
from typing import Any

log, *capabilities = sys.argv[1:]
said: dict[str, list[str]] = {}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(session: str, kind: str, text: str) -> None:
    shown = {"sessionUpdate": kind, "messageId": kind, "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": session, "update": shown})


def prompted(session: str, texts: list[str]) -> bool:
    said[session] += texts
    if texts[-1] == "die":
        sys.exit(1)
    if texts[-1] == "hang":
        return False
    if texts[-1].startswith("think"):
        update(session, "agent_thought_chunk", "hm")
    if texts[-1] != "think only":
        update(session, "agent_message_chunk", f"[{session}] " + " | ".join(said[session]))
    return True


def main() -> None:
    announced: dict[str, Any] = {name: {} for name in capabilities if name != "load"}
    able = {"loadSession": "load" in capabilities, "sessionCapabilities": announced}
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        session = str(params.get("sessionId", len(said) + 1))
        if method != "initialize":
            with open(log, "a") as file:
                file.write(f"{method} {session}\n")
        result: Any = {}
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": able}
        elif method in ("session/new", "session/load"):
            said.setdefault(session, [])
            result = {"sessionId": session} if method == "session/new" else {}
        elif method == "session/prompt":
            if not prompted(session, [block["text"] for block in params["prompt"]]):
                continue
            result = {"stopReason": "end_turn"}
        if "id" in message:
            send(id=message["id"], result=result)


if __name__ == "__main__":
    main()
