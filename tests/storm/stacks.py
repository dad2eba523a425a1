"""Where the tasks of a storm's agent wait, for a storm in which something never comes: written to standard error when
the process gets `SHOW`."""

import signal
import sys
from collections.abc import Iterator
from typing import Any

import anyio

SHOW = signal.SIGUSR1 if sys.platform != "win32" else signal.SIGTERM


async def show_stacks() -> None:
    """Write the stack of each task for each `SHOW`."""
    with anyio.open_signal_receiver(SHOW) as signals:
        async for _ in signals:
            for task in anyio.get_running_tasks():
                sys.stderr.write(f"task {task.name}\n")
                sys.stderr.writelines(f"    {line}\n" for line in _frames(task.coro))
            sys.stderr.flush()


def _frames(awaited: Any) -> Iterator[str]:
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            if (frame := getattr(awaited, f"{kind}_frame", None)) is not None:
                yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
                awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
                break
        else:
            yield repr(awaited)
            return
