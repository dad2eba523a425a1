"""Agents with one `AssistantTool`, and a model that calls it once."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

from acp_server import Agent, Turn
from acp_server.apps.assistant import AssistantTool
from acp_server.store.records import ToolResult
from acp_server.tools.approval import UserAction
from tests.session import editor as session_editor
from tests.session.editor import editing

PLAIN: dict[str, Any] = {
    "displayName": "Search",
    "id": "search",
    "description": "Searches.",
    "parameters": [{"name": "query", "type": "string", "required": False}],
    "requireApproval": False,
}
LOCATION: dict[str, Any] = {
    "displayName": "Request Current Location",
    "id": "request_current_location",
    "description": "Requests the user's current location one time.",
    "icon": "location.fill",
    "color": "systemBlue",
    "parameters": [],
    "requireApproval": True,
    "autoApprove": True,
    "scriptEditorOnly": False,
}
EDIT: dict[str, Any] = LOCATION | {
    "displayName": "Edit",
    "id": "edit",
    "parameters": [{"name": "path", "type": "string"}],
    "scriptEditorOnly": True,
}
ASK, READ, WRITE = "session/request_permission", "fs/read_text_file", "fs/write_text_file"


class Case:
    """An agent whose turns call one tool, as a model would. `results`: what came of the calls."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.agent = Agent("test")
        self.tool = AssistantTool(manifest, self.agent)
        self.arguments: dict[str, Any] = {}
        self.results: list[ToolResult] = []

        @self.agent.prompt
        async def handler(turn: Turn) -> None:
            self.results.append(await turn.run_tool(self.tool.manifest.id, self.arguments, id="c1"))

    @property
    def outcome(self) -> tuple[str, str | None]:
        (result,) = self.results
        return result.status, result.message

    @asynccontextmanager
    async def running(
        self, capabilities: Any = None, **options: Any
    ) -> AsyncGenerator[tuple[session_editor.Editor, str, Any]]:
        """An editor that has sent a prompt: itself, the session and the prompt's id."""
        async with editing(self.agent, capabilities=capabilities, **options) as editor:
            session = await editor.open()
            yield editor, session, await editor.prompt(session)

    @asynccontextmanager
    async def running_after_setting(self, automatic: bool) -> AsyncGenerator[tuple[session_editor.Editor, str, Any]]:
        """The same, where the user has set whether tools may be approved automatically."""
        async with editing(self.agent) as editor:
            session = await editor.open()
            setting = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": automatic}
            await editor.client.result("session/set_config_option", setting)
            yield editor, session, await editor.prompt(session)

    async def run(self, capabilities: Any = None, answer: str | None = None) -> tuple[str, str | None]:
        """What comes of one call; `answer`: the option that the user chooses, "" for dismissing."""
        async with self.running(capabilities) as (editor, _, prompt):
            if answer is not None:
                request = await editor.client.expect_request(ASK)
                chosen = {"outcome": "selected", "optionId": answer} if answer else {"outcome": "cancelled"}
                await editor.client.respond(request, {"outcome": chosen})
            assert await editor.answer(prompt) == {"stopReason": "end_turn"}
        return self.outcome


def statuses(editor: session_editor.Editor) -> list[str]:
    """One after the other; updates repeat the status that a call has."""
    return [
        status for status, _ in groupby(update["status"] for update in editor.client.updates() if "status" in update)
    ]


def located(calls: list[UserAction]) -> Callable[..., Any]:
    async def execute(params: dict[str, Any], user_action: UserAction) -> dict[str, Any]:
        calls.append(user_action)
        if not user_action.primary_confirmed:
            return {"success": False, "message": "User cancelled the location request."}
        return {"success": True, "message": "<latitude>1</latitude>"}

    return execute
