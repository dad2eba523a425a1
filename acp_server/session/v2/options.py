"""The settings of a session as version 2 has them, where the mode is an option (ACP v2, session config options)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from acp_server.session.settings import Settings

_MODE: Final = "mode"


def mode_id(settings: Settings) -> str:
    """The id of the option that stands for the session's mode: `mode`, unless an option of the author's has that."""
    taken = {option.id for option in settings.options}
    name = _MODE
    while name in taken:
        name = f"_{name}"
    return name


def offered(settings: Settings) -> list[dict[str, Any]]:
    """All that the user can set, with the present values."""
    return with_mode(settings, [option.to_wire() for option in settings.offered()])


def with_mode(settings: Settings, options: Iterable[dict[str, Any]], mode: str | None = None) -> list[dict[str, Any]]:
    """Options in the form of version 1 in that of version 2, behind the mode. `mode`: if it is not the present one."""
    told = [_option(option) for option in options]
    current = mode if mode is not None else settings.mode
    if current is None:
        return told
    modes = [
        {"value": choice.id, "name": choice.name, **({"description": choice.description} if choice.description else {})}
        for choice in settings.modes
    ]
    option = {"type": "select", "configId": mode_id(settings), "name": "Mode", "category": "mode"}
    return [{**option, "currentValue": current, "options": modes}, *told]


def _option(option: dict[str, Any]) -> dict[str, Any]:
    if "id" not in option:
        return option
    told = {("configId" if key == "id" else key): value for key, value in option.items()}
    if isinstance(told.get("options"), list):
        told["options"] = [_group(choice) for choice in told["options"]]
    return told


def _group(choice: dict[str, Any]) -> dict[str, Any]:
    return {("groupId" if key == "group" else key): value for key, value in choice.items()}
