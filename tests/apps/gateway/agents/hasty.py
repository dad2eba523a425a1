"""An agent that asks for permission and ends its turn without an answer, when there is a folder `go`: then it talks
before. It uses nothing but the protocol.
"""

import json
import os
import sys
import time
from typing import Any


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]

for line in sys.stdin:
    message = json.loads(line)
    results = {"initialize": {"protocolVersion": 1, "agentCapabilities": {}}, "session/new": {"sessionId": "s"}}
    if message.get("method") == "session/prompt":
        call = {"toolCallId": "t", "title": "Delete files"}
        send(
            id="q", method="session/request_permission", params={"sessionId": "s", "toolCall": call, "options": OPTIONS}
        )
        while not os.path.exists("go"):
            time.sleep(0.01)
        for number in range(20):
            content = {"type": "text", "text": f"{number} ".ljust(10_000)}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            send(method="session/update", params={"sessionId": "s", "update": update})
        results["session/prompt"] = {"stopReason": "end_turn"}
    if (result := results.get(message.get("method"))) is not None:
        send(id=message["id"], result=result)
