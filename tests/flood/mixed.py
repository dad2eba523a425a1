"""A long time of everything at once: sessions come and go, turns end in every way, among lines that are wrong. The
memory of the agent, which keeps its sessions in a file, must not depend on how long that goes on."""

import time
from pathlib import Path
from typing import Any, Final

from tests.flood.flooded import Flooded, cancel, notification, request, result

HERE: Final = {"cwd": "/tmp", "mcpServers": []}
SECONDS = 600.0
"""How long it lasts in full."""
GROWTH: Final = 1.2
"""How much more memory there may be at the end than after the first part."""

_WRONG: Final = b"x\n" * 20 + b'{"jsonrpc":"2.0","method":"\n' * 5 + b'{"jsonrpc":"2.0","id":1,"result":1}\n' * 5
_BATCH: Final = b"[" + b",".join([b"1", request(1, "_unknown").strip(), request(2, "_echo").strip()] * 5) + b"]\n"
_FILE: Final = "x" * 20_000


class Mixed:
    """The traffic of one agent. `resident`: its memory in bytes after each round."""

    def __init__(self, wire: Flooded) -> None:
        self.resident: list[int] = []
        self._wire = wire
        self._count = 0
        self._closed: list[str] = []
        capabilities = {"fs": {"readTextFile": True, "writeTextFile": False}}
        wire.ask("initialize", "initialize", protocolVersion=1, clientCapabilities=capabilities)
        wire.write(request("watch", "_watch"))

    def go_on(self, seconds: float, rounds: int = 0) -> None:
        """For so many seconds, and not for fewer rounds than that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end or rounds > 0:
            rounds -= 1
            self._round()
            self.resident.append(resident(self._wire.process.pid))

    def _round(self) -> None:
        wire = self._wire
        session = self._ask("session/new", **HERE)["result"]["sessionId"]
        assert self._stopped(self._prompt(session, "brief")) == "end_turn"
        self._prompt(session, "read")
        self._answer_read()
        assert self._stopped("probe") == "end_turn"
        # Cancelled while it talks, and while it waits for us, who answer all the same.
        self._prompt(session, "talk")
        many = wire.got["session/update"] + 200
        wire.until(lambda: wire.got["session/update"] >= many)
        wire.write(_WRONG + notification("session/cancel", sessionId=session) + _BATCH)
        assert self._stopped("probe") == "cancelled"
        self._prompt(session, "read")
        wire.until(lambda: bool(wire.asked))
        wire.write(cancel("probe"))
        assert self._stopped("probe") == "cancelled"
        self._answer_read()
        self._prompt(session, "tool")
        wire.until(lambda: "begun" in wire.noted)
        if self._count % 3:
            wire.write(cancel("probe"))
            assert self._stopped("probe") == "cancelled"
        wire.write(b"".join(notification("_note", text="x" * 1000) for _ in range(20)))
        assert "error" in self._ask("session/prompt", sessionId="none", prompt=[])
        assert "result" in self._ask("session/list")
        # With its turn, in a third of the cases.
        assert "result" in self._ask("session/close", sessionId=session)
        assert self._stopped("probe") == "cancelled"
        self._closed.append(session)
        if len(self._closed) > 5:
            old = self._closed.pop(0)
            assert "result" in self._ask("session/load", sessionId=old, **HERE)
            assert "result" in self._ask("session/close", sessionId=old)
            if self._count % 2:
                assert "result" in self._ask("session/delete", sessionId=old)
        wire.noted.pop("begun")

    def _ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        id = f"ask {self._count}"
        self._wire.ask(id, method, **params)
        return self._wire.answers.pop(id)

    def _prompt(self, session: str, text: str) -> str:
        self._wire.noted.pop("begun", None)
        self._wire.answers.pop("probe", None)
        prompt = [{"type": "text", "text": text}]
        self._wire.write(request("probe", "session/prompt", sessionId=session, prompt=prompt))
        return "probe"

    def _stopped(self, id: str) -> Any:
        self._wire.until(lambda: id in self._wire.answers)
        return self._wire.answers[id]["result"]["stopReason"]

    def _answer_read(self) -> None:
        self._wire.until(lambda: bool(self._wire.asked))
        asked = self._wire.asked.popleft()
        assert asked["method"] == "fs/read_text_file"
        self._wire.write(result(asked["id"], {"content": _FILE}))


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * 4096


def mixed_traffic(wire: Flooded, full: bool) -> None:
    """Ten minutes in full: the memory at the end is that after a tenth of the time, but for a fifth."""
    seconds = SECONDS if full else 0
    traffic = Mixed(wire)
    traffic.go_on(seconds * 0.1, rounds=24)
    first = max(traffic.resident[-10:])
    traffic.go_on(seconds * 0.9, rounds=16)
    last = min(traffic.resident[-10:])
    wire.resident = first, last
    wire.stop()
    assert last <= GROWTH * first, f"{first / 1e6:.1f} MB became {last / 1e6:.1f} MB"
