"""What is done in any case before this process ends: by itself, or by force while its event loop hangs.

A signal that cannot be caught leaves no time for it. Nobody's turn to clean up is decided here: this is for what nobody
has come to clean up.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger("acp_server.tasks")

_functions: Final[list[Callable[[], object]]] = []


def before_the_end(function: Callable[[], object]) -> None:
    """Have `function` called right before the process ends. It must be quick, must not wait, and may be called in any
    thread."""
    if not _functions:
        atexit.register(part)
    _functions.append(function)


def part() -> None:
    """The process ends: call them. Never raises."""
    for function in _functions:
        try:
            function()
        except Exception:
            logger.exception("what was to be done before the end of the process has failed")
