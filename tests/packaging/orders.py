"""Both distributions in one environment: whichever is installed or uninstalled first, the other one works."""

from itertools import permutations
from pathlib import Path

from tests.packaging.built import install_soon, new_environment, run, uninstall

NAMES = ("acp-server", "acp-conformance")


def tried_in_every_order(runtime: Path, judge: Path, python: str, folder: Path) -> None:
    """Install and uninstall both in each order, and run what is installed after each step.

    Raises:
        AssertionError: A command is missing or fails while its distribution is installed, or is there afterwards.
    """
    folder.mkdir()
    wheels = dict(zip(NAMES, (runtime, judge), strict=True))
    programs = new_environment(python, folder / "env")
    for first, second in permutations(NAMES):
        for gone, left in permutations(NAMES):
            install_soon(programs, str(wheels[first]))
            _check(programs, {first}, folder)
            install_soon(programs, str(wheels[second]))
            _check(programs, {first, second}, folder)
            uninstall(programs, gone)
            _check(programs, {left}, folder)
            uninstall(programs, left)
            _check(programs, set(), folder)


def _check(programs: Path, installed: set[str], folder: Path) -> None:
    for name in NAMES:
        command = programs / name
        if name in installed:
            assert run(command, "--version", cwd=folder).stdout.startswith(f"{name} ")
        else:
            assert not command.exists()
