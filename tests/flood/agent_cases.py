"""The floods of an agent. Each takes the process and how hard it is flooded, in the small or in full, checks what the
peer gets, and leaves the rest to be measured."""

from collections.abc import Callable

from tests.flood.flooded import Flooded, notification, request

BAD = [b"x\n", b"1\n", b'{"jsonrpc":"2.0","method":"\n']
"""Lines that are no message: no JSON, no object, JSON that does not end."""

SETUP = {"cwd": "/tmp", "mcpServers": []}


def open_batches(wire: Flooded, full: bool) -> None:
    """Batches of one request that hangs and 999 members that are answered with an error."""
    wire.begin()
    batches = 8500 if full else 150
    member = b"," + b",".join([b"1"] * 999) + b"]\n"
    wire.cancel(b"".join(b"[" + request(n, "_hang").strip() + member for n in range(batches)))
    wire.finish()
    assert wire.got["batch"] == batches


def notifications(wire: Flooded, full: bool) -> None:
    """Small ones for a handler that hangs."""
    wire.begin()
    wire.cancel(notification("_slow") * (1_700_000 if full else 30_000))
    wire.stop()


def large_notifications(wire: Flooded, full: bool) -> None:
    """The same with 100 kB each."""
    wire.begin()
    one = notification("_slow", text="x" * 100_000)
    for _ in range(2000 if full else 15):
        wire.write(one * 10)
    wire.cancel()
    wire.stop()


def unread_answers(wire: Flooded, full: bool) -> None:
    """Small requests with answers of 1 MB that are not read."""
    wire.begin()
    count = 3000 if full else 120
    wire.cancel(b"".join(request(n, "_large") for n in range(count)), reading=False)
    wire.until(lambda: wire.got.total() > count)
    wire.stop()


def bad_lines(wire: Flooded, full: bool) -> None:
    """Lines that are no message, as many as fit into the pipe and more."""
    wire.begin()
    for line in BAD:
        data = line * ((1_000_000 if full else 200_000) // len(line))
        wire.cancel(data) if line is BAD[-1] else wire.write(data)
    if full:
        wire.stop()


def lines_that_do_not_end(wire: Flooded, full: bool) -> None:
    """Lines of one brace."""
    _many_bad(wire, b"{\n", full)


def numbers(wire: Flooded, full: bool) -> None:
    """JSON that is no object."""
    _many_bad(wire, b"1\n", full)


def small_batches(wire: Flooded, full: bool) -> None:
    """Batches of one member that is no message."""
    _many_bad(wire, b"[1]\n", full)


def large_batches(wire: Flooded, full: bool) -> None:
    """Batches of a thousand of them."""
    _many_bad(wire, b"[" + b",".join([b"1"] * 1000) + b"]\n", full)


def lines_that_look_like_messages(wire: Flooded, full: bool) -> None:
    """Lines that are no JSON, and have an id."""
    _many_bad(wire, b'{"id":}\n', full)


def answers_to_nothing(wire: Flooded, full: bool) -> None:
    """Responses to no request."""
    _many_bad(wire, b'{"id":1,"result":1}\n', full)


def _many_bad(wire: Flooded, line: bytes, full: bool) -> None:
    """More of them than are read ahead, for some seconds."""
    wire.begin()
    one = line * (1_000_000 // len(line))
    for _ in range(60 if full else 1):
        wire.write(one)
    wire.cancel(one)
    if full:
        wire.stop()


def hanging_requests(wire: Flooded, full: bool) -> None:
    """Requests that hang, with small ids; a session is closed behind them."""
    _hanging(wire, [request(n, "_hang") for n in range(20_000 if full else 2000)])


def hanging_long_ids(wire: Flooded, full: bool) -> None:
    """The same with ids of 16 kB."""
    _hanging(wire, [request(f"{n}{'x' * 16_000}", "_hang") for n in range(20_000 if full else 500)])


def _hanging(wire: Flooded, requests: list[bytes]) -> None:
    wire.ask("initialize", "initialize", protocolVersion=1)
    session = wire.ask("session", "session/new", **SETUP)["result"]["sessionId"]
    wire.begin()
    wire.write(b"".join(requests))
    assert "result" in wire.ask("close", "session/close", sessionId=session)
    wire.cancel()
    wire.finish()
    assert wire.got["-32800"] + wire.got["-32603"] == len(requests) + 2
    assert wire.got["result"] == 3


def sessions(wire: Flooded, full: bool) -> None:
    """Sessions without end, with fields of 1 MB, of just under the bound, and small ones."""
    wire.ask("initialize", "initialize", protocolVersion=1)
    wire.begin()
    assert wire.ask("long", "session/new", cwd="/" + "x" * 1_000_000, mcpServers=[])["error"]["code"] == -32602
    server = {"name": "x", "command": "/x", "args": ["x" * 900_000], "env": []}
    for n in range(80):
        wire.write(request(n, "session/new", cwd="/tmp", mcpServers=[server]))
    wire.until(lambda: wire.got["result"] + wire.got["-32600"] >= 81)
    assert wire.got["-32600"] >= 5
    count = 12_000 if full else 200
    for n in range(count):
        wire.write(request(n, "session/new", **SETUP))
    wire.cancel()
    wire.until(lambda: wire.got["result"] + wire.got["-32600"] == 81 + count)
    wire.stop()


def talkative_turn(wire: Flooded, full: bool) -> None:
    """A turn says as much as is read; then it is cancelled by `session/cancel`."""
    session = _prompt(wire, "talk")
    wire.until(lambda: wire.got["session/update"] >= (200_000 if full else 3000))
    wire.arrived = wire.write(notification("session/cancel", sessionId=session))
    wire.until(lambda: "probe" in wire.answers)
    assert wire.answers["probe"]["result"]["stopReason"] == "cancelled"
    wire.stop()


def progress(wire: Flooded, full: bool) -> None:
    """A tool in a thread shows more than is read."""
    session = _prompt(wire, "tool")
    wire.burn(8 if full else 0.2)
    wire.arrived = wire.write(notification("session/cancel", sessionId=session), reading=False)
    wire.until(lambda: "cut" in wire.noted, reading=False)
    wire.until(lambda: "probe" in wire.answers)
    assert wire.answers["probe"]["result"]["stopReason"] == "cancelled"
    wire.stop()


def _prompt(wire: Flooded, text: str) -> str:
    wire.ask("initialize", "initialize", protocolVersion=1)
    session = wire.ask("session", "session/new", **SETUP)["result"]["sessionId"]
    prompt = [{"type": "text", "text": text}]
    wire.write(request("watch", "_watch") + request("probe", "session/prompt", sessionId=session, prompt=prompt))
    wire.until(lambda: "begun" in wire.noted)
    return session


def closed_output(wire: Flooded, full: bool) -> None:
    """Requests hang, and the client closes the agent's output and nothing else."""
    wire.begin()
    wire.write(b"".join(request(n, "_hang") for n in range(10_000 if full else 1000)))
    # Begins behind them.
    wire.ask("last", "_echo")
    wire.close_output()
    assert wire.last_words() == 0


def end_of_input(wire: Flooded, full: bool) -> None:
    """The input ends while requests hang: each is answered."""
    wire.begin()
    count = 30_000 if full else 5000
    wire.write(b"".join(request(n, "_hang") for n in range(count)))
    assert wire.finish() == 0
    assert wire.got.total() == count + 2
    assert wire.got["-32800"] + wire.got["-32603"] == count + 2


CASES: list[Callable[[Flooded, bool], None]] = [
    open_batches,
    notifications,
    large_notifications,
    unread_answers,
    bad_lines,
    lines_that_do_not_end,
    numbers,
    small_batches,
    large_batches,
    lines_that_look_like_messages,
    answers_to_nothing,
    hanging_requests,
    hanging_long_ids,
    sessions,
    talkative_turn,
    progress,
    closed_output,
    end_of_input,
]
