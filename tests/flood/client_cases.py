"""The floods of a client. Each takes the process and how hard it is flooded, in the small or in full, checks what the
peer gets, and leaves the rest to be measured."""

from collections.abc import Callable
from pathlib import Path

from tests.flood.flooded import Flooded, notification, request, result

LARGE_FILE = 5_000_000


def large_file(wire: Flooded, full: bool) -> None:
    """A file of 5 MB is asked for again and again, and the answers are not read."""
    wire.begin()
    count = 600 if full else 16
    file = Path(wire.folder, "large.txt")
    file.write_text("x" * LARGE_FILE)
    asked = b"".join(request(n, "fs/read_text_file", sessionId="x", path=str(file)) for n in range(count))
    wire.cancel(asked, reading=False)
    wire.burn(0.3)
    wire.until(lambda: wire.got["result"] == count)
    wire.stop()


def endless_command(wire: Flooded, full: bool) -> None:
    """A command says `y` without end, and the agent wants to keep 1 TB of it."""
    wire.begin()
    limit = {"sessionId": "x", "outputByteLimit": 10**12}
    made = wire.ask("make", "terminal/create", command="yes", args=["y" * 1000], **limit)
    terminal = {"sessionId": "x", "terminalId": made["result"]["terminalId"]}
    wire.burn(8 if full else 0.2)
    wire.cancel()
    shown = wire.ask("show", "terminal/output", **terminal)["result"]
    assert shown["truncated"]
    assert len(shown["output"]) <= 1024 * 1024
    wire.ask("release", "terminal/release", **terminal)
    wire.stop()


def updates(wire: Flooded, full: bool) -> None:
    """Updates for sessions that are not open."""
    wire.begin()
    content = {"type": "text", "text": "x" * 1000}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    for n in range(60 if full else 1):
        some = (notification("session/update", sessionId=f"{n}/{i}", update=update) for i in range(10_000))
        wire.write(b"".join(some))
    wire.cancel()
    wire.stop()


def untaken_updates(wire: Flooded, full: bool) -> None:
    """Updates of a turn that the program does not take."""
    wire.write(request("prompt", "_prompt"))
    wire.until(lambda: bool(wire.asked))
    wire.write(result(wire.asked.popleft()["id"], {"sessionId": "x"}))
    wire.until(lambda: bool(wire.asked))
    asked = wire.asked.popleft()
    assert asked["method"] == "session/prompt"
    wire.noted.clear()
    wire.begin()
    for size, count in ((10, 200_000), (1000, 100_000), (100_000, 1000)) if full else ((10, 3000), (100_000, 30)):
        content = {"type": "text", "text": "x" * size}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        wire.write(notification("session/update", sessionId="x", update=update) * count)
    wire.cancel(result(asked["id"], {"stopReason": "end_turn"}))
    wire.until(lambda: "prompt" in wire.answers)
    assert "result" in wire.answers["prompt"]
    wire.stop()


def questions(wire: Flooded, full: bool) -> None:
    """Permission requests without end, which the user does not answer."""
    wire.begin()
    count = 100_000 if full else 3000
    ask = {"sessionId": "x", "toolCall": {"toolCallId": "x"}, "options": []}
    wire.cancel(b"".join(request(n, "session/request_permission", **ask) for n in range(count)))
    wire.finish()
    assert wire.got["-32603"] >= count - 100
    assert wire.got["-32603"] + wire.got["result"] + wire.got["-32800"] == count + 2


CASES: list[Callable[[Flooded, bool], None]] = [large_file, endless_command, updates, untaken_updates, questions]
