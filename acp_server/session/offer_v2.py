"""What a client that offers version 2 says of itself, in the form of version 1 (ACP v2, version negotiation).

Such a client names itself in `info` and announces `capabilities`, and it does not know yet that the agent answers 1.
"""

from __future__ import annotations

from typing import Any, cast


def as_v1(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an `initialize` that asks for a version above 1, as version 1 has them.

    What the client also says in the form of version 1 stands. Nothing is checked: the types of version 1 forgive
    what is wrong in it. `params` is not changed.
    """
    told = dict(params)
    if "info" in told:
        told.setdefault("clientInfo", told["info"])
    if isinstance(told.get("capabilities"), dict):
        told.setdefault("clientCapabilities", _capabilities(told["capabilities"]))
    return told


def _capabilities(told: dict[str, Any]) -> dict[str, Any]:
    """All but one have the same form in both versions: `auth.terminal` is an object in version 2."""
    auth = told.get("auth")
    if not isinstance(auth, dict) or not isinstance(cast("dict[str, Any]", auth).get("terminal"), dict):
        return told
    return {**told, "auth": {**auth, "terminal": True}}
