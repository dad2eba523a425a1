"""Text fit to be shown: what comes from files, file names and users may hold anything."""

from __future__ import annotations

import re

# Control characters move cursors and hide text; lone surrogates cannot be written as UTF-8. A tab is only a
# tab.
_UNFIT = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
_LONGEST_QUOTE = 200


def shown(text: str) -> str:
    """The text on one line, each character that must not be shown as U+FFFD."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


def quoted(text: str) -> str:
    """What a user typed, to be named in a message: `shown`, and cut if it is very long."""
    return shown(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…")
