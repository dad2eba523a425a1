"""An agent with bad manners, in bare Python: `wayward.py LOG CAPABILITY...`. It numbers its sessions from 1 in a run;
LOG gets what it is asked for, and at its start `start PID`.

A prompt is answered with all that its session was prompted with, except:

    block       the agent reads nothing more, for ever
    nap N       is answered after N seconds, in which the agent reads nothing
    hang        is not answered, not even when it is cancelled
    late        is answered when it is cancelled, but only behind the next request
    ask         asks for permission, and is answered when it has it
    die         ends the agent
    long        is answered with one update of 33 MiB

`chatter N` says N pieces, one in 20 ms, in a thread. With the capability `hold` the answers to `session/load`,
`session/resume` and `session/delete` are held until SIGUSR1; with `refuse` they are errors. With `one` all sessions are
one; with `deaf` the agent ends by force only. What was said in a session is kept in LOG.said, for later runs.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

log, *capabilities = sys.argv[1:]
kept = Path(log + ".said")
said: dict[str, list[str]] = {}
opened = 0
hanging: dict[str, Any] = {}
asking: dict[str, Any] = {}
late: list[Any] = []
held: list[Any] = []
lock = threading.Lock()


def note(line: str) -> None:
    with open(log, "a") as file:
        file.write(line + "\n")


def send(**message: Any) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def say(session: str, text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": session, "update": update})


def chatter(id: Any, session: str, pieces: int) -> None:
    for number in range(pieces):
        say(session, f"{number} ")
        time.sleep(0.02)
    send(id=id, result={"stopReason": "end_turn"})


def prompted(id: Any, session: str, texts: list[str]) -> None:
    said[session] += texts
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {session: said[session]}))
    word, _, rest = texts[-1].partition(" ")
    note(f"does {texts[-1]}")
    if word == "block":
        time.sleep(3600)
    if word == "nap":
        time.sleep(float(rest))
    if word == "die":
        os._exit(1)
    if word == "long":
        say(session, "x" * (33 << 20))
    if word in ("hang", "late"):
        hanging[session] = (word, id)
    elif word == "chatter":
        threading.Thread(target=chatter, args=(id, session, int(rest)), daemon=True).start()
    elif word == "ask":
        asking[f"ask {session}"] = (id, session)
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        call = {"toolCallId": "t", "title": "Do it"}
        params = {"sessionId": session, "toolCall": call, "options": options}
        send(id=f"ask {session}", method="session/request_permission", params=params)
    else:
        say(session, f"[{session}] " + " | ".join(said[session]))
        send(id=id, result={"stopReason": "end_turn"})


def asked(id: Any, method: str, session: str, params: dict[str, Any]) -> None:
    global opened
    if method == "initialize":
        names = ("close", "delete", "resume")
        able = {"loadSession": "load" in capabilities}
        able |= {"sessionCapabilities": {name: {} for name in names if name in capabilities}}
        send(id=id, result={"protocolVersion": 1, "agentCapabilities": able})
    elif method == "session/new":
        opened = 1 if "one" in capabilities else opened + 1
        said.setdefault(str(opened), [])
        send(id=id, result={"sessionId": str(opened)})
    elif method == "session/prompt":
        prompted(id, session, [block["text"] for block in params["prompt"]])
    elif method in ("session/load", "session/resume", "session/delete"):
        answer: dict[str, Any] = {"id": id, "result": {}}
        if "refuse" in capabilities:
            answer = {"id": id, "error": {"code": -32002, "message": "no such session"}}
        elif method == "session/delete":
            said.pop(session, None)
        else:
            said.setdefault(session, json.loads(kept.read_text()).get(session, []))
        if "hold" in capabilities:
            held.append(answer)
        else:
            send(**answer)
    elif method == "session/close":
        send(id=id, result={})
    else:
        send(id=id, error={"code": -32601, "message": "Method not found"})
        for answered in late:
            send(id=answered, result={"stopReason": "cancelled"})
        late.clear()


def answer_held() -> None:
    """Answer what is held at each SIGUSR1. A handler in Python would wait for the read of the main thread."""
    while signal.sigwait({signal.SIGUSR1}):
        answer_now()


def answer_now() -> None:
    while held:
        send(**held.pop(0))


def main() -> None:
    if not kept.exists():
        kept.write_text("{}")
    if "hold" in capabilities:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        threading.Thread(target=answer_held, daemon=True).start()
    note(f"start {os.getpid()}")
    if "deaf" in capabilities:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        session = params.get("sessionId", "")
        if method is None:
            if id in asking:
                done, session = asking.pop(id)
                say(session, "done")
                send(id=done, result={"stopReason": "end_turn"})
            continue
        note(f"{method} {session}".rstrip())
        if id is not None:
            asked(id, method, session, params)
        elif method == "session/cancel" and hanging.get(session, ("",))[0] == "late":
            late.append(hanging.pop(session)[1])
    while "deaf" in capabilities:
        time.sleep(3600)


if __name__ == "__main__":
    main()
