"""The question to the user before a tool runs (`Approval`), and the user's decision (`UserAction`). Both are plain
data.

Clients render the question as Markdown. So arguments are escaped and put into code blocks that no argument can
close.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from acp_server.errors import UsageError
from acp_server.safe_text import escape, one_line
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.session.session import Session

ALLOW: Final = "Allow"
REJECT: Final = "Reject"


@dataclass(frozen=True, slots=True)
class Approval:
    """The question to the user whether a tool may run (ACP, Tool Calls: requesting permission)."""

    message: str
    """What the call will do and why it needs approval, for the user."""
    title: str | None = None
    """The call's title; None for the tool's title."""
    preview: Any = None
    """The change that the call would make, or its result: text, a `schema.Diff`, a content block, or a sequence of
    them."""
    primary: str = ALLOW
    """The label of the option that allows this call. A blank label becomes the default."""
    secondary: str = REJECT
    """The label of the option that rejects this call. A blank label becomes the default."""
    remember: bool = True
    """Whether the user may also decide for all further calls of the tool in the session. For a tool that asks each
    time, the user can only reject all further calls."""
    explains: bool = True
    """Whether the message is also shown for a call that is already approved, although the user is then not asked."""

    def previews(self) -> Sequence[Any]:
        """Return the preview as a sequence."""
        if self.preview is None:
            return ()
        preview: Any = self.preview
        return cast("list[Any]", preview) if isinstance(preview, (list, tuple)) else [preview]


@dataclass(frozen=True, slots=True)
class Always:
    """Says which calls are covered by a decision for all further calls.

    `key`: the key under which the decision is stored; calls with the same key share it. `covers`: a text that describes
    these calls in the label of the option, such as "this file".
    """

    key: str
    covers: str


class Approvals(Protocol):
    """Stores decisions for all further calls of a tool. By default they are kept in the session until it is closed."""

    async def get(self, session: Session, tool: str) -> bool | None:
        """Return True if the user allowed all further calls, False if the user rejected them, and None if the user did
        neither. `tool`: the key of the calls' `Always`, by default the tool's name."""

    async def put(self, session: Session, tool: str, allowed: bool) -> None:
        """Store the decision of the user for all further calls."""


def unexplained(title: str, arguments: Any) -> Approval:
    """Return the question for a tool without a request function: its title and its arguments. `arguments` are plain
    JSON values."""
    question = f"May this run: {escape(title)}?"
    shown = _preview(arguments)
    return Approval(f"{question}\n\n{shown}" if shown else question, explains=False)


@dataclass(frozen=True, slots=True)
class UserAction:
    """The user's decision. In a condition, it is true if the tool may run. Both members are False if the question was
    dismissed, cancelled, or not answered in time."""

    primary_confirmed: bool
    """Whether the tool may run."""
    secondary_confirmed: bool
    """Whether the user declined."""

    def __bool__(self) -> bool:
        return self.primary_confirmed

    @classmethod
    def read(cls, value: UserAction | Mapping[str, Any]) -> UserAction:
        """Read a decision from a mapping. Its keys may be camel case or snake case: `primaryConfirmed` or
        `primary_confirmed`. A missing key counts as False. Raises UsageError for any other value."""
        if isinstance(value, UserAction):
            return value
        if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a user action must be a UserAction or a mapping, not {type(value).__name__}")
        found = {_SPELLINGS.get(key, key): confirmed for key, confirmed in value.items()}
        unknown = found.keys() - set(_SPELLINGS.values())
        if unknown or len(found) < len(value) or not all(isinstance(confirmed, bool) for confirmed in found.values()):
            raise UsageError(f"a user action needs the bools primary_confirmed and secondary_confirmed, not {value!r}")
        return cls(found.get("primary_confirmed", False), found.get("secondary_confirmed", False))


_SPELLINGS: Final = {
    "primaryConfirmed": "primary_confirmed",
    "primary_confirmed": "primary_confirmed",
    "secondaryConfirmed": "secondary_confirmed",
    "secondary_confirmed": "secondary_confirmed",
}


CONFIRMED: Final = UserAction(True, False)
DECLINED: Final = UserAction(False, True)
DISMISSED: Final = UserAction(False, False)
NOT_ASKED: Final = UserAction(True, False)
"""The action of a tool that needs no approval."""


REFUSED: Final = "The user did not allow it, so it was not run."
NEVER: Final = "The user does not allow this in this session, so it was not run."
DISMISSED_WORDS: Final = "It was not approved, so it was not run."

_FOR_USERS: Final = {
    REFUSED: "It was not allowed, so it was not run.",
    NEVER: "It is not allowed in this session, so it was not run.",
}


def for_users(words: str) -> str:
    """Return the text for the user that replaces `words`, a text for the model that speaks about the user."""
    return _FOR_USERS.get(words, words)


def block(text: str) -> str:
    """Return `text` as a fenced code block, with a final line break. The fence is longer than any run of `~` in the
    text."""
    fence = "~" * max(4, 1 + max(map(len, re.findall("~+", text)), default=0))
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}\n"


def code(text: str) -> str:
    """Return `text`, which must be one line, as inline code."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (1 + max(map(len, re.findall("`+", text))))
    return f"{ticks} {text} {ticks}"


_VALUE: Final = 4_000
"""The most characters that are shown of one argument."""

_ARGUMENTS: Final = 50
"""The most arguments that are shown."""


def _preview(arguments: Any) -> str:
    """Return the arguments as a code block, one below the other; empty without arguments. Of a long value, only the
    beginning and the end are shown; the client has the whole value in `rawInput`."""
    if not arguments:
        return ""
    if not isinstance(arguments, dict):
        return block(_text(arguments))
    named = cast("dict[str, Any]", arguments)
    lines: list[str] = []
    for name, value in islice(named.items(), _ARGUMENTS):
        shown = name if name.isascii() and name.isidentifier() else one_line(name, _VALUE, exact=True)
        lines.append(f"{shown}: {_text(value)}")
    if len(named) > _ARGUMENTS:
        lines.append(f"[{len(named) - _ARGUMENTS} more arguments]")
    return block("\n".join(lines))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return escape(_shortened(codec.encode(value).decode().rstrip("\n")), exact=True)
    # Shortened before it is escaped, because escaping takes a microsecond for each character.
    value = escape(value if len(value) <= _VALUE else _shortened(value), exact=True)
    # Indented below its name, so that no line of it looks like another argument.
    return "\n" + indent(value, "    ", lambda _: True) if "\n" in value else value


def _shortened(text: str) -> str:
    if len(text) <= _VALUE:
        return text
    half = _VALUE // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"


__all__ = ["ALLOW", "REJECT", "block", "code", "for_users", "unexplained"]
