"""What is done in any case before this process ends: by itself, or by force while its event loop hangs.

A signal that cannot be caught leaves no time for it. When something is cleaned up is not decided here: this is for what
has not been cleaned up by then.
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
"""By the process that they were registered in: the end of another one, which was forked off, is not meant."""


def before_exit(function: Callable[[], object]) -> None:
    """Have `function` called right before this process ends. It may take a second, and may be called in any thread."""
    if not _functions:
        atexit.register(run_exit_hooks)
    _functions[os.getpid()].append(function)


def run_exit_hooks() -> None:
    """The process ends: call them. Never raises."""
    for function in _functions[os.getpid()]:
        try:
            function()
        except Exception:
            logger.exception("what was to be done before the end of the process has failed")
