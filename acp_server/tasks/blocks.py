"""What has its effect in a `with` block alone, and says so where it was called as a statement."""

from __future__ import annotations

import logging

logger: logging.Logger = logging.getLogger("acp_server.tasks")


class Block:
    """Something that is entered. If it goes away without that, the log says so, as Python does it for a coroutine that
    was never awaited."""

    entered: bool = False

    def written(self) -> str:
        """How its author begins the block."""
        return "with ..."

    def __del__(self) -> None:
        if not self.entered:
            logger.warning("a block that was not entered had no effect: write `%s:` with it below", self.written())
