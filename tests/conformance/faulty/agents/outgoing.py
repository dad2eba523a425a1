"""A correct agent behind a change of single messages: what it writes is what `clean` would write, but for one thing."""

from __future__ import annotations

import copy

from clean import Clean
from rpc import Json, Request


class Outgoing(Clean):
    """Tells of each message before it is written, which may be changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[tuple[str, Json], str] = {}

    def take_request(self, request: Request) -> None:
        self.asked[self.key(request.id)] = request.method
        super().take_request(request)

    def write(self, message: Json) -> None:
        message = copy.deepcopy(message)
        if isinstance(message, dict):
            self.said(message)
        super().write(message)

    def said(self, message: Json) -> None:
        method = message.get("method")
        if method == "session/update":
            update = message["params"]["update"]
            self.update_said(update["sessionUpdate"], update, message)
        elif method is not None:
            self.request_said(method, message["params"], message)
        elif isinstance(message.get("result"), dict):
            self.result_said(self.asked.get(self.key(message["id"]), ""), message["result"], message)

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        """An update."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        """A request to the client, or a notification that is no update."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        """A result that is an object."""
