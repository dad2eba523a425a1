"""Faults in what becomes of the ids of requests."""

from __future__ import annotations

from clean import Clean
from rpc import Json, Request, valid_id


class NumbersToText(Clean):
    """Answers the request 7 as "7"."""

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, {**message, "id": str(request.id)})


class TextToNumbers(Clean):
    """Answers the request "7" as 7."""

    def answer(self, request: Request, message: Json) -> None:
        digits = isinstance(request.id, str) and request.id.isdigit()
        super().answer(request, {**message, "id": int(request.id)} if digits else message)


class TypesFolded(Clean):
    """Takes the ids 7 and "7" for one and the same."""

    def key(self, id: Json) -> tuple[str, Json]:
        return "", str(id)


class NoId(Clean):
    """Leaves the id out of its answers."""

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, {name: value for name, value in message.items() if name != "id"})


class OnlyNumbers(Clean):
    """Refuses ids that are strings."""

    def is_message(self, value: dict[str, Json]) -> bool:
        return super().is_message(value) and not isinstance(value.get("id"), str)


class ZeroIsNothing(Clean):
    """Takes the request 0 for a notification."""

    def take_request(self, request: Request) -> None:
        if request.id == 0:
            self.take_notification(request.method, request.params)
        else:
            super().take_request(request)


class EmptyIsNothing(Clean):
    """Takes the request "" for a notification."""

    def take_request(self, request: Request) -> None:
        if request.id == "":
            self.take_notification(request.method, request.params)
        else:
            super().take_request(request)


class AnyIdIsFine(Clean):
    """Runs a request whose id is an object, and answers with it."""

    def is_message(self, value: dict[str, Json]) -> bool:
        id = value.get("id")
        return super().is_message(value if valid_id(id) else {**value, "id": 0})

    def key(self, id: Json) -> tuple[str, Json]:
        return type(id).__name__, str(id)


class RoundsIds(Clean):
    """Answers with ids that have been through a 32-bit integer."""

    def answer(self, request: Request, message: Json) -> None:
        wide = isinstance(request.id, int)
        super().answer(request, {**message, "id": request.id & 0x7FFFFFFF} if wide else message)


class OneTable(Clean):
    """Takes a request for the answer to its own request of the same id."""

    def take_request(self, request: Request) -> None:
        if isinstance(request.id, int) and request.id in self.calls:
            self.take_response({"id": request.id, "result": None})
        else:
            super().take_request(request)


class ReusesItsIds(Clean):
    """Gives all its own requests one id."""

    def new_id(self) -> int:
        return 1
