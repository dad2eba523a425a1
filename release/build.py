"""Builds both distributions: the sdist of each project, and the wheel from that sdist.

    python -m release.build FOLDER

Whoever installs from an sdist builds the wheel the same way, so an sdist that lacks a file fails here.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"acp-server": ROOT, "acp-conformance": ROOT / "conformance"}
"""The folder of each distribution's pyproject.toml."""

SECONDS = 300


def build(project: Path, into: Path, env: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """Build the sdist of a project, and the wheel from the sdist.

    Both need no network: the build backend is that of the running environment.

    Returns:
        The sdist and the wheel.

    Raises:
        RuntimeError: The build failed; its output is the message.
    """
    place = into / ".building"
    python = sys.executable
    uv = str(Path(python).with_name("uv"))
    command = [uv, "build", "--no-build-isolation", "--python", python, "--out-dir", str(place), str(project)]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    (sdist,), (wheel,) = place.glob("*.tar.gz"), place.glob("*.whl")
    built = sdist.replace(into / sdist.name), wheel.replace(into / wheel.name)
    for rest in place.iterdir():
        rest.unlink()
    place.rmdir()
    return built


def build_all(into: Path, date: int | None = None) -> list[Path]:
    """Build both distributions.

    Args:
        into: The folder for the files, which is made if it is missing. Files of the same name are replaced.
        date: The time of every file in the archives, in seconds since 1970. Two builds of one date are the same bytes.
    """
    into.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, **({} if date is None else {"SOURCE_DATE_EPOCH": str(date)})}
    return sorted(file for project in PROJECTS.values() for file in build(project, into, env))


if __name__ == "__main__":
    for file in build_all(Path(sys.argv[1])):
        print(file)
