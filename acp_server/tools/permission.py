"""Decides whether a tool call may run: by an earlier decision of the user, by the user's setting, or by a question.

Each call has one `Permission`. The tool's request function makes the question, then the user answers. A tool runs only
after a clear yes. It does not run if there is no answer, if asking fails, if the client chooses an option that was not
offered, or if the client cannot ask. `acp_server.tools.approval` has the plain values for authors.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import anyio

from acp_server.errors import CapabilityMissing, ConnectionClosed, RpcError, ToolFailed
from acp_server.safe_text import escape, one_line
from acp_server.schema.tool_call import ToolCallLocation
from acp_server.session.session import Session
from acp_server.session.settings import AUTO_APPROVE
from acp_server.tasks.threads import Threads
from acp_server.tools.approval import (
    ALLOW,
    CONFIRMED,
    DECLINED,
    DISMISSED,
    DISMISSED_WORDS,
    NEVER,
    REFUSED,
    REJECT,
    Always,
    Approval,
    Approvals,
    UserAction,
    unexplained,
)
from acp_server.tools.context import CallState, ToolContext
from acp_server.tools.view import TITLE, Piece, as_content, piece_of, text_content, with_words

if TYPE_CHECKING:
    from acp_server.session.client import PermissionAnswer

logger: logging.Logger = logging.getLogger("acp_server.tools")


class SessionApprovals:
    """Stores decisions in the session, in memory, until the session is closed."""

    async def get(self, session: Session, tool: str) -> bool | None:
        """See `Approvals`."""
        return session.approvals.get(tool)

    async def put(self, session: Session, tool: str, allowed: bool) -> None:
        """See `Approvals`."""
        session.approvals[tool] = allowed


class Permission:
    """The approval of one tool call, from the question to the answer.

    The user gets at most one question. An answer that has arrived takes precedence over a decision about another call,
    even if this call has not yet read the answer. An answer that arrives after the question was withdrawn has no
    effect.
    """

    def __init__(self, call: CallState, context: ToolContext, store: Approvals) -> None:
        self._call = call
        self._context = context
        """The call, as it is passed to the author's functions that make the question."""
        self._tool = call.tool
        self._session = call.turn.session
        self._view = call.view
        self._store = store
        self.always: bool | None = None
        """The decision for all other calls with the same key; None if the answer is only for this call."""
        self.cancelled = False
        """Whether the client answered that the turn was cancelled."""
        self._scope: Always | None = None
        self._decided: bool | None = None
        """A decision about another call that also covers this call, if it came before this call's answer; else None."""
        self._asking = anyio.CancelScope()
        self._withdrawn = False
        self._late: PermissionAnswer | None = None

    # -- the question

    async def prepare(self, arguments: Mapping[str, Any], title: str, raw: Any) -> None:
        """Make the question. `raw`: the model's arguments as plain JSON, or None. If the request function raises
        ToolFailed, RpcError, CapabilityMissing or ConnectionClosed, that exception is raised. All other exceptions
        become a ToolFailed."""
        tool = self._tool
        try:
            if callable(tool.approval):
                approval = await self._requested(tool.approval, arguments)
            else:
                approval = unexplained(title, raw)
            self._scope = tool.always(arguments, self._context)
            self._word(approval, title, raw)
        except (ToolFailed, RpcError, CapabilityMissing, ConnectionClosed):
            # The model gets their text, as if the tool itself had raised them.
            raise
        except Exception as error:
            logger.exception("the approval request of %s failed, so the tool is not run", tool.name)
            raise ToolFailed(
                "The tool was not run, because the question for the user's approval could not be made."
            ) from error

    async def _requested(self, ask: Callable[..., Any], arguments: Mapping[str, Any]) -> Approval:
        """Call the tool's request function and return its question."""
        tool = self._tool
        passed = dict(arguments)
        if tool.asks_with_context is not None:
            passed[tool.asks_with_context] = self._context
        if inspect.iscoroutinefunction(ask):
            asked = await ask(**passed)
        else:
            asked = await Threads.current().run(f"the approval request of {tool.name}", lambda: ask(**passed))
        while inspect.isawaitable(asked):
            asked = await asked
        if isinstance(asked, str):
            asked = Approval(asked)
        if not isinstance(asked, Approval):
            raise TypeError(f"an approval request must return an Approval or a string, not {type(asked).__name__}")
        return asked

    def _word(self, approval: Approval, title: str, raw: Any) -> None:
        self._title = None if approval.title is None else one_line(approval.title, TITLE)
        # Encoded here and not when it is sent, so that the call fails with a message for the model.
        given = () if approval.preview is None else approval.previews()
        previews = list(map(piece_of, map(as_content, given)))
        # Diffs first: some clients show only the first content as one. The sort is stable.
        previews.sort(key=lambda piece: piece[0]["type"] != "diff")
        message = escape(approval.message)
        self._message: Piece = (text_content(message), len(message))
        self._previews = previews
        self._told = with_words(previews, self._message) if previews else [self._message]
        self._explains = approval.explains
        self._shown: dict[str, Any] = {
            "toolCallId": self._call.id,
            "title": self._title or title,
            "kind": self._tool.kind,
            "status": "pending",
            "content": list(map(itemgetter(0), self._told)),
        }
        if raw is not None:
            self._shown["rawInput"] = raw
        covers = self._scope.covers if approval.remember and self._scope is not None else None
        self._options = _options(approval.primary, approval.secondary, covers, self._tool.asks_each_time)

    @property
    def key(self) -> str | None:
        """The key of a decision for all further calls; None if the user cannot decide for all further calls."""
        return None if self._scope is None else self._scope.key

    # -- the answer

    def decide_for_all(self, allowed: bool) -> None:
        """Apply a decision about another call that also covers this call: withdraw the question, or do not send it.
        Only the first decision counts."""
        if self._decided is None and not self._withdrawn:
            self._decided = allowed
            self._asking.cancel()

    async def decide(self) -> tuple[UserAction, str]:
        """Return the user's decision, and the message for the model if the tool may not run. Raises
        ConnectionClosed."""
        tool = self._tool
        known = await self._known()
        if self._decided is not None:
            # A decision about another call came while the store was read.
            known = self._decided
        if known is False:
            return DECLINED, NEVER
        is_open = tool.auto_approve and self._scope is not None
        if known or (is_open and self._session.config(AUTO_APPROVE, None) is True):
            self._view.explain(self._title, self._told if self._explains else self._previews)
            return CONFIRMED, ""
        # Some clients show only buttons for the question, so the call itself shows its text.
        self._view.ask(self._title, self._message, self._previews)
        self._shown["locations"] = [*map(ToolCallLocation.to_wire, self._view.locations)]
        answer = None
        with anyio.move_on_after(tool.approval_timeout):
            answer = await self._ask()
        if self._decided is not None:
            return (CONFIRMED, "") if self._decided else (DECLINED, NEVER)
        if answer is None:
            return DISMISSED, f"The user did not approve it within {tool.approval_timeout:g} s, so it was not run."
        if answer.kind is None:
            if answer.option_id is not None:
                logger.warning(
                    "the client's answer names an option that was not offered, so the tool %s is not run", tool.name
                )
            self.cancelled: bool = answer.cancelled
            return DISMISSED, DISMISSED_WORDS
        always = answer.kind.endswith("_always") and self._call.node.cause is None
        if always and await self._remember(answer.allowed):
            self.always = answer.allowed
        return (CONFIRMED, "") if answer.allowed else (DECLINED, REFUSED)

    async def _ask(self) -> PermissionAnswer | None:
        """Ask the user. Returns the answer; None if the question was withdrawn first."""
        with self._asking:
            return await self._session.client.ask_permission(self._shown, self._options, on_late=self._keep_late)
        # Only a withdrawal comes here. When the call itself is cancelled, its exception passes this scope.
        self._withdrawn = True
        if self._late is not None:
            self._decided = None
        return self._late

    def _keep_late(self, answer: PermissionAnswer) -> None:
        # An answer that comes while the question is withdrawn counts. A later one is not read.
        self._late = answer

    async def _known(self) -> bool | None:
        """Return the earlier decision for all calls with this key; None if there is none or the store fails."""
        if self._scope is None:
            return None
        try:
            known = await self._store.get(self._session, self._scope.key)
        except Exception:
            logger.exception("cannot read the stored decision about %s, so the user is asked", self._tool.name)
            return None
        return None if known and self._tool.asks_each_time else known

    async def _remember(self, allowed: bool) -> bool:
        assert self._scope is not None, "only what has a key is offered for always"
        try:
            await self._store.put(self._session, self._scope.key, allowed)
        except Exception:
            logger.exception("cannot store the user's decision about %s", self._tool.name)
            return False
        return True


_COVERS: Final = 200
"""The most characters of `Always.covers` in a label."""


@lru_cache(maxsize=64)
def _options(primary: str, secondary: str, covers: str | None, asks_each_time: bool) -> tuple[dict[str, Any], ...]:
    """Return the options in their wire form. `covers`: see `Always`; if it is None, there are no options for all
    further calls."""
    # A blank label would not tell the user what the option does.
    allow = primary if primary.strip() else ALLOW
    reject = secondary if secondary.strip() else REJECT
    options = [("allow_once", allow), ("reject_once", reject)]
    if covers is not None:
        always = f"always in this session: {one_line(covers, _COVERS, exact=True)}"
        if not asks_each_time:
            options.insert(1, ("allow_always", f"{allow}, {always}"))
        options.append(("reject_always", f"{reject}, {always}"))
    return tuple({"optionId": kind, "name": escape(name), "kind": kind} for kind, name in options)
