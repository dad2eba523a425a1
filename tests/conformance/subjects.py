"""Agents of a few lines, each hostile in its own way, and one that is merely small."""

import sys
from collections.abc import Mapping, Sequence

_SMALL = """
import json, os, signal, subprocess, sys, time

def write(message):
    os.write(1, json.dumps(message).encode() + b"\\n")

def answer(message):
    if message.get("method") == "initialize":
        capabilities = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "small", "version": "1"}}
        write({"jsonrpc": "2.0", "id": message["id"], "result": capabilities})
    elif "id" in message and "method" in message:
        write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}})

def serve():
    for line in sys.stdin:
        answer(json.loads(line))

def sleep():
    while True:
        time.sleep(100)

"""

HOSTILE: Mapping[str, str] = {
    "hangs": "sleep()",
    "exits at once": "sys.exit(3)",
    "logs to its output": "os.write(1, b'Starting up ...\\n'); serve()",
    "floods its output with garbage": "while True: os.write(1, b'\\xff\\x00\\n' * 20000)",
    "floods its output with messages": """
note = {"jsonrpc": "2.0", "method": "_note", "params": {"n": [1, 2, 3]}}
while True: os.write(1, json.dumps(note).encode() + b"\\n")
""",
    "writes one line without end": "while True: os.write(1, b'x' * 65536)",
    "answers without a newline": """
write = lambda message: os.write(1, json.dumps(message).encode())
serve()
""",
    "closes its output and lives": "os.close(1); sleep()",
    "closes all it has and lives": "os.close(0); os.close(1); os.close(2); sleep()",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "ends after its first answer": "answer(json.loads(sys.stdin.readline())); sys.exit(0)",
    "kills itself after its first answer": "answer(json.loads(sys.stdin.readline())); os.kill(os.getpid(), 9)",
    "stops reading after its first answer": "answer(json.loads(sys.stdin.readline())); sleep()",
    "ignores every signal and the end of input": """
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
serve(); sleep()
""",
    "leaves a child that holds its pipes": """
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN); sleep()
serve()
""",
    "leaves a child in a session of its own": """
if os.fork() == 0:
    os.setsid(); sleep()
serve()
""",
    "asks and asks": """
def answer(message, n=[0]):
    n[0] += 1
    write({"jsonrpc": "2.0", "id": n[0], "method": "fs/read_text_file", "params": {"sessionId": "x", "path": "/x"}})
answer({}); serve()
""",
}
"""Program text by what it does; `_SMALL` stands before it."""


def command(body: str = "serve()") -> Sequence[str]:
    """The command of an agent with this body; without one it answers initialize and refuses everything else."""
    return [sys.executable, "-S", "-c", _SMALL + body]


FLOODS_STDERR = """
if os.fork() == 0:
    while True: os.write(2, b"noise " * 10000)
serve()
"""
"""It is a nuisance and breaks no rule."""
