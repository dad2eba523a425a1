"""What a conversation needs of the user's terminal, whatever it looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from acp_server.cli.screen import Screen
from acp_server.schema import AvailableCommand


class User(Protocol):
    """Reads what the user types, and shows what happens on `screen`."""

    @property
    def screen(self) -> Screen:
        """Where it is shown."""
        ...

    def open(self, interrupt: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """The terminal is ours inside of this block. `interrupt` is called for Ctrl-C, in the event loop."""
        ...

    async def read(self) -> str | None:
        """The next prompt, which may have been typed ahead; None when the user leaves."""
        ...

    async def choose(self, answers: int) -> int | None:
        """Which one of so many answers the user chooses, now that the question is on the screen; None for none.

        What was typed or pasted before the question could be seen does not answer it.
        """
        ...

    def waiting(self, what: str | None) -> None:
        """What is being waited for; None when it is over."""
        ...

    def offer(self, commands: Sequence[AvailableCommand]) -> None:
        """The commands that there are."""
        ...

    async def keep_up(self) -> None:
        """Wait while there is much that is not shown yet."""
        ...

    def take_back(self) -> bool:
        """Do not send what was typed ahead; whether there was anything. It may be edited."""
        ...

    def discard_draft(self) -> bool:
        """Forget what was typed and not yet sent; whether there was anything."""
        ...
