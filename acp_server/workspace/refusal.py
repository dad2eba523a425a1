"""What the user asked for cannot be done, and why. It does not decide how that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_server.errors import AcpError, ConnectionClosed, RequestCancelled, ToolFailed

if TYPE_CHECKING:
    from acp_server.tools.context import ToolContext


class Refusal(ToolFailed):
    """A request that cannot be carried out.

    Its text is a sentence for the user, in Markdown; it names what the user typed and nothing else of the system.
    """


def is_end(error: AcpError, call: ToolContext) -> bool:
    """Whether what was asked of the client failed because the call or the connection ends, and not for what it was."""
    return isinstance(error, ConnectionClosed) or (isinstance(error, RequestCancelled) and call.is_cancelled)
