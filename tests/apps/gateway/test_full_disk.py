"""A store that cannot be written when the gateway starts: the command says so in one line, and ends."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from .serving import PATIENCE


@pytest.mark.parametrize("size", [0, 4096, 16384])
def test_a_store_that_cannot_grow_is_said_at_the_start(tmp_path: Path, size: int) -> None:
    # As a full disk does, this fails the write itself; Python ignores the signal that comes with it. With -B, since an
    # interpreter would keep the bytecode of a module that it imports cut off at the limit, for all that come after it.
    ended = subprocess.run(
        [sys.executable, "-B", "-m", "acp_server", "gateway", "--port", "0", "--store", str(tmp_path / "store")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.splitlines() == [
        f"acp-server: {tmp_path / 'store'} cannot be used: it cannot be written: the disk fails, or a limit on the size"
        " of files is reached (ulimit -f)"
    ]
