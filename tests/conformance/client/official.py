"""A small client on the official Python SDK: one prompt, and every permission is given."""

import asyncio
import os
import sys
from typing import Any

import acp
from acp.schema import AllowedOutcome, Implementation, RequestPermissionResponse, TextContentBlock


class Editor(acp.Client):
    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **kwargs: Any) -> Any:
        option = next(option for option in options if option.kind.startswith("allow"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        pass


async def main(command: str, *arguments: str) -> None:
    editor: Any = Editor  # what it does not define is there, and abstract by its annotations only
    async with acp.spawn_agent_process(editor(), command, *arguments) as (connection, _):
        info = Implementation(name="official", version="0.12.1")
        answer = await connection.initialize(protocol_version=1, client_info=info)
        if answer.protocol_version != 1:
            return
        session = await connection.new_session(cwd=os.getcwd(), mcp_servers=[])
        await connection.prompt(session_id=session.session_id, prompt=[TextContentBlock(type="text", text="hello")])


asyncio.run(main(*sys.argv[1:]))
