"""What a process that is forked off must not share with us: it is not an agent, and we end it.

Only forks without a new program are meant, as `multiprocessing` makes them; what starts another program loses all of it
by itself. On Windows there are none.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Final

_undo: Final[dict[Callable[[], None], None]] = {}
_blocked = threading.local()
_installed = False


def undo_in_forks(function: Callable[[], None]) -> None:
    """Call `function` in each process that is forked off from now on, until `keep_in_forks`.

    A signal to that process comes when it is done, so what it undoes may be a handler.
    """
    global _installed
    if not _installed and sys.platform != "win32":
        # Nothing takes this back, so it is there once, and empty as a rule.
        os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_forked)
        _installed = True
    _undo[function] = None


def keep_in_forks(function: Callable[[], None]) -> None:
    """Do not call it any more. No effect if it was not to be called."""
    _undo.pop(function, None)


if sys.platform != "win32":

    def _before() -> None:
        # Python forgets what a child gets before it is ready.
        signals: Iterable[int] = signal.valid_signals() if _undo else ()
        _blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def _unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _blocked.before)

    def _forked() -> None:
        for function in list(_undo):
            function()
        _undo.clear()
        try:
            _unblock()
        except KeyboardInterrupt:
            # It would be lost here, for nothing can be raised from here.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
