"""Faults at arrays of messages."""

from __future__ import annotations

import sys

from clean import Clean
from rpc import Batch, Json


class Ends(Clean):
    """Ends at an array."""

    def read(self, value: Json) -> None:
        value.get("id")
        super().read(value)


class Silent(Clean):
    """Says nothing to an array."""

    def read(self, value: Json) -> None:
        if not isinstance(value, list):
            super().read(value)


class OneByOne(Clean):
    """Answers the members of an array each by itself."""

    def take_batch(self, values: list[Json]) -> None:
        for value in values:
            self.take(value, None)


class EmptyForEmpty(Clean):
    """Answers an empty array with an empty array."""

    def read(self, value: Json) -> None:
        if value == []:
            self.write([])
        else:
            super().read(value)


class EmptyForNotifications(Clean):
    """Answers an array of notifications with an empty array."""

    def settle(self, batch: Batch) -> None:
        super().settle(batch)
        if not batch.owed and not batch.answers:
            self.write([])


class OnlyTheFirst(Clean):
    """Answers the first member of an array and forgets the others."""

    def take_batch(self, values: list[Json]) -> None:
        super().take_batch(values[:1])


class AllOrNothing(Clean):
    """Refuses a whole array for one member that is invalid."""

    def take_batch(self, values: list[Json]) -> None:
        if all(isinstance(value, dict) for value in values):
            super().take_batch(values)
        else:
            self.refuse(None, -32600, "Invalid Request", None)


class InvalidMembersEnd(Clean):
    """Ends at an array with a member that is no object."""

    def take(self, value: Json, batch: Batch | None) -> None:
        if batch and not isinstance(value, dict):
            sys.exit(1)
        super().take(value, batch)


class ResponsesAnswered(Clean):
    """Answers the responses in an array."""

    def take(self, value: Json, batch: Batch | None) -> None:
        if batch and isinstance(value, dict) and "method" not in value:
            self.refuse(None, -32600, "Invalid Request", batch)
        else:
            super().take(value, batch)
