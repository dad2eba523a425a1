"""Why a message was refused, in words fit for the peer that sent it: places and reasons, no values."""

from pydantic import ValidationError

from acp_server.schema import area_of

__all__ = [
    "explain",
]


def explain(error: ValidationError) -> list[dict[str, str]]:
    """One `{"path": "prompt[0].text", "message": "Field required"}` for each problem; "" is the whole."""
    return [
        {"path": _path(detail["loc"]), "message": detail["msg"]}
        for detail in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif area_of(step) is None:  # The name of a class says which member of a union was read, not a place.
            path += f".{step}" if path else step
    return path
