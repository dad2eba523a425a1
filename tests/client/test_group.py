"""Process groups, and the end of a process whose pieces the test holds in its hands."""

import ctypes
import os
import signal
import sys
from typing import Any

import anyio
import anyio.abc
import pytest

from acp_server.processes import ProcessGroup, own_group
from acp_server.processes.child import ChildProcess
from tests.client.processes import PATIENCE, Ear, gone

pytestmark = pytest.mark.anyio

PR_SET_CHILD_SUBREAPER = 36


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
async def test_what_is_dead_but_not_collected_is_not_waited_for(ear: Ear) -> None:
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        # The child ends when its parent has, and then it is ours to collect.
        code = (
            "import os; parent = os.getpid(); child = os.fork()\n"
            f"if child: open({ear.path!r}, 'w').write(f'{{child}}\\n')\n"
            "while not child and os.getppid() == parent: pass"
        )
        process = await anyio.open_process([sys.executable, "-S", "-c", code], **own_group())
        await process.aclose()
        (pid,) = await ear.pids()
        gone(pid)
        exited = anyio.Event()
        exited.set()
        group = ProcessGroup(process, exited)
        os.killpg(process.pid, 0)  # The system still knows the group, for its zombie.
        assert not group.is_there
        assert await group.gone(0.5)
        group.terminate()
        os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 - it is there already
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
        group.kill()
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Pieces(anyio.abc.Process):
    """A process that ends when its input is closed, and whose last words are slow to arrive."""

    def __init__(self) -> None:
        self._ended = anyio.Event()
        self._code: int | None = None
        self._stdin, self._stdout, self._stderr = _Stdin(self._ended), _Stdout(self._ended), _Stderr(self._ended)

    async def wait(self) -> int:
        await self._ended.wait()
        self._code = 0
        return 0

    async def aclose(self) -> None:
        await self._stderr.aclose()
        await self.wait()

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def send_signal(self, signal: Any) -> None: ...

    @property
    def pid(self) -> int:
        return 4242

    @property
    def returncode(self) -> int | None:
        return self._code

    @property
    def stdin(self) -> Any:
        return self._stdin

    @property
    def stdout(self) -> Any:
        return self._stdout

    @property
    def stderr(self) -> Any:
        return self._stderr


class _Stdin:
    def __init__(self, ended: anyio.Event) -> None:
        self.closed = 0
        self._ended = ended

    async def aclose(self) -> None:
        self.closed += 1
        self._ended.set()


class _Stdout:
    def __init__(self, ended: anyio.Event) -> None:
        self._ended = ended

    async def receive(self) -> bytes:
        await self._ended.wait()
        raise anyio.EndOfStream


class _Stderr(anyio.abc.ByteReceiveStream):
    def __init__(self, ended: anyio.Event) -> None:
        self._ended = ended
        self._said = False
        self._closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self._said:
            raise anyio.EndOfStream
        await self._ended.wait()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
            if self._closed:
                raise anyio.ClosedResourceError
        self._said = True
        return b"Traceback"

    async def aclose(self) -> None:
        self._closed = True


async def test_the_last_words_are_waited_for_and_the_end_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[tuple[int, int]] = []

    def killpg(group: int, number: int) -> None:
        signals.append((group, number))
        raise ProcessLookupError

    monkeypatch.setattr(os, "killpg", killpg)
    pieces = Pieces()
    process = ChildProcess(pieces, None)
    with anyio.fail_after(PATIENCE):
        await process.aclose()
    assert process.stderr == "Traceback"
    assert process.exit_code == 0
    assert {number for _, number in signals} <= {0, signal.SIGTERM, signal.SIGKILL}
    signals.clear()
    # By now the number may be that of somebody else's process.
    await process.aclose()
    assert signals == []
    assert pieces.stdin.closed == 1
