"""What a user is asked before a tool runs (`Approval`), and what a user can say (`UserAction`). Plain data.

Users see it as Markdown: blocks that nothing in them can end, and arguments that can be read.
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
    """Whether the user may also choose for all further calls of the tool in the session. For a tool that asks each time
    that is only a no."""
    explains: bool = True
    """Whether the message is worth reading, too, where the user is not asked because the call is approved already."""

    def previews(self) -> Sequence[Any]:
        """The preview as a sequence."""
        if self.preview is None:
            return ()
        preview: Any = self.preview
        return cast("list[Any]", preview) if isinstance(preview, (list, tuple)) else [preview]


@dataclass(frozen=True, slots=True)
class Always:
    """What a decision for always is about.

    `key`: what it is kept under; calls with the same key share it. `covers`: which calls these are, in words for the
    user, who reads them in the label of the choice: "this file".
    """

    key: str
    covers: str


class Approvals(Protocol):
    """Where decisions for all further calls of a tool are kept. By default that is the session, until it is closed."""

    async def get(self, session: Session, tool: str) -> bool | None:
        """Whether the user allowed such calls for good, or refused them for good; None if neither. `tool` is the key of
        their `Always`, by default the tool's name."""

    async def put(self, session: Session, tool: str, allowed: bool) -> None:
        """The user decided for all further calls."""


def unexplained(title: str, arguments: Any) -> Approval:
    """The question about a tool whose author says nothing about its calls: what will be run. `arguments`: as JSON has
    them."""
    question = f"May this run: {escape(title)}?"
    shown = _preview(arguments)
    return Approval(f"{question}\n\n{shown}" if shown else question, explains=False)


@dataclass(frozen=True, slots=True)
class UserAction:
    """What the user did. It is true if the tool may run. Both False: the question was dismissed, cancelled, or not
    answered in time."""

    primary_confirmed: bool
    """The tool may run."""
    secondary_confirmed: bool
    """The user declined."""

    def __bool__(self) -> bool:
        return self.primary_confirmed

    @classmethod
    def read(cls, value: UserAction | Mapping[str, Any]) -> UserAction:
        """From a mapping, with its keys written in either case: `primaryConfirmed` or `primary_confirmed`. A missing
        key is False. Raises UsageError for anything else."""
        if isinstance(value, UserAction):
            return value
        if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a user action is a UserAction or a mapping, not {type(value).__name__}")
        found = {_SPELLINGS.get(key, key): confirmed for key, confirmed in value.items()}
        unknown = found.keys() - set(_SPELLINGS.values())
        if unknown or len(found) < len(value) or not all(isinstance(confirmed, bool) for confirmed in found.values()):
            raise UsageError(f"a user action has primary_confirmed and secondary_confirmed, two bools, not {value!r}")
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
"""For tools that need no approval."""


REFUSED: Final = "The user did not allow it, so it was not run."
NEVER: Final = "The user does not allow this in this session, so it was not run."
DISMISSED_WORDS: Final = "It was not approved, so it was not run."

_FOR_USERS: Final = {
    REFUSED: "It was not allowed, so it was not run.",
    NEVER: "It is not allowed in this session, so it was not run.",
}


def for_users(words: str) -> str:
    """What the user is told where the model is told these words: about the user."""
    return _FOR_USERS.get(words, words)


def block(text: str) -> str:
    """The text as a block of code, with a line break behind it."""
    fence = "~" * max(4, 1 + max(map(len, re.findall("~+", text)), default=0))
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}\n"


def code(text: str) -> str:
    """The text, on one line, as code inside of a line."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (1 + max(map(len, re.findall("`+", text))))
    return f"{ticks} {text} {ticks}"


_VALUE: Final = 4_000
"""Characters of one argument."""

_ARGUMENTS: Final = 50
"""How many are shown."""


def _preview(arguments: Any) -> str:
    """One argument below the other, as a block of code; empty if there are none. Of a long one the beginning and the
    end are shown, and how much is left out; the client has all of it (`rawInput`)."""
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
    # What is left out is not escaped: that takes a microsecond for each character.
    value = escape(value if len(value) <= _VALUE else _shortened(value), exact=True)
    # Below its name, and further in, so that none of its lines looks like another argument.
    return "\n" + indent(value, "    ", lambda _: True) if "\n" in value else value


def _shortened(text: str) -> str:
    if len(text) <= _VALUE:
        return text
    half = _VALUE // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"


__all__ = ["ALLOW", "REJECT", "block", "code", "for_users", "unexplained"]
