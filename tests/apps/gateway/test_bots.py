"""Which pools of agents there are, as the bots change."""

import gc
import weakref
from collections.abc import Sequence
from typing import Any

from acp_server.apps.gateway.bots import Bots


class IdlePool:
    """A pool without a process."""

    running = waiting = 0

    def __init__(self, name: str, command: Sequence[str], _owner: str | None) -> None:
        self.name, self.command = name, command

    def retire(self) -> None:
        """It has nothing to end."""


def test_a_bot_that_has_ended_is_forgotten_by_the_next_change() -> None:
    made: list[weakref.ref[Any]] = []

    def make(name: str, command: Sequence[str], owner: str | None) -> Any:
        pool = IdlePool(name, command, owner)
        made.append(weakref.ref(pool))
        return pool

    bots = Bots(make)
    for version in range(10):
        bots.set({"bot": ["agent", str(version)]}, None)
    gc.collect()
    # The one that is in use, and the one before it.
    assert [pool() is not None for pool in made] == [False] * 8 + [True] * 2
