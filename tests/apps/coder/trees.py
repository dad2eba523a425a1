"""Files and directories for the tests of the workspace engines."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a directory; a name that ends with a slash is an empty directory."""
    for name, content in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def git(directory: Path, *arguments: str) -> str:
    """Run git without the settings of whoever runs the tests."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=environment, check=True, capture_output=True, timeout=60
    )
    return os.fsdecode(done.stdout)


def git_files(directory: Path) -> list[str]:
    """What git would add or has added, in its order."""
    return git(directory, "ls-files", "-coz", "--exclude-standard").split("\0")[:-1]


def paths(root: Path, items: Iterable[object]) -> list[str]:
    """The files among what a walk yields, relative to a directory."""
    return [Path(item).relative_to(root).as_posix() for item in items if isinstance(item, str)]
