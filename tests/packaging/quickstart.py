"""The quickstart, followed word for word: each command and each file of the page, in an empty folder."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from release.build import ROOT
from tests.packaging.built import SECONDS

PAGE = ROOT / "docs" / "quickstart.md"
ADDRESS = re.compile(r"^git clone (?P<address>\S+)", re.MULTILINE)
SHIPPED = ("acp_server", "conformance", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")


def followed(python: str, folder: Path) -> None:
    """Do what the page says with this Python. The project's address is answered by a repository made of this tree.

    Raises:
        AssertionError: A command fails, or the page promises another answer than there is; the message is the output.
    """
    page = PAGE.read_text("utf-8")
    place = folder / "empty"
    place.mkdir(parents=True)
    done = subprocess.run(
        ["bash", "-c", _script(page)],
        cwd=place,
        env=_environment(python, folder, page),
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    for promised in re.findall(r"^It says `([^`]+)`", page, re.MULTILINE):
        assert promised in done.stdout, said
    assert "how many words are these" in (place / "talk.html").read_text("utf-8")


def _script(page: str) -> str:
    """The page as one script: its shell commands as they are, and its files written where the page says so."""
    lines = ["set -euo pipefail"]
    for language, source in re.findall(r"^```(sh|python)[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        lines.append(source if language == "sh" else f"printf %s {shlex.quote(source)} >my_agent.py")
    return "\n".join(lines)


def _environment(python: str, folder: Path, page: str) -> dict[str, str]:
    """No more than a new user has: the system's programs, `python3`, and settings of pip for the index."""
    programs = folder / "bin"
    programs.mkdir()
    found = shutil.which(python)
    assert found is not None
    (programs / "python3").symlink_to(found)
    address = ADDRESS.search(page)
    assert address
    settings = folder / "gitconfig"
    settings.write_text(f'[url "{_repository(folder)}"]\n\tinsteadOf = {address["address"]}\n')
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_", "LANG"))}
    path = f"{programs}:/usr/bin:/bin"
    return {**kept, "PATH": path, "HOME": str(folder), "GIT_CONFIG_GLOBAL": str(settings)}


def _repository(folder: Path) -> Path:
    """This tree as a git repository, with what has not been committed."""
    tree = folder / "repository"
    tree.mkdir()
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tree)
    git = ["git", "-C", str(tree), "-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "All"]):
        subprocess.run([*git, *command], check=True, capture_output=True, timeout=SECONDS)
    return tree
