"""What an approval request function of an `AssistantTool` returns: the question for the user, with its labels."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import StrictBool, ValidationError

from acp_server.errors import UsageError
from acp_server.tools.approval import Approval
from acp_server.tools.assistant.manifest import Said
from acp_server.tools.assistant.manifest_parameter import Part

logger = logging.getLogger("acp_server.tools")


class PreviewButton(Part):
    """What the user can look at before deciding. Clients have no button for it, so it is shown with the question."""

    label: Said
    """Its name, and the heading of what is shown."""
    action: Callable[[], Any]
    """Opens a diff with the editor, or returns what is to be shown, text or content. It changes nothing."""


class ApprovalRequest(Part):
    """The question. As a dict, its keys may be written in either case: `previewButton` or `preview_button`."""

    message: Said
    """What is going to happen, and why the user is asked."""
    title: str | None = None
    """A title for the call, if it is to be another than the tool's."""
    preview_button: PreviewButton | None = None
    """What the user can look at before deciding."""
    primary_button_label: str | None = None
    """The label of yes."""
    secondary_button_label: str | None = None
    """The label of no."""
    remember: StrictBool = True
    """Whether the user may also choose for all further calls, as in `Approval`."""

    @classmethod
    def read(cls, value: Any) -> ApprovalRequest:
        """What a function returned. Raises UsageError, which says what is wrong with it."""
        if isinstance(value, ApprovalRequest):
            return value
        if not isinstance(value, Mapping):
            raise UsageError(f"an approval request must be an ApprovalRequest or a dict, not {type(value).__name__}")
        try:
            request = cls.model_validate(value)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, detail['loc']))}: {detail['msg'].removeprefix('Value error, ')}"
                for detail in error.errors(include_url=False, include_input=False, include_context=False)
            )
            raise UsageError(f"an approval request does not fit: {problems}") from None
        if request.model_extra:
            logger.warning("an approval request has no %s", ", ".join(request.model_extra))
        return request

    def approval(self, preview: list[Any]) -> Approval:
        """The same as it is asked here."""
        return Approval(
            self.message,
            title=self.title or None,
            preview=preview or None,
            primary=self.primary_button_label or "Allow",
            secondary=self.secondary_button_label or "Cancel",
            remember=self.remember,
        )
