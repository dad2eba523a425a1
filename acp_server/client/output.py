"""The output of a command as text, of which only the end is kept (ACP, Terminals).

Whole characters go in and out, so that no cut leaves half of one.
"""

from __future__ import annotations

import codecs


class Output:
    """Bytes in, text out: at most `limit` bytes of it in UTF-8. What is not UTF-8 is replaced."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.truncated = False
        """Whether older output has been dropped."""

    def feed(self, data: bytes, final: bool = False) -> None:
        """Add what the command has written; `final`: no more will come, so half a character stays half."""
        self._kept += self._decoder.decode(data, final).encode()
        excess = len(self._kept) - self._limit
        if excess <= 0:
            return
        self.truncated = True
        # The bytes of a character after its first are 10xxxxxx.
        while excess < len(self._kept) and self._kept[excess] & 0xC0 == 0x80:
            excess += 1
        del self._kept[:excess]

    @property
    def text(self) -> str:
        """What is kept."""
        return self._kept.decode()
