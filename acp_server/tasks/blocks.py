"""Context managers that warn when they are called as a statement, and so have no effect."""

from __future__ import annotations

import logging

logger: logging.Logger = logging.getLogger("acp_server.tasks")


class Block:
    """A context manager that logs a warning if it is dropped without being entered, like a coroutine that was never
    awaited."""

    _entered: bool = False

    def _written(self) -> str:
        """The code that enters the block, for the warning."""
        return "with ..."

    def __del__(self) -> None:
        if not self._entered:
            logger.warning(
                "a context manager was not entered, so it had no effect; write `%s:` with the code in its block",
                self._written(),
            )
