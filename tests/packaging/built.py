"""What users do with the distributions first: install them into an empty environment, and run the first agent."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from release.build import ROOT

FIRST = re.compile(r"^```python\n(?P<source>(?:.*\n)*?)```$", re.MULTILINE)
ANSWER = "You asked for 'a.txt'. It has 2 lines.\n"
UV = Path(sys.executable).with_name("uv")
SECONDS = 300


def new_environment(python: str, folder: Path) -> Path:
    """An empty environment of this Python, without pip; its folder of programs."""
    command = [python, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def install(programs: Path, *wanted: str) -> None:
    """Install by pip, as most people do. To put one into each environment takes longer than most packages do."""
    command = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "-q", *wanted]
    subprocess.run([*command, "--disable-pip-version-check"], check=True, timeout=SECONDS)


def install_soon(programs: Path, *wanted: str) -> None:
    """Install by uv, which takes a fifth of the time that pip takes; by pip where uv does not find the index."""
    if uv_finds_the_index():
        _install_by_uv(programs, *wanted)
    else:
        install(programs, *wanted)


def install_lowest(programs: Path, *wanted: str) -> None:
    """Install the lowest versions that the distribution itself allows; what these depend on is the newest."""
    if uv_finds_the_index():
        _install_by_uv(programs, "--resolution", "lowest-direct", *wanted)
    else:
        install(programs, *wanted)  # pip cannot look for the lowest


@cache
def uv_finds_the_index() -> bool:
    """Whether uv reaches a package index. It does not read the settings of pip."""
    command = [str(UV), "pip", "install", "-q", "--dry-run", "--reinstall", "--python", sys.executable, "click"]
    return not subprocess.run(command, capture_output=True, timeout=SECONDS).returncode


def _install_by_uv(programs: Path, *words: str) -> None:
    command = [str(UV), "pip", "install", "-q", "--python", str(programs / "python"), *words]
    subprocess.run(command, check=True, timeout=SECONDS)


def uninstall(programs: Path, name: str) -> None:
    """Uninstall a distribution by pip, which leaves what that depends on."""
    command = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "uninstall", "-q", "-y", name]
    subprocess.run([*command, "--disable-pip-version-check"], check=True, timeout=SECONDS)


def run(program: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment with nothing of this one; its exit status is 0.

    Raises:
        AssertionError: It is not; the message is the output.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(program), *words], cwd=cwd, env=env, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{program.name} {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done


def first_steps(programs: Path, folder: Path) -> str:
    """What the README begins with: the first agent, in a file, asked about another file; what it answers."""
    example = FIRST.search((ROOT / "README.md").read_text("utf-8"))
    assert example
    (folder / "my_agent.py").write_text(example["source"])
    (folder / "a.txt").write_text("one\ntwo\n")
    return run(programs / "acp-server", "chat", "-p", "a.txt", "my_agent.py", cwd=folder).stdout
