"""The judge by itself: as one file and as a step of a workflow, without the runtime or what that depends on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import acp_conformance

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "conformance"


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the one file by an interpreter without any library: `-I -S`."""
    path = tmp_path_factory.mktemp("one") / "acp-conformance.pyz"
    subprocess.run([sys.executable, str(PROJECT / "one_file" / "build.py"), str(path)], check=True, timeout=60)
    return [os.path.realpath(sys.executable), "-I", "-S", str(path)]


def run_one_file(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.defpath, "TMPDIR": str(folder)}
    return subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_one_file_judges_an_agent_and_leaves_nothing(one_file: list[str], tmp_path: Path) -> None:
    agent = [one_file[0], "-S", "-E", str(ROOT / "tests" / "conformance" / "faulty" / "agents")]
    known = ["--profile", str(ROOT / "tests" / "conformance" / "faulty" / "profile.toml")]
    chosen = ["--case", "ids/zero", "--case", "schema/*"]
    judged = run_one_file(*one_file, "agent", *known, *chosen, "--", *agent, folder=tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "8 passed" in judged.stdout
    assert list(tmp_path.iterdir()) == []


def test_one_file_judges_a_client(one_file: list[str], tmp_path: Path) -> None:
    client = [one_file[0], "-I", str(ROOT / "tests" / "conformance" / "faulty_clients"), "clean", "{agent}"]
    judged = run_one_file(*one_file, "client", "--case", "ids/strings", "--", *client, folder=tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "1 passed" in judged.stdout


def test_one_file_knows_its_version(one_file: list[str], tmp_path: Path) -> None:
    told = run_one_file(*one_file, "--version", folder=tmp_path)
    assert told.stdout.startswith(f"acp-conformance {acp_conformance.__version__}, rules "), told.stderr


def test_it_depends_on_less_than_the_runtime() -> None:
    alone = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(alone["dependencies"]) < {each.split(";")[0].strip() for each in whole["dependencies"]}
    assert alone["requires-python"] == whole["requires-python"]


def test_the_script_of_the_action_runs_the_suite_and_sums_it_up(tmp_path: Path) -> None:
    yaml = (ROOT / "contrib" / "github-action" / "action.yml").read_text("utf-8")
    script = textwrap.dedent(yaml.partition("      run: |\n")[2])
    told = tmp_path / "told"
    fake = tmp_path / "bin"
    fake.mkdir()
    suite = f'printf "%s\\n" "$@" > {told}; echo summed up > reports/summary.md; exit 1'
    (tmp_path / "suite").write_text(f"#!/bin/sh\n{suite}\n")
    (tmp_path / "suite").chmod(0o755)
    made = f'mkdir -p "$3/bin"; ln -s /bin/true "$3/bin/pip"; ln -s {tmp_path}/suite "$3/bin/acp-conformance"'
    (fake / "python3").write_text(f"#!/bin/sh\n{made}\n")
    (fake / "python3").chmod(0o755)
    inputs = {
        "KIND": "agent",
        "COMMAND": "my-agent --say 'two words'",
        "PROFILE": "",
        "BASELINE": "before.json",
        "REQUIRE": "MUST",
        "OPTIONS": "--protocol both --case 'nested/with*'",
        "PACKAGE": "acp-conformance",
        "REPORTS": "reports",
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "PATH": f"{fake}:{os.environ['PATH']}",
    }
    ran = subprocess.run(["bash", "-c", script], env=inputs, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    words = told.read_text().splitlines()
    assert words[0] == "agent"
    assert words[words.index("--") + 1 :] == ["my-agent", "--say", "two words"]
    assert words[words.index("--baseline") + 1] == "before.json"
    assert "--profile" not in words
    assert words[words.index("--protocol") : words.index("--")] == ["--protocol", "both", "--case", "nested/with*"]
    assert (tmp_path / "summary").read_text() == "summed up\n"
