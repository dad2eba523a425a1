"""What is done in any case before this process ends: by itself, or by force while its event loop hangs.

A signal that cannot be caught leaves no time for it. When something is cleaned up is not decided here: this is for what
has not been cleaned up by then.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from typing import Final

logger = logging.getLogger("acp_server.tasks")

_functions: Final[list[Callable[[], object]]] = []
_whose: int | None = None
"""The process whose end it is. The end of a forked process is not meant."""


def before_exit(function: Callable[[], object]) -> None:
    """Have `function` called right before the process ends. It may take a second, and may be called in any thread."""
    global _whose
    if not _functions:
        atexit.register(run_exit_hooks)
        _whose = os.getpid()
    _functions.append(function)


def run_exit_hooks() -> None:
    """The process ends: call them. Never raises."""
    if os.getpid() != _whose:
        return
    for function in _functions:
        try:
            function()
        except Exception:
            logger.exception("what was to be done before the end of the process has failed")
