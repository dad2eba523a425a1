"""The history that a framework's model sees, kept with the turns that have made it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from acp_server.errors import EncodeError, UsageError
from acp_server.session.session import Session
from acp_server.session.turn import Turn
from acp_server.store.records import Message, TurnRecord

logger = logging.getLogger("acp_server.integrations")


class History:
    """That of each session of an agent, by `Turn.keep`: a turn that is cut or fails leaves nothing in it.

    `key`, `version`: of what is kept. `dump` and `load`: messages of the framework as JSON, and back; `load` raises
    ValueError for what it cannot read. `said`: what was said in a turn, as such messages.
    """

    def __init__(
        self,
        key: str,
        version: int,
        *,
        dump: Callable[[list[Any]], Any],
        load: Callable[[Any], list[Any]],
        said: Callable[[Sequence[Message]], list[Any]],
    ) -> None:
        self._key = key
        self._version = version
        self._dump = dump
        self._load = load
        self._said = said
        self._last: WeakKeyDictionary[Session, tuple[TurnRecord, list[Any]]] = WeakKeyDictionary()
        """The history behind a turn of each open session, so that it need not be read again."""

    def before(self, turn: Turn) -> list[Any]:
        """What the turns before this one have kept; of those that have not, what was said in them."""
        past = [record for record in turn.session.record.context() if record is not turn.record]
        last = self._last.get(turn.session)
        if last is not None and past and past[-1] is last[0]:
            return last[1]
        messages: list[Any] = []
        for record in past:
            kept = record.kept(self._key, self._version)
            try:
                added = self._said(record.messages()) if kept is None else self._load(kept["messages"])
            except ValueError:
                logger.warning("what turn %s has kept cannot be read; what was said in it is used", record.id)
                kept, added = None, self._said(record.messages())
            messages = [*([] if kept is not None and kept["whole"] else messages), *added]
        return messages

    def keep(self, turn: Turn, before: list[Any], behind: list[Any]) -> None:
        """Keep with the turn what it has added; or all of it, if it has changed what was there."""
        whole = behind[: len(before)] != before
        try:
            added = self._dump(behind if whole else behind[len(before) :])
            turn.keep(self._key, {"whole": whole, "messages": added}, version=self._version)
        except (UsageError, EncodeError):
            logger.warning("the messages of a turn take too much to be kept; what was said in it is kept")
        self._last[turn.session] = turn.record, behind
