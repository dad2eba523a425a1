"""`make test-install`: installs all that the docs say can be installed, into empty environments. The wheels are built
from the sdists; what they depend on comes from the package index.

- On each supported Python that is here: the runtime with and without `[chat]`, and the first steps of the README.
- On the oldest: the runtime with the lowest versions that it allows; the quickstart, word for word; both distributions,
  installed and uninstalled in every order; and the judge alone, which judges an agent in JavaScript.

Without a network: `PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER make test-install`, where the folder has what is needed.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, repeat
from pathlib import Path

from release.build import build_all
from tests.packaging.built import (
    ANSWER,
    UV,
    first_steps,
    install,
    install_lowest,
    install_soon,
    new_environment,
    run,
    uv_finds_the_index,
)
from tests.packaging.judged import judged_from_nothing
from tests.packaging.orders import tried_in_every_order
from tests.packaging.quickstart import followed

NAMES = ("python3.11", "python3.12", "python3.13", "python3.14")


def main() -> int:
    """Try all; the first failure is raised. Exit status 1 if there is no Python to try it on."""
    pythons = {name: python for name in NAMES if (python := _found(name)) is not None}
    for name in NAMES:
        if name not in pythons:
            print(f"{name}: is not here")
    if not pythons:
        return 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as beside:
        place = Path(folder)
        files = build_all(place / "dist")
        judge, runtime = (file for file in files if file.suffix == ".whl")
        oldest = next(iter(pythons.values()))
        tries: dict[str, Callable[[], object]] = {}
        installs = chain([install], repeat(install_soon))
        for (name, python), by in zip(pythons.items(), installs, strict=False):
            tries[f"{name}: installed and answered"] = partial(_try, runtime, python, place / name, by)
        tries["the lowest versions that it allows: installed and answered"] = partial(
            _try, runtime, oldest, place / "lowest", install_lowest
        )
        tries["a new project ran its tests by uv"] = partial(_new_project, runtime, oldest, place / "project")
        tries["installed and uninstalled in every order"] = partial(
            tried_in_every_order, runtime, judge, oldest, place / "orders"
        )
        tries["the quickstart works as it is written"] = partial(followed, oldest, place / "quickstart")
        if shutil.which("node") is None:
            print("the judge alone is not tried, since Node is not here")
        else:
            tries["the judge alone judged an agent"] = partial(judged_from_nothing, judge, oldest, place / "judge")
        # Side by side: most of the time each waits for the index.
        running = {what: beside.submit(_timed, attempt) for what, attempt in tries.items()}
        for what, attempt in running.items():
            print(f"{what}, {attempt.result():.0f} s", flush=True)
    return 0


def _timed(attempt: Callable[[], object]) -> float:
    began = time.monotonic()
    attempt()
    return time.monotonic() - began


def _try(wheel: Path, python: str, folder: Path, install: Callable[..., None]) -> None:
    """Install the wheel in an empty environment, and take the first steps there."""
    folder.mkdir()
    programs = new_environment(python, folder / "env")
    for extras in ("", "[chat]"):
        install(programs, f"{wheel}{extras}")
        assert first_steps(programs, folder) == ANSWER


def _new_project(wheel: Path, python: str, folder: Path) -> None:
    """Make a project by `acp-server new`, and run its tests by uv, which makes an environment for it."""
    folder.mkdir()
    programs = new_environment(python, folder / "env")
    install_soon(programs, str(wheel))
    run(programs / "acp-server", "new", "my-agent", cwd=folder)
    project = folder / "my-agent"
    if uv_finds_the_index():
        assert "2 passed" in run(UV, "run", "--quiet", "--python", python, "pytest", "-q", cwd=project).stdout
    else:
        install(programs, "pytest")
        assert "2 passed" in run(programs / "python", "-m", "pytest", "-q", cwd=project).stdout
    run(programs / "acp-server", "doctor", "my_agent.py", cwd=project)


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
