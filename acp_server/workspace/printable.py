"""Text fit to be shown, for files, names, programs and users may hold anything; and what the user is told instead of a
result.
"""

from __future__ import annotations

import codecs
import io
import re
from typing import TYPE_CHECKING

from acp_server.errors import AcpError, ConnectionClosed, RequestCancelled, ToolFailed
from acp_server.store.history import ESCAPE
from acp_server.tools.approval import code

if TYPE_CHECKING:
    from acp_server.tools.context import ToolContext

# Control characters move cursors and hide text; lone surrogates cannot be written as UTF-8. A tab is only a
# tab.
_UNFIT = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
_UNFIT_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LONGEST_ESCAPE = 256
_LONGEST_QUOTE = 200
_INSTEAD = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text on one line. U+FFFD stands for each character that must not be shown."""
    return _UNFIT.sub(_INSTEAD, text)


def quoted(text: str) -> str:
    """What a user typed, to be named in a message, as code: `printable`, and cut if it is very long."""
    return code(printable(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"))


class Printed:
    """What a program prints, piece by piece, as lines of text without what is meant for a terminal."""

    def __init__(self) -> None:
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        self._held = ""

    def feed(self, data: bytes, final: bool = False) -> str:
        """What can be shown now; `final`: no more will come."""
        text = ESCAPE.sub("", self._held + self._decoder.decode(data, final))
        begun = -1 if final else text.rfind("\x1b", -_LONGEST_ESCAPE)
        self._held = "" if begun < 0 else text[begun:]
        return _UNFIT_IN_LINES.sub(_INSTEAD, text if begun < 0 else text[:begun])


class Refusal(ToolFailed):
    """A request that cannot be carried out.

    Its text is a sentence for the user, in Markdown; it names what the user typed and nothing else of the system.
    """


def is_end(error: AcpError, call: ToolContext) -> bool:
    """Whether what was asked of the client failed because the call or the connection ends, and not for what it was."""
    return isinstance(error, ConnectionClosed) or (isinstance(error, RequestCancelled) and call.is_cancelled)
