"""Where the agents of a token work: in a folder of their own and, where the gateway may, as a user of their own.

The owner of the folder is what is known of a token's user. So it stays the same in the next run of the gateway, and for
other gateways of this machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from acp_server.errors import UsageError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent works, and as who."""

    cwd: str
    user: int | None = None
    """The id of the user and of the group; None: those of the gateway."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables beside those of the gateway."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """Places below one folder, a name each."""

    cwd: str
    users: range | None = None
    """The ids that users may have; None: there are no users of their own."""

    def __post_init__(self) -> None:
        """Raises UsageError if the gateway may not start programs as other users."""
        if self.users is not None and (fcntl is None or os.geteuid() != 0):
            raise UsageError("only root can start agents as other users")

    def place(self, name: str) -> Place:
        """The place of this name, made if it is new. Waits for the disk. Raises OSError."""
        # "." and ".." are names, and "/" may be in one.
        folder = os.path.join(self.cwd, quote(name, safe="").replace(".", "%2E"))
        if self.users is None:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _check(folder)
            return Place(folder)
        return Place(folder, user := self._owned(folder, self.users), {"HOME": folder, "USER": str(user)})

    def _owned(self, folder: str, users: range) -> int:
        assert fcntl is not None
        # Not the folder itself: agents can open that, and what they lock they could keep from all others. No name has a
        # dot in its folder's name.
        lock = os.open(os.path.join(self.cwd, ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            # Two tokens that come at once, or to two gateways, get two users.
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            owner = _check(folder)
            if owner not in users:
                taken = {entry.stat(follow_symlinks=False).st_uid for entry in os.scandir(self.cwd)}
                owner = next((user for user in users if user not in taken), None)
                if owner is None:
                    raise OSError(f"all users from {users.start} to {users.stop - 1} are taken")
                os.chmod(folder, 0o700)
                os.chown(folder, owner, owner)
            return owner
        finally:
            os.close(lock)


def _check(folder: str) -> int:
    """The owner of a folder. Raises OSError if it is something else."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    return found.st_uid
