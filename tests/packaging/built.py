"""What users install, built from the work tree, and what they do with it first."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST = re.compile(r"^```python\n(?P<source>(?:.*\n)*?)```$", re.MULTILINE)
SECONDS = 300


def build(kind: str, into: Path, project: Path = ROOT) -> Path:
    """The wheel or the sdist of a project."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(into)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=SECONDS)
    (file,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


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
    command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "-q", "--python", str(programs / "python")]
    if subprocess.run([*command, *wanted], capture_output=True, timeout=SECONDS).returncode:
        install(programs, *wanted)


def first_steps(programs: Path, folder: Path) -> str:
    """What the README begins with: the first agent, in a file, asked about another file; what it answers."""
    example = FIRST.search((ROOT / "README.md").read_text("utf-8"))
    assert example
    (folder / "my_agent.py").write_text(example["source"])
    (folder / "a.txt").write_text("one\ntwo\n")
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONWARNINGS")}
    command = [str(programs / "acp-server"), "chat", "-p", "a.txt", "my_agent.py"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
