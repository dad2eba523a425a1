"""Whether a tool call may run: what the user decided before, the user's setting, or the user, now.

Two phases: the tool's request function says what is asked, then the answer is had. Nothing of the tool runs here. Only
a clear yes is one: no answer, an error, an option that was never offered and a client that cannot ask are a no.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio

from acp_server.errors import ConnectionClosed, ToolFailed
from acp_server.schema.content import TextContent
from acp_server.schema.tool_call import Content, PermissionOption, ToolCallContent, ToolCallUpdate
from acp_server.session.session import Session
from acp_server.session.settings import AUTO_APPROVE
from acp_server.tasks.threads import Threads
from acp_server.tools.approval import ALLOW, CONFIRMED, DECLINED, DISMISSED, REJECT, Approval, UserAction, unexplained
from acp_server.tools.context import ToolContext
from acp_server.tools.tool import Tool
from acp_server.tools.view import View, as_content

if TYPE_CHECKING:
    from acp_server.schema.tool_call import PermissionOption, ToolCallUpdate
    from acp_server.session.client import Client, PermissionAnswer

logger = logging.getLogger("acp_server.tools")

REFUSED: Final = "The user did not allow it, so it was not run."
NEVER: Final = "The user does not allow this tool in this session, so it was not run."
DISMISSED_WORDS: Final = "It was not approved, so it was not run."


class Approvals(Protocol):
    """Where decisions for all further calls of a tool are kept. By default that is the session, until it is closed."""

    async def get(self, session: Session, tool: str) -> bool | None:
        """Whether the user allowed the tool for good, or refused it for good; None if neither. `tool` is its
        `approval_key`, by default its name."""
        ...

    async def put(self, session: Session, tool: str, allowed: bool) -> None:
        """The user decided for all further calls."""
        ...


class SessionApprovals:
    """Kept with the session, in memory, until it is closed."""

    async def get(self, session: Session, tool: str) -> bool | None:
        """See `Approvals`."""
        return session.approvals.get(tool)

    async def put(self, session: Session, tool: str, allowed: bool) -> None:
        """See `Approvals`."""
        session.approvals[tool] = allowed


@dataclass(frozen=True, slots=True)
class Question:
    """What the user is asked, as it is sent."""

    call: ToolCallUpdate
    options: Sequence[PermissionOption]
    previews: Sequence[ToolCallContent]
    explanation: Sequence[ToolCallContent]
    """What is shown where the user is not asked."""
    title: str | None
    """The call's title, if it is to be another than the tool's."""


async def question(
    tool: Tool[Any], arguments: Mapping[str, Any], context: ToolContext, title: str, raw: Any
) -> Question:
    """What the user is asked. `raw`: the arguments as the model wrote them, as far as JSON can express them. Raises
    ToolFailed if the request function fails: then the user cannot be asked."""
    if not callable(tool.approval):
        return _question(unexplained(title, raw), tool, context, title, raw)
    ask = tool.approval
    passed = dict(arguments) if tool.asks_with_context is None else {**arguments, tool.asks_with_context: context}
    try:
        if inspect.iscoroutinefunction(ask):
            asked = await ask(**passed)
        else:
            asked = await Threads.current().run(f"the approval request of {tool.name}", lambda: ask(**passed))
            if inspect.isawaitable(asked):
                asked = await asked
        if isinstance(asked, str):
            asked = Approval(asked)
        if not isinstance(asked, Approval):
            raise TypeError(f"an approval request must return an Approval or text, not {type(asked).__name__}")
        return _question(asked, tool, context, title, raw)
    except (ToolFailed, ConnectionClosed):
        raise
    except Exception as error:
        logger.exception("the approval request of %s failed, so it is not run", tool.name)
        raise ToolFailed("The question for the user's approval could not be made, so it was not run.") from error


def _question(approval: Approval, tool: Tool[Any], context: ToolContext, title: str, raw: Any) -> Question:
    previews = [as_content(piece) for piece in approval.previews()]
    message = Content(content=TextContent(text=approval.message))
    call = ToolCallUpdate(
        tool_call_id=context.id,
        title=approval.title or title,
        kind=cast("Any", tool.kind),
        status="pending",
        raw_input=raw,
        content=[message, *previews],
    )
    # What cannot be written shows here, and not when it is to be sent.
    call.to_wire()
    explanation = [message, *previews] if approval.explains else previews
    return Question(call, _options(approval, tool), previews, explanation, approval.title)


async def decide(
    tool: Tool[Any], question: Question, context: ToolContext, view: View, store: Approvals, asking: Asking
) -> tuple[UserAction, str]:
    """What the user says, and what the model is told if the answer is not yes. `asking.always` is set if that holds for
    all calls of the tool."""
    session = context.session
    known = await _known(store, session, tool)
    if asking.settled is not None:
        known = asking.settled  # meanwhile
    if known is False:
        return DECLINED, NEVER
    if known or (tool.auto_approve and session.config(AUTO_APPROVE) is True):
        view.explain(question.title, *question.explanation)
        return CONFIRMED, ""
    view.keep(*question.previews)
    answer = None
    with anyio.move_on_after(tool.approval_timeout):
        answer = await asking.ask(session.client, question.call, question.options)
    if asking.settled is not None:
        return (CONFIRMED, "") if asking.settled else (DECLINED, NEVER)
    if answer is None:
        return DISMISSED, f"The user did not approve it within {tool.approval_timeout:g} s, so it was not run."
    if answer.kind is None:
        if answer.option_id is not None:
            logger.warning("the client chose an option that was not offered, so %s is not run", tool.name)
        return DISMISSED, DISMISSED_WORDS
    always = answer.kind.endswith("_always") and not context.is_cancelled
    if always and await _remember(store, session, tool, answer.allowed):
        asking.always = answer.allowed
    return (CONFIRMED, "") if answer.allowed else (DECLINED, REFUSED)


def _options(approval: Approval, tool: Tool[Any]) -> list[PermissionOption]:
    # What has no words cannot be chosen knowingly.
    allow = approval.primary if approval.primary.strip() else ALLOW
    reject = approval.secondary if approval.secondary.strip() else REJECT
    options = [("allow_once", allow), ("reject_once", reject)]
    if approval.remember:
        if not tool.asks_each_time:
            options.insert(1, ("allow_always", f"{allow}, always in this session"))
        options.append(("reject_always", f"{reject}, always in this session"))
    return [PermissionOption(option_id=kind, name=name, kind=cast("Any", kind)) for kind, name in options]


async def _known(store: Approvals, session: Session, tool: Tool[Any]) -> bool | None:
    try:
        known = await store.get(session, tool.approval_key)
    except Exception:
        logger.exception("what the user decided about %s could not be looked up; asking", tool.name)
        return None
    return None if known and tool.asks_each_time else known


async def _remember(store: Approvals, session: Session, tool: Tool[Any], allowed: bool) -> bool:
    try:
        await store.put(session, tool.approval_key, allowed)
    except Exception:
        logger.exception("what the user decided about %s is not kept", tool.name)
        return False
    return True


class Asking:
    """A question that is put once at most.

    An answer that has arrived counts more than a decision about another call, also before the call has looked at it. An
    answer that comes after the question was withdrawn has no effect.
    """

    def __init__(self) -> None:
        self.settled: bool | None = None
        """What another decision means for this call, if the question was withdrawn because of that."""
        self.always: bool | None = None
        """What this one means for all other calls of the tool."""
        self._scope = anyio.CancelScope()
        self._withdrawn = False
        self._arrived: PermissionAnswer | None = None

    def settle(self, allowed: bool) -> None:
        """The user has decided for all calls of the tool: withdraw the question, or do not put it."""
        if self.settled is None and not self._withdrawn:
            self.settled = allowed
            self._scope.cancel()

    async def ask(
        self, client: Client, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> PermissionAnswer | None:
        """What the user answers; None if it is `settled`. Raises ConnectionClosed."""
        with self._scope:
            return await client.request_permission(call, options, on_late=self._keep)
        # Not reached by a cut of the call, which this scope does not know.
        self._withdrawn = True
        if self._arrived is not None:
            self.settled = None
        return self._arrived

    def _keep(self, answer: PermissionAnswer) -> None:
        # An answer behind the withdrawal is not looked at any more.
        self._arrived = answer
