"""The suite by itself: its distribution has all that it needs, and none of the runtime or of what that depends on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "packaging" / "acp-conformance"
AGENT = ROOT / "tests" / "packaging" / "agent.js"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the distribution is unpacked in, as an installer does it."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*wheel, "--no-build-isolation", "--wheel-dir", str(folder), str(PROJECT)], check=True, timeout=120)
    (path,) = folder.glob("acp_conformance-*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def judge(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # Dependencies come from this environment; the packages of the source tree do not: `-P` and another folder.
    program = f"import sys; sys.path.insert(0, {str(installed)!r}); from acp_conformance.cli import main; main()"
    words = [sys.executable, "-P", "-c", program, "agent", "--case", "ids/zero", "--case", "schema/results"]
    return subprocess.run(
        [*words, "--", *command], cwd=installed, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.usefixtures("require_npm")
def test_an_agent_in_another_language_is_judged_by_the_distribution_alone(installed: Path) -> None:
    judged = judge(installed, "node", str(AGENT))
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "Conformance of javascript 1 (protocol 1)" in judged.stdout
    assert "2 passed" in judged.stdout


def test_it_has_its_own_copy_of_the_schema_and_nothing_of_the_runtime(installed: Path) -> None:
    for version in ("v1", "v2"):
        assert (installed / "conformance" / "core" / version / "schema.json").is_file()
    assert (installed / "conformance" / "agent" / "profiles" / "workspace.toml").is_file()
    assert (installed / "conformance" / "report" / "page.css").is_file()
    assert not (installed / "acp_server").exists()


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
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    told = run_one_file(*one_file, "--version", folder=tmp_path)
    assert told.stdout.startswith(f"acp-conformance {version}, rules "), told.stderr


def test_it_depends_on_less_than_the_runtime_and_has_its_version() -> None:
    alone = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert alone["version"] == whole["version"]
    assert set(alone["dependencies"]) < {each.split(";")[0].strip() for each in whole["dependencies"]}
    assert alone["scripts"]["acp-conformance"] == whole["scripts"]["acp-conformance"]
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
