"""Callbacks that run before this process exits, also when a thread ends the process because the event loop hangs.

They are the last resort for resources that were not released in order. SIGKILL leaves no time for them.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections import defaultdict
from collections.abc import Callable
from typing import Final

logger: logging.Logger = logging.getLogger("acp_server.tasks")

_functions: Final[defaultdict[int, list[Callable[[], object]]]] = defaultdict(list)
"""The callbacks, by process id, so that a forked child does not run the callbacks of its parent."""


def before_exit(function: Callable[[], object]) -> None:
    """Register `function` to run right before this process exits. The function has about a second, and may run in any
    thread."""
    if not _functions:
        atexit.register(run_exit_hooks)
    _functions[os.getpid()].append(function)


def run_exit_hooks() -> None:
    """Run the callbacks of this process. Their exceptions are logged and not raised."""
    for function in _functions[os.getpid()]:
        try:
            function()
        except Exception:
            logger.exception("a callback for the exit of the process failed")
