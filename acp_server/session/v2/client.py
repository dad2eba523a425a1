"""What an agent can ask a client that speaks version 2: permission and information. It runs commands itself, and the
client shows them (ACP v2, permission requests and terminals)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, cast

from acp_server.errors import SessionClosed
from acp_server.session import client as v1
from acp_server.session.v2.forms import tool_content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acp_server.schema.base import Model
    from acp_server.schema.tool_call import PermissionOption, ToolCallUpdate
    from acp_server.session.v2.session import Session
    from acp_server.session.v2.terminal import Terminal

_TITLE: Final = "May this tool run?"


class Client(v1.Client):
    """The client, as one session sees it."""

    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> Terminal:
        """Start a command on this machine, in a terminal that the client shows. Raises InvalidParams, if it cannot be
        started, and SessionClosed."""
        from acp_server.session.v2.terminal import Terminal

        session = cast("Session", self._session)
        if session.closed:
            raise SessionClosed
        about = {"command": shlex.join([command, *args]), "cwd": cwd or session.cwd}
        terminal = Terminal(self.connection, session.updates, session.terminals, session.id, self._turn(), about)
        await terminal.start(command, args, env, output_byte_limit)
        return terminal

    def _question(self, tool_call: ToolCallUpdate, options: list[PermissionOption]) -> Model:
        from acp_server.schema.v2.permission import RequestPermissionRequest

        subject = tool_call.to_wire()
        content = list(subject.get("content", ()))
        description = None
        if content and content[0].get("type") == "content" and content[0]["content"].get("type") == "text":
            # What the user is told of it has a place of its own, where version 1 has it in front of the rest.
            description = content.pop(0)["content"]["text"]
        subject.pop("content", None)
        if content:
            subject["content"] = [tool_content(piece) for piece in content]
        question = {
            "sessionId": self._session_id,
            "title": tool_call.title or _TITLE,
            "subject": {"type": "tool_call", "toolCall": subject},
            "options": [option.to_wire() for option in options],
        }
        if description is not None:
            question["description"] = description
        return RequestPermissionRequest.from_wire(question)
