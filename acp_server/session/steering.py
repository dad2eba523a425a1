"""Messages of the user for a turn that runs: `_session/steering`, an extension that several agents and clients have.

On version 2 a prompt may be one, too, if the author wants it so. What a turn does with them is its author's matter.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from acp_server.errors import InvalidRequest
from acp_server.session.state import TurnState
from acp_server.store.history import Message

if TYPE_CHECKING:
    from acp_server.peer.call import Call
    from acp_server.session.definition import SteeringHandler
    from acp_server.session.session import Session


async def inject(handler: SteeringHandler, session: Session, content: list[dict[str, Any]], id: str) -> bool:
    """Hand a message of the user's to the turn that runs, of whose conversation it then is a part. False if there is
    none, or if it has ended by the time at which its author has taken the message. Raises what the handler raises."""
    turn = session.turns[0] if session.turns else None
    if turn is None or turn.state not in (TurnState.IN_PROGRESS, TurnState.REQUIRES_ACTION) or turn.is_cancelled:
        return False
    await handler(turn, Message("user", content))
    return turn.insert(content, id)


async def steer(call: Call, handler: SteeringHandler, session: Session) -> dict[str, Any]:
    """`_session/steering`: answers `injected`, or that no turn runs. Then the client is to send a prompt, if it can be
    told so; otherwise that is an error. For a turn that no request stands for could not be waited for or cancelled."""
    if await inject(handler, session, call.params["prompt"], f"msg_{os.urandom(12).hex()}"):
        return {"outcome": "injected"}
    asked = call.meta.get("steering")
    if isinstance(asked, dict) and cast("dict[str, Any]", asked).get("idleBehavior") == "promptRequired":
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}
    raise InvalidRequest("No turn is running; send it as a prompt", data={"reason": "noRunningTurn"})
