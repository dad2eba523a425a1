"""Writes files that only their owner may read, because the subject's messages in them may be secret."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_DEVICES = ("/dev", "/dev/fd")

# A system without it does not need it.
_ALWAYS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


def write_private(path: Path, data: bytes) -> None:
    """Create or replace a file that only its owner may read, whatever its permissions were. Raises OSError, also for
    symbolic links and for files that would block the program, such as a named pipe. An entry of `/dev`, such as
    `/dev/stdout`, belongs to the system, so it is written even if it is a link."""
    if os.path.dirname(path) in _DEVICES:
        path.write_bytes(data)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | _ALWAYS, 0o600)
    with open(descriptor, "wb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            if hasattr(os, "fchmod") and stat.S_IMODE(mode) & 0o077:
                with suppress(PermissionError):  # a file of another user, who has let us write it
                    os.fchmod(descriptor, stat.S_IMODE(mode) & 0o600)
            os.ftruncate(descriptor, 0)
        elif not stat.S_ISCHR(mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        file.write(data)
