"""An agent that opens sessions and never answers a prompt, cancelled or not. It uses nothing but the protocol."""

import json
import sys

for number, line in enumerate(sys.stdin):
    message = json.loads(line)
    results = {"initialize": {"protocolVersion": 1, "agentCapabilities": {}}, "session/new": {"sessionId": str(number)}}
    if (result := results.get(message.get("method"))) is not None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
        sys.stdout.flush()
