"""`make test-install`: the wheel in an empty environment of each supported Python that is here, with what it needs from
the package index, and the first steps of the README there; and, on the oldest of them, the conformance suite by itself,
which judges an agent. The latter, and the wheel on the oldest of them, are installed by pip, as most people do it.

Without a network: `PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER make test-install`, where the folder has what is needed.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path

from tests.packaging.built import build, first_steps, install, install_soon, new_environment
from tests.packaging.judged import judged_from_nothing

NAMES = ("python3.11", "python3.12", "python3.13", "python3.14")
ANSWER = "You asked for 'a.txt'. It has 2 lines.\n"


def main() -> int:
    pythons = {name: python for name in NAMES if (python := _found(name)) is not None}
    for name in NAMES:
        if name not in pythons:
            print(f"{name}: is not here")
    if not pythons:
        return 1
    # Side by side, for most of the time each waits for the index.
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor() as beside:
        judged = None
        if shutil.which("node") is None:
            print("the suite by itself is not tried, since Node is not here")
        else:
            judged = beside.submit(judged_from_nothing, next(iter(pythons.values())), Path(place, "judge"))
        wheel = build("wheel", Path(place))
        installs = chain([install], repeat(install_soon))
        tried = {
            name: beside.submit(_try, wheel, python, Path(place, name), by)
            for (name, python), by in zip(pythons.items(), installs, strict=False)
        }
        for name, installed in tried.items():
            print(f"{name}: installed and answered, {installed.result():.0f} s")
        if judged is not None:
            print(f"the suite by itself installed and judged an agent, {judged.result():.0f} s")
    return 0


def _try(wheel: Path, python: str, folder: Path, install: Callable[..., None]) -> float:
    """Install the wheel in an empty environment, and take the first steps there: the seconds that it took."""
    began = time.monotonic()
    folder.mkdir()
    programs = new_environment(python, folder / "env")
    for extras in ("", "[chat]"):
        install(programs, f"{wheel}{extras}")
        assert first_steps(programs, folder) == ANSWER
    return time.monotonic() - began


def _found(name: str) -> str | None:
    """The interpreter of that name, or one that pyenv has installed and not chosen."""
    installed = sorted(map(str, Path.home().glob(f".pyenv/versions/*/bin/{name}")))
    # A name may be there for a version that is not installed.
    return next(filter(_runs, [name, *installed]), None)


def _runs(python: str) -> bool:
    return (
        shutil.which(python) is not None
        and not subprocess.run([python, "-V"], capture_output=True, timeout=30).returncode
    )


if __name__ == "__main__":
    sys.exit(main())
