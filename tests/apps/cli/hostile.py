"""An agent that puts into each field that a client may show what steers a terminal and what looks like a line of the
client's own or of a log.

It speaks JSON by itself, for the library would not let it.
"""

import json
import sys
from typing import Any

STEER = "\x1b]52;c;aGVsbG8=\x07\x1b[2J\x9b31m\x85\u2028\u202eevil\u2066\ud800"
FORGED = "FORGED"
EVIL = f"{STEER}\n{FORGED}\r{FORGED}\r\n{FORGED} "
"""In what is shown on one line."""


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)


def complain() -> None:
    sys.stderr.buffer.write(STEER.encode(errors="surrogatepass") + b"\r" + FORGED.encode() + b"\n")
    sys.stderr.flush()


def update(kind: str, /, **rest: Any) -> None:
    send(method="session/update", params={"sessionId": EVIL, "update": {"sessionUpdate": kind, **rest}})


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def turn(id: Any) -> None:
    for kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        update(kind, content={"type": "text", "text": STEER + "\r"})
        update(kind, content={"type": "resource_link", "name": EVIL, "uri": STEER})
        update(kind, content={"type": STEER, "uri": STEER})
    entry = {"content": EVIL, "priority": EVIL, "status": EVIL}
    update("plan", entries=[entry, {**entry, "priority": "high", "status": "pending"}])
    update("current_mode_update", currentModeId=EVIL)
    update("session_info_update", title=EVIL)
    update("config_option_update", configOptions=[{"id": EVIL, "name": EVIL, "type": EVIL}])
    commands = [{"name": EVIL, "description": EVIL, "input": {"hint": EVIL}}]
    update("available_commands_update", availableCommands=commands)
    update(EVIL, what=EVIL)
    call = {
        "toolCallId": EVIL,
        "title": EVIL,
        "locations": [{"path": EVIL, "line": 1}],
        "content": [
            text(f"{STEER}\r{STEER}"),
            {"type": "diff", "path": STEER, "oldText": f"{STEER}\n", "newText": f"{STEER}\r\n{STEER}"},
            {"type": "terminal", "terminalId": EVIL},
        ],
    }
    update("tool_call", status="pending", kind="other", **call)
    update("tool_call_update", **{**call, "status": EVIL})
    update("tool_call_update", toolCallId=EVIL, rawOutput=EVIL, status="completed", content=[text(STEER)])
    options = [{"optionId": EVIL, "name": EVIL, "kind": "allow_once"}]
    ask = {"sessionId": EVIL, "toolCall": {**call, "toolCallId": "other"}, "options": options}
    send(id=EVIL, method="session/request_permission", params=ask)
    assert receive()["id"] == EVIL
    for method in (EVIL, "terminal/create", "fs/read_text_file"):
        send(id=f"{method}{EVIL}", method=method, params={"path": EVIL, "command": EVIL, "sessionId": EVIL})
        receive()
    send(method=EVIL, params=EVIL)
    send(id="nothing that was asked", result=EVIL)
    complain()


def main() -> None:
    complain()
    how = sys.argv[1]
    turns = 0
    while True:
        message = receive()
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            who = {"name": EVIL, "title": EVIL, "version": EVIL}
            methods = [{"id": EVIL, "name": EVIL, "description": EVIL}] if how == "log in" else []
            send(id=id, result={"protocolVersion": 1, "agentInfo": who, "authMethods": methods})
        elif method == "authenticate":
            how = "talk"
            send(id=id, result={})
        elif method == "session/new":
            if how == "log in":
                send(id=id, error={"code": -32000, "message": EVIL, "data": EVIL})
            elif how == "refuse":
                send(id=id, error={"code": -32603, "message": EVIL, "data": {EVIL: EVIL}})
            else:
                mode = {"id": EVIL, "name": EVIL, "description": EVIL}
                modes = {"currentModeId": EVIL, "availableModes": [mode]}
                send(id=id, result={"sessionId": EVIL, "modes": modes})
        elif method == "session/prompt":
            turns += 1
            turn(id)
            if turns == 1:
                send(id=id, result={"stopReason": EVIL})
            elif turns == 2:
                send(id=id, result=EVIL)
            elif turns == 3:
                send(id=id, error={"code": -1, "message": EVIL, "data": EVIL})
            else:
                sys.exit(f"{STEER}\r{FORGED}")


if __name__ == "__main__":
    main()
