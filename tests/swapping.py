"""Folders that are swapped for links at each step of a function: what a neighbour can do while a file is written.

A step is a call of the system. So each place between two of them is tried, without threads and in the same order in
each run.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FILES = {"a/b/old.txt": "old", "a/b/other.txt": "other", "b/old.txt": "old", "old.txt": "old"}
"""In the project and outside: what is read through a link looks just as what was shown."""


def plant(root: Path) -> None:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def whole(root: Path) -> dict[str, str]:
    """All that is in a folder, links as such."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        found[name] = "->" if path.is_symlink() else "/" if path.is_dir() else path.read_text()
    return found


@dataclass
class World:
    """A project, and what is outside of it."""

    base: Path
    calls: list[str] = field(default_factory=list[str])
    """The calls of the system behind the swap, the first of them right behind it."""
    project: Path = field(init=False)
    outside: Path = field(init=False)

    def __post_init__(self) -> None:
        self.project, self.outside = self.base / "project", self.base / "outside"
        plant(self.project)
        plant(self.outside)
        self.note()

    def note(self) -> None:
        """What is outside now is what has to stay."""
        self._before = whole(self.outside)

    @property
    def is_unharmed(self) -> bool:
        """Whether nothing outside has changed."""
        return whole(self.outside) == self._before


def _link(path: Path, aside: Path, target: Path) -> None:
    os.rename(path, aside)
    os.symlink(target, path)


SWAPS: dict[str, Callable[[World], Any]] = {
    "the folder": lambda w: _link(w.project / "a" / "b", w.project / "aside", w.outside / "a" / "b"),
    "a folder above": lambda w: _link(w.project / "a", w.project / "aside", w.outside / "a"),
    "the root": lambda w: _link(w.project, w.base / "aside", w.outside),
    "the folder, moved outside": lambda w: _link(w.project / "a" / "b", w.base / "taken", w.outside / "a" / "b"),
    "a folder above, moved outside": lambda w: _link(w.project / "a", w.base / "taken", w.outside / "a"),
    "the file": lambda w: _link(w.project / "a" / "b" / "old.txt", w.base / "taken", w.outside / "old.txt"),
}


CALLS = (
    "access",
    "fstat",
    "link",
    "lstat",
    "mkdir",
    "open",
    "readlink",
    "rename",
    "replace",
    "rmdir",
    "stat",
    "unlink",
)


class Steps:
    """Counts the calls of the system that a function makes, and acts right before one of them."""

    def __init__(self, at: int, act: Callable[[], Any], behind: list[str]) -> None:
        self.count = 0
        self._behind = behind
        self._at = at
        self._act = act
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> "Steps":
        for name in (*CALLS, "fsync"):
            self._patch.setattr(os, name, self._counted(name, getattr(os, name)))
        # It takes most of the time, and there is nothing in its place that could be swapped.
        self._patch.setattr(os, "fsync", lambda _: None)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self._at:
                self._patch.undo()
                self._act()
                self.__enter__()
            if self.count >= self._at:
                self._behind.append(name)
            return function(*args, **kwargs)

        return call


def worlds(base: Path, swap: str, begin: Callable[[World], Callable[[], Any]]) -> Iterator[tuple[World, Any]]:
    """Run a function in a new world with the swap at its first step, at its second one, and so on until it is over
    before the swap: each world afterwards, and what the function has returned or raised. `begin` prepares it."""
    at = 0
    while True:
        at += 1
        world = World(base / str(at))
        run = begin(world)
        with Steps(at, lambda world=world: SWAPS[swap](world), world.calls) as steps:
            try:
                result = run()
            except Exception as error:
                result = error
        if steps.count < at:
            return
        yield world, result
        shutil.rmtree(world.base)
