"""What has its effect in a `with` block alone, and says so where it was called as a statement."""

from __future__ import annotations

import logging

logger = logging.getLogger("acp_server.tasks")


class Block:
    """Something that is entered. `written`: how its author begins the block. If it goes away without having been
    entered, the log says so, as Python does it for a coroutine that was never awaited."""

    entered = False

    def __init__(self, written: str) -> None:
        self._written = written

    def __del__(self) -> None:
        if not self.entered:
            logger.warning("a block that was not entered had no effect: write `%s:` with it below", self._written)
