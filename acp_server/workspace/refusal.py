"""What the user asked for cannot be done. It does not decide how that is shown."""

from __future__ import annotations

from acp_server.errors import ToolFailed


class Refusal(ToolFailed):
    """A request that cannot be carried out.

    Its text is a sentence for the user, in Markdown; it names what the user typed and nothing else of the system.
    """
