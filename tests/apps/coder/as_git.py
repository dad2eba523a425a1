"""Random trees with ignore files, and what git says of them: `python -m tests.apps.coder.as_git [TREES] [FIRST]`.

A case is one path of one tree. The names and the patterns are made of few letters, so that most patterns match
something. Prints the cases in which the walk and `git check-ignore` differ, and how many there were.
"""

import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from acp_server.apps.coder.walk import walk
from tests.apps.coder.trees import git, paths

LETTERS = ["a", "b", "c", "aa", "ab", "ba", ".", "-", "!", "#", " ", "ä", "A", "1"]
WILD = ["*", "*", "*", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]", "[[:digit:]b]", "[]a]", "\\a", "\\*"]
ODD = [
    "a" * 255,
    "[a",
    "a\\",
    "!",
    "/",
    "//",
    "a//b",
    "[a/b]",
    "\\ ",
    "**a",
    "/**a",
    "!/**b",
    "a**b**c",
    "***/a",
    "[[:x:]]",
]


class Difference(NamedTuple):
    """A file on which the two do not agree: `ours` is whether the walk has it."""

    path: str
    ours: bool


def name(dice: random.Random) -> str:
    """Of a file or a directory."""
    return "".join(dice.choices(LETTERS, k=dice.randint(1, 3))).strip(" .") or "a"


def segment(dice: random.Random) -> str:
    """A part of a pattern between two slashes."""
    if dice.random() < 0.25:
        return dice.choice(["**", "**", "**", "***"])
    return "".join(dice.choice(WILD if dice.random() < 0.4 else LETTERS) for _ in range(dice.randint(1, 4)))


def pattern(dice: random.Random) -> str:
    """A line of an ignore file."""
    if dice.random() < 0.04:
        return dice.choice(ODD)
    line = "/".join(segment(dice) for _ in range(dice.choice([1, 1, 1, 2, 2, 3, 4])))
    before, behind = dice.choice(["", "", "", "/", "**/"]), dice.choice(["", "", "", "/", "/**", "/*", " "])
    return ("!" if dice.random() < 0.3 else "") + before + line + behind


def grow(directory: Path, dice: random.Random, depth: int = 0) -> None:
    """Plant files, directories and ignore files."""
    for each in dict.fromkeys(name(dice) for _ in range(dice.randint(2, 6))):
        inside = directory / each
        if depth < 4 and dice.random() < 0.55:
            inside.mkdir()
            grow(inside, dice, depth + 1)
        else:
            inside.touch()
    if depth == 0 or dice.random() < 0.25:
        lines = [pattern(dice) for _ in range(dice.randint(1, 8))]
        (directory / ".gitignore").write_bytes("\n".join(lines).encode())


def differences(top: Path, seeds: range) -> tuple[int, list[Difference]]:
    """How many cases there are in the trees of these seeds, which are planted below `top`, and the bad ones."""
    git(top, "init", "-q")
    for seed in seeds:
        tree = top / f"t{seed}"
        tree.mkdir()
        grow(tree, random.Random(seed))
    files = [
        Path(directory, file).relative_to(top).as_posix()
        for tree in top.glob("t*")
        for directory, _, found in os.walk(tree)
        for file in found
    ]
    asked = "\0".join(files).encode()
    command = ["git", "check-ignore", "--no-index", "--stdin", "-z"]
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(top)}
    done = subprocess.run(command, cwd=top, env=environment, input=asked, capture_output=True, timeout=600)
    ignored = set(os.fsdecode(done.stdout).split("\0"))
    ours = set(paths(top, walk(str(top))))
    bad = [Difference(file, file in ours) for file in files if (file in ours) == (file in ignored)]
    return len(files), sorted(bad)


def main() -> int:
    """As the module says. 1 if something differs."""
    trees, first = [*map(int, sys.argv[1:]), 300, 0][:2] if len(sys.argv) < 2 else [*map(int, sys.argv[1:]), 0][:2]
    with TemporaryDirectory() as folder:
        cases, bad = differences(Path(folder), range(first, first + trees))
    for path, ours in bad:
        print(f"{path}: {'kept' if ours else 'left out'} by the walk, not by git")
    print(f"{len(bad)} of {cases} cases differ")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
