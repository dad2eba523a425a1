"""The ends of chats that could not be stored: they are stored as soon as the store takes anything again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from acp_server.gateway.nodes import Node
from acp_server.gateway.records import Chat
from acp_server.gateway.rows import Rows
from acp_server.gateway.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class LateEnds:
    """Those of one node."""

    def __init__(self, store: Store, node: Node) -> None:
        self._store = store
        self._node = node
        self._chats: dict[str, Chat] = {}

    def add(self, chat: Chat) -> None:
        """This chat has ended, and the store does not know it."""
        self._chats[chat.id] = chat

    def remove(self, id: str) -> None:
        """The chat is gone."""
        self._chats.pop(id, None)

    def clear(self) -> None:
        """The chats are another node's now."""
        self._chats.clear()

    def latest(self, chat: Chat) -> Chat:
        """A chat of the store as it really is."""
        return chat if chat.ended else self._chats.get(chat.id, chat)

    async def do(self, work: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """See `Store.do`. The late ends are stored before the work, in the same transaction. Not for two tasks at
        once."""
        late = dict(self._chats)

        def both(rows: Rows) -> T:
            for chat in late.values():
                rows.end_late(chat, self._node.id)
            return work(rows, *args, **kwargs)

        done = await self._store.do(both)
        for id in late:
            self._chats.pop(id, None)
        return done
