"""What a user is asked before a tool runs, and what a user can say: plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

ALLOW: Final = "Allow"
REJECT: Final = "Reject"


@dataclass(frozen=True, slots=True)
class Approval:
    """What is shown when the user is asked whether a tool may run (ACP, Tool Calls: requesting permission)."""

    message: str
    """What is going to happen and why it has to be approved, in words for the user."""
    title: str | None = None
    """The call's title, if it is to be another than the tool's."""
    preview: Any = None
    """What the call would change or produce: text, a `schema.Diff`, a content block, or a sequence of those."""
    primary: str = ALLOW
    """The label of the choice that lets it run, this time. A blank one becomes the default."""
    secondary: str = REJECT
    """The label of the choice that does not, this time. A blank one becomes the default."""
    remember: bool = True
    """Whether the user may also choose for all further calls of the tool in the session."""

    def previews(self) -> Sequence[Any]:
        """The preview as a sequence."""
        if self.preview is None:
            return ()
        preview: Any = self.preview
        return cast("list[Any]", preview) if isinstance(preview, (list, tuple)) else [preview]


@dataclass(frozen=True, slots=True)
class UserAction:
    """What the user did. Both False: the question was dismissed, cancelled, or not answered in time."""

    primary_confirmed: bool
    """The tool may run."""
    secondary_confirmed: bool
    """The user declined."""


CONFIRMED: Final = UserAction(True, False)
DECLINED: Final = UserAction(False, True)
DISMISSED: Final = UserAction(False, False)
NOT_ASKED: Final = UserAction(True, False)
"""For tools that need no approval."""
