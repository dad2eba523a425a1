"""An agent in a few lines of bare Python, good and bad: `fake.py MODE EAR`. EAR is a named pipe to the test."""

import json
import os
import signal
import sys
import time

MODE, EAR = sys.argv[1:3]


def tell(*words: object) -> None:
    with open(EAR, "w") as ear:
        ear.write(" ".join(map(str, words)) + "\n")


def warn(text: str) -> None:
    os.write(2, text.encode() + b"\n")


def out(**message: object) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def say(session: str, text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    out(method="session/update", params={"sessionId": session, "update": update})


def serve() -> None:
    turns: dict[str, object] = {}
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            out(id=id, result={"protocolVersion": 1})
        elif method == "session/new":
            out(id=id, result={"sessionId": "s"})
        elif method == "session/prompt":
            text = params["prompt"][0]["text"]
            for word in text.split():
                say(params["sessionId"], word)
            if text == "die":
                warn("out of tokens")
                os._exit(9)
            if text == "half":
                os.write(1, b'{"jsonrpc": "2.0", "id": %d, "resu' % id)
                os._exit(0)
            if text == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            while text == "flood":
                say(params["sessionId"], "x" * 1000)
            if text == "hang":
                turns[params["sessionId"]] = id
            else:
                out(id=id, result={"stopReason": "end_turn"})
        elif method == "session/cancel":
            out(id=turns.pop(params["sessionId"]), result={"stopReason": "cancelled"})
        elif method == "_where":
            out(id=id, result={"cwd": os.getcwd(), "x": os.environ.get("X"), "path": bool(os.environ.get("PATH"))})
        elif id is not None:
            out(id=id, error={"code": -32601, "message": "Method not found"})


if MODE == "dies at start":
    os.write(2, b"loading\ncannot find the model")
    sys.exit(3)
elif MODE == "mute":
    tell(os.getpid())
    for _ in sys.stdin:
        pass
elif MODE == "garbage":
    os.write(1, b'hello\n42\n[]\n\xff\xfe\n{"id": 5, "result": 1}\n{"a": NaN}\n"x"\n\n{}\n')
    serve()
elif MODE == "closes its output":
    os.close(1)
    tell(os.getpid())
    time.sleep(60)
elif MODE == "outlasts its input":
    tell(os.getpid())
    serve()
    tell("saw the end")
    time.sleep(60)
elif MODE == "takes its time":
    serve()
    tell("saw the end")
    time.sleep(0.2)
    tell("cleaned up")
elif MODE == "waits to be terminated":
    # A handler in Python may run only behind a sleep that begins as the signal arrives.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    tell(os.getpid())
    signal.sigwait({signal.SIGTERM})
    tell("terminated")
elif MODE == "long goodbye":
    serve()
    for n in range(2000):
        say("s", "x" * 1000)
        warn(f"bye {n}")
    tell("done")
elif MODE == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(os.getpid())
    serve()
    time.sleep(60)
elif MODE == "never reads":
    tell(os.getpid())
    time.sleep(60)
elif MODE == "wrapper":
    if child := os.fork():
        tell(os.getpid(), child)
        os.waitpid(child, 0)
    else:
        serve()
elif MODE == "wrapper that dies":
    if child := os.fork():
        tell(os.getpid(), child)
        os._exit(5)
    time.sleep(60)
elif MODE == "leaves a child":
    if child := os.fork():
        tell(os.getpid(), child)
        serve()
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
elif MODE == "talkative":
    for n in range(5000):
        warn(f"line {n}")
    serve()
else:
    tell(os.getpid())
    serve()
    tell("saw the end")
