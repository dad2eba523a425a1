"""The bots that clients name, and the pools of their agents' processes.

Each bot has one pool. If tokens are isolated, each bot has one pool for each token name, with a separate folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from anyio.abc import TaskGroup

from acp_server import UsageError
from acp_server.apps.gateway.errors import EVERY_OTHER, ApiError, Code
from acp_server.apps.gateway.pool import Pool
from acp_server.apps.gateway.program import Place
from acp_server.apps.gateway.records import KnownSession

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None


class Bots:
    """The current bots, by the id that clients use, and removed bots that still have chats."""

    def __init__(self, make: Callable[[str, Sequence[str], str | None], Pool], *, isolated: bool = False) -> None:
        """`make` makes a pool. It is called with the name of a bot, the command of its agent, and the name of the token
        that the pool serves; None if the pool serves all tokens."""
        self._make = make
        self._isolated = isolated
        self._commands: dict[str, Sequence[str]] = {}
        self._pools: dict[tuple[str, str | None], Pool] = {}
        self._retired: list[Pool] = []
        self._group: TaskGroup | None = None

    def set(
        self, commands: Mapping[str, Sequence[str]], other: Sequence[str] | None, owners: frozenset[str] = frozenset()
    ) -> None:
        """Set the bots. `other` serves every id that is not in `commands`. A bot with an unchanged command keeps its
        pool, unless the pool serves a token name that is not in `owners`."""
        self._forget_ended()
        self._commands = wanted = dict(commands) if other is None else {**commands, EVERY_OTHER: other}
        for (name, owner), pool in list(self._pools.items()):
            is_known = owner is None or owner in owners
            if not is_known or list(wanted.get(name, ())) != list(pool.command):
                pool.retire()
                self._retired.append(self._pools.pop((name, owner)))
        if not self._isolated:
            for name in wanted:
                self._pool(name, None)

    def running(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of running processes and of chats that wait for a session, by bot."""
        self._forget_ended()
        there: dict[str, tuple[int, int]] = dict.fromkeys(self._commands, (0, 0))
        for pool in (*self._pools.values(), *self._retired):
            running, waiting = there.get(pool.name, (0, 0))
            there[pool.name] = (running + pool.running, waiting + pool.waiting)
        return there

    def find(self, bot_id: str, owner: str) -> Pool:
        """Return the pool of a bot for this token name. Raises ApiError 4200."""
        name = bot_id if bot_id in self._commands else EVERY_OTHER
        if name not in self._commands:
            raise ApiError(Code.NOT_FOUND, f"Requested resource bot_id={bot_id} does not exist")
        return self._pool(name, owner)

    def release(self, owner: str, known: KnownSession) -> None:
        """Release the session, see `Pool.release`. The session of a removed bot is kept."""
        if known.bot in self._commands:
            self._pool(known.bot, owner).release(known)

    def use(self, group: TaskGroup) -> None:
        """See `Pool.use`."""
        self._group = group
        for pool in self._pools.values():
            pool.use(group)

    def kill(self) -> None:
        """See `Pool.kill`."""
        for pool in (*self._pools.values(), *self._retired):
            pool.kill()

    def _forget_ended(self) -> None:
        self._retired = [pool for pool in self._retired if pool.running or pool.waiting]

    def _pool(self, name: str, owner: str | None) -> Pool:
        key = name, owner if self._isolated else None
        if key not in self._pools:
            self._pools[key] = pool = self._make(name, self._commands[name], key[1])
            if self._group is not None and not self._group.cancel_scope.cancel_called:
                pool.use(self._group)
        return self._pools[key]


@dataclass(frozen=True, slots=True)
class Isolation:
    """Assigns each token name its own folder below one folder and, if the gateway may, its own user.

    The owner of the folder is the user of the name. So the user stays the same in later runs of the gateway, and for
    other gateways on this machine.
    """

    cwd: str
    users: range | None = None
    """The user ids to assign. None means that there are no separate users."""

    def __post_init__(self) -> None:
        """Raise UsageError if the gateway must not start programs as other users."""
        if self.users is not None and (fcntl is None or os.geteuid() != 0):
            raise UsageError("only root can start agents as other users")

    def place(self, name: str) -> Place:
        """Return the folder and the user of this token name. A missing folder is created. Waits for the disk. Raises
        OSError."""
        # "." and ".." are possible names, and a name may have "/".
        folder = os.path.join(self.cwd, quote(name, safe="").replace(".", "%2E"))
        if self.users is None:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _check(folder)
            return Place(folder)
        return Place(folder, user := self._owned(folder, self.users), {"HOME": folder, "USER": str(user)})

    def _owned(self, folder: str, users: range) -> int:
        assert fcntl is not None
        # Not the folder itself: agents can open it, and could block all others by locking it. No folder of a name has a
        # dot in its own name.
        lock = os.open(os.path.join(self.cwd, ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            # Two tokens that come at once, or to two gateways, must get two users.
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            owner = _check(folder)
            if owner not in users:
                taken = {entry.stat(follow_symlinks=False).st_uid for entry in os.scandir(self.cwd)}
                owner = next((user for user in users if user not in taken), None)
                if owner is None:
                    raise OSError(f"all users from {users.start} to {users.stop - 1} are in use")
                os.chmod(folder, 0o700)
                os.chown(folder, owner, owner)
            return owner
        finally:
            os.close(lock)


def _check(folder: str) -> int:
    """Return the owner of a folder. Raises OSError if the path is not a folder."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    return found.st_uid
