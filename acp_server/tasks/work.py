"""Work in a task of its own inside a node: what becomes of it when it is cut and does not end.

It has one deadline, however often and from however many sides it is cut. What happens when that has passed is decided
by what the work is for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from acp_server.tasks.grace import Watch
from acp_server.tasks.spawn import Spawner
from acp_server.tasks.tree import Node


class Work(ABC):
    """One piece of work. Its node is its owner's, who tells it that the node was cut."""

    __slots__ = ("_reached", "_spawner", "_watch", "_watched", "node", "task")

    def __init__(self, node: Node, spawner: Spawner, watch: Watch) -> None:
        self.node = node
        self.task: object = None
        """The task that it runs in, once it has begun."""
        self._spawner = spawner
        self._watch = watch
        self._watched = False
        self._reached = False

    @abstractmethod
    def overdue(self) -> None:
        """For the watch: the time for cleaning up is over. It is waited for no longer, and looked after."""

    def was_cut(self, _node: Node) -> None:
        """The node, or one that is nested in it and that counts, was cut: its time to clean up begins."""
        self._watched = True
        self._watch.add(self.overdue)

    def look_after(self) -> None:
        """It is not waited for any longer and still runs: see to it that it does not take all of the processor.

        If its cut had a hold of it at two looks in a row, it takes no notice, and is left alone from then on.
        """
        reached = self.task is not None and self._spawner.is_reached(self.task)
        if reached and self._reached:
            self.node.let_be()
        else:
            # What is shielded now, for long cleanup or a thread, is still to be cut behind that.
            self._reached = reached
            self._watched = True
            self._watch.add(self.overdue)

    def ended(self) -> None:
        """It is through: nobody looks after it any more."""
        if self._watched:
            self._watch.drop(self.overdue)
