"""Checks what the states of a session of version 2 say about its background work: each item is announced before it is
listed, ends before it is left out, and is listed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_RUNNING = ("pending", "in_progress", "paused")

_KEYS = {"terminal": "terminalId", "tool_call": "toolCallId"}

Item = tuple[str, str]
"""The type and the id of an item."""


class Background:
    """The background work of one session, as its updates report it."""

    def __init__(self) -> None:
        self._running: dict[Item, bool] = {}
        """Whether an announced item still runs."""
        self._shown: dict[str, set[str]] = {}
        """The terminals that each tool call shows."""
        self._listed: list[Item] | None = None
        """The last list; None before the first one."""
        self._offers: set[Item] = set()
        """The items that can be cancelled."""
        self._complete = True
        """Whether all that the session has announced was seen."""

    def resumed(self) -> None:
        """Record a resume: what was announced before, and is now replayed or not, is unknown."""
        self._complete = False
        self._listed = None

    def update(self, update: Mapping[str, Any]) -> Iterator[str]:
        """Record one update: what is wrong with it."""
        match update["sessionUpdate"]:
            case "terminal_update":
                item = ("terminal", update["terminalId"])
                ended = update.get("exitStatus") is not None
                self._running[item] = not ended and ("exitStatus" in update or self._running.get(item, True))
                self._offer(item, update)
            case "tool_call_update":
                item = ("tool_call", update["toolCallId"])
                status = update.get("status")
                if "status" in update or item not in self._running:
                    self._running[item] = status is None or status in _RUNNING
                self._shows(item[1], update.get("content") or ())
                self._offer(item, update)
            case "tool_call_content_chunk":
                self._shows(update["toolCallId"], [update["content"]])
            case "state_update":
                yield from self._state(update)
            case _:
                pass

    def offers(self) -> Iterator[str]:
        """Yield the offers to cancel what has ended, each once."""
        for item in sorted(item for item in self._offers if not self._running[item]):
            self._offers.discard(item)
            yield f"the {item[0]} {item[1]!r:.100} has ended, and still offers to be cancelled"

    def _offer(self, item: Item, update: Mapping[str, Any]) -> None:
        if "capabilities" in update:
            can = (update["capabilities"] or {}).get("cancel") is not None
            (self._offers.add if can else self._offers.discard)(item)

    def _shows(self, call: str, content: Any) -> None:
        terminals = {each["terminalId"] for each in content if each.get("type") == "terminal"}
        self._shown.setdefault(call, set()).update(terminals)

    def _state(self, update: Mapping[str, Any]) -> Iterator[str]:
        entries = update.get("background")
        if entries is None:
            if self._listed is not None:
                yield f"the state {update['state']} has no list of background work, and an earlier one had it"
            return
        items = [(each["type"], each[_KEYS[each["type"]]]) for each in entries if each["type"] in _KEYS]
        yield from self._twice(items)
        if self._complete:
            yield from self._unannounced(items)
            for item in self._listed or ():
                if item not in items and self._running.get(item):
                    yield f"the {item[0]} {item[1]!r:.100} is no longer listed, and has no end"
        self._listed = items

    def _unannounced(self, items: list[Item]) -> Iterator[str]:
        for item in items:
            if item not in self._running:
                yield f"the {item[0]} {item[1]!r:.100} is listed as background work before it was announced"

    def _twice(self, items: list[Item]) -> Iterator[str]:
        for item in dict.fromkeys(items):
            if items.count(item) > 1:
                yield f"the {item[0]} {item[1]!r:.100} is listed twice as background work"
            shown = self._shown.get(item[1], ()) if item[0] == "tool_call" else ()
            if terminal := next((id for kind, id in items if kind == "terminal" and id in shown), None):
                yield f"the background work of the terminal {terminal!r:.100} is listed as its tool call, too"
