"""What an editor can draw of what an agent has sent: the rows of the table in docs/integrations.md."""

from collections.abc import Callable, Iterable
from typing import Any

Message = dict[str, Any]


def _updates(sent: list[Message], *kinds: str) -> list[dict[str, Any]]:
    updates = [message["params"]["update"] for message in sent if message.get("method") == "session/update"]
    return [update for update in updates if update["sessionUpdate"] in kinds]


def _calls(sent: list[Message]) -> list[dict[str, Any]]:
    return _updates(sent, "tool_call", "tool_call_update")


def _results(sent: list[Message]) -> list[dict[str, Any]]:
    return [message["result"] for message in sent if isinstance(message.get("result"), dict)]


def _options(sent: list[Message]) -> list[str | None]:
    return [
        option["category"]
        for result in _results(sent)
        for option in result.get("configOptions", ())
        if "category" in option
    ]


def _capability(sent: list[Message], *path: str) -> bool:
    found: Any = next(result for result in _results(sent) if "agentCapabilities" in result)["agentCapabilities"]
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found is not None and found is not False


def _contents(sent: list[Message]) -> set[str]:
    return {content["type"] for call in _calls(sent) for content in call.get("content") or ()}


DRAWN: dict[str, Callable[[list[Message]], Any]] = {
    "text": lambda sent: _updates(sent, "agent_message_chunk"),
    "thoughts": lambda sent: _updates(sent, "agent_thought_chunk"),
    "title of a call": lambda sent: [call for call in _calls(sent) if call.get("title")],
    "kind of a call": lambda sent: [call for call in _calls(sent) if call.get("kind", "other") != "other"],
    "locations of a call": lambda sent: [call for call in _calls(sent) if call.get("locations")],
    "input of a call": lambda sent: [call for call in _calls(sent) if call.get("rawInput")],
    "result of a call": lambda sent: "content" in _contents(sent),
    "output of a call, for programs": lambda sent: [call for call in _calls(sent) if call.get("rawOutput")],
    "diff": lambda sent: "diff" in _contents(sent),
    "live output of a command": lambda sent: "terminal" in _contents(sent),
    "question": lambda sent: [message for message in sent if message.get("method") == "session/request_permission"],
    "plan": lambda sent: _updates(sent, "plan"),
    "commands": lambda sent: _updates(sent, "available_commands_update"),
    "modes": lambda sent: [result for result in _results(sent) if result.get("modes")],
    "option for the mode": lambda sent: "mode" in _options(sent),
    "option for the model": lambda sent: "model" in _options(sent),
    "option for thinking": lambda sent: "thought_level" in _options(sent),
    "how full the context is": lambda sent: _updates(sent, "usage_update"),
    "cost": lambda sent: [update for update in _updates(sent, "usage_update") if update.get("cost")],
    "tokens of the turn": lambda sent: [result for result in _results(sent) if result.get("usage")],
    "title of the session": lambda sent: _updates(sent, "session_info_update"),
    "images in prompts": lambda sent: _capability(sent, "promptCapabilities", "image"),
    "system prompt": lambda sent: _capability(sent, "sessionCapabilities", "systemPrompt"),
    "fork": lambda sent: _capability(sent, "sessionCapabilities", "fork"),
    "list of sessions": lambda sent: _capability(sent, "sessionCapabilities", "list"),
}


def drawn(sent: Iterable[Message]) -> set[str]:
    """The rows that this recording has."""
    recorded = list(sent)
    return {row for row, find in DRAWN.items() if find(recorded)}
