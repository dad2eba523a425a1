"""What waits in a terminal's input: typed or pasted before the program asked for it."""

from __future__ import annotations

import os
import select
import sys

if sys.platform == "win32":
    import msvcrt

    def lines_typed_ahead(fd: int) -> bytes:
        """Take it out. Of the console of Windows there are no lines to be had: what was typed is dropped."""
        while msvcrt.kbhit():
            msvcrt.getwch()
        return b""

    def is_typed_ahead(fd: int) -> bool:
        """Whether there is any."""
        return msvcrt.kbhit()

else:
    import termios

    def lines_typed_ahead(fd: int) -> bytes:
        """Take it out: the whole lines. What was typed of another one is dropped."""
        lines = b""
        while is_typed_ahead(fd) and (line := os.read(fd, 1 << 16)):
            lines += line
        try:
            termios.tcflush(fd, termios.TCIFLUSH)
        except termios.error:
            pass  # the terminal is gone, as the next reading will find
        return lines

    def is_typed_ahead(fd: int) -> bool:
        """Whether there is any: in a terminal that edits lines, whether there is a whole line."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(0))
