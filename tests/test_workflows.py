"""Each step of the public CI is a command that runs on any machine: a target of the Makefile.

`make lint-ci` checks the files themselves, by two programs that need an index to be installed from.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKE = re.compile(r"make ([a-z-]+)( [A-Z]+=(\"[^\"]*\"|[\w.-]+))*")


def targets() -> set[str]:
    """The targets that have no file of their name."""
    (names,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return set(names.split())


def steps(workflow: Path) -> list[str]:
    return re.findall(r"^\s*(?:- )?run: *(.*)$", workflow.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_each_command_is_a_target_of_the_makefile(workflow: Path) -> None:
    for step in steps(workflow):
        command = MAKE.fullmatch(step)
        assert command, f"{step!r} is not one call of make"
        assert command[1] in targets(), step


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_of_others_is_named_by_its_commit(workflow: Path) -> None:
    for action in re.findall(r"uses: (.*)$", workflow.read_text("utf-8"), re.MULTILINE):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\$/contrib/github-action", action), action


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_right_that_a_job_does_not_ask_for(workflow: Path) -> None:
    text = workflow.read_text("utf-8")
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)
    jobs = re.findall(r"^  \w[\w-]*:$", text.partition("\njobs:\n")[2], re.MULTILINE)
    assert len(re.findall(r"^    permissions:$", text, re.MULTILINE)) == len(jobs) > 0


def test_a_release_is_published_from_a_tag_alone() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    (triggers,) = re.findall(r"^on:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert re.fullmatch(r"  push:\n    tags: \[.*\]\n", triggers)


def test_every_system_that_is_tried_has_a_row_in_the_table_of_support() -> None:
    page = (ROOT / "docs" / "support.md").read_text("utf-8")
    tried = re.findall(r"system: \[(.*)\]", (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    for system in tried[0].split(", "):
        name = {"macos": "macOS", "windows": "Windows"}[system.partition("-")[0]]
        assert re.search(rf"^\| {name} \| .* unproven \| no", page, re.MULTILINE)


def test_every_file_of_requirements_and_every_npm_folder_is_watched_for_updates() -> None:
    watched = (ROOT / ".github" / "dependabot.yml").read_text("utf-8")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    files = [Path(line) for line in listed.splitlines() if line.endswith(("requirements.txt", "package.json"))]
    assert len(files) > 5
    for file in files:
        assert re.search(rf'(- |")/{re.escape(file.parent.as_posix())}("|\n)', watched), file
