"""A PostgreSQL of the tests' own: in a temporary folder, on a Unix socket, as an ordinary user."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 60


def _program(name: str) -> str | None:
    found = shutil.which(name)
    return found or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)


def _user() -> dict[str, Any] | None:
    """How to start a program that refuses to be root's; None if there is no user for it."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return None


class Server:
    """A server that runs."""

    def __init__(self, folder: Path, user: dict[str, Any]) -> None:
        self._folder = folder
        self._user = user
        self._databases = 0
        self._ctl("initdb", "-D", f"{folder}/data", "-U", "gateway", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        options = (
            f"-c listen_addresses='' -c unix_socket_directories='{self._folder}' -c fsync=off -c max_connections=100"
        )
        log = f"{self._folder}/log"
        self._ctl("pg_ctl", "-D", f"{self._folder}/data", "-w", "-s", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._ctl("pg_ctl", "-D", f"{self._folder}/data", "-w", "-s", "-m", "fast", "stop")

    def database(self) -> str:
        """The URL of a new database."""
        self._databases += 1
        self._ctl("createdb", "-h", str(self._folder), "-U", "gateway", name := f"test{self._databases}")
        return f"postgresql://gateway@/{name}?host={self._folder}"

    def _ctl(self, name: str, *words: str) -> None:
        program = _program(name)
        assert program is not None
        done = subprocess.run(
            [program, *words], **self._user, cwd=self._folder, timeout=PATIENCE, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@contextmanager
def postgres() -> Iterator[Server]:
    """Run one, or skip the test with the reason."""
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    missing = [name for name in ("initdb", "pg_ctl", "createdb") if _program(name) is None]
    if missing:
        pytest.skip(f"PostgreSQL is not installed: there is no {missing[0]}")
    user = _user()
    if user is None:
        pytest.skip("PostgreSQL refuses to run as root, and there is no user called postgres or nobody")
    # Not below the folder of pytest, which only its user can enter. Short, for the path of a socket is.
    with tempfile.TemporaryDirectory(prefix="acp-pg-", ignore_cleanup_errors=True) as name:
        if user:
            os.chown(name, user["user"], user["group"])
        server = Server(Path(name), user)
        try:
            yield server
        finally:
            server.stop()
