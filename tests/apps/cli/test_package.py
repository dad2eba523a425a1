"""`acp-server package`: the entry for the ACP registry, and what it refuses."""

import json
from pathlib import Path

import pytest

from acp_server import __version__
from acp_server.apps.cli import main
from acp_server.apps.cli.package import DRAWN, Entry, Project, icon_faults
from acp_server.errors import UsageError
from tests.apps.cli.test_doctor import RUN, SOUND

ROOT = Path(__file__).resolve().parents[3]
BASE = """
[project]
name = "My.Agent"
version = "1"
description = "It counts."
authors = [{ name = "A. Author", email = "a@example.org" }, { email = "b@example.org" }]
license = { text = "MIT" }
[project.urls]
Source = "https://example.org/source"
Homepage = "https://example.org"
[project.scripts]
run-it = "agent:main"
"""
"""As SOUND of the doctor's tests says who it is."""


def project_in(folder: Path, text: str = BASE, agent: str = SOUND, script: str | None = None) -> Project:
    (folder / "pyproject.toml").write_text(text)
    (folder / "agent.py").write_text(agent)
    return Project.read(folder, script)


def test_the_built_in_agent_has_an_entry_without_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["package", "--project", str(ROOT), "--out", str(tmp_path)]) == 0, capsys.readouterr().out
    entry = json.loads((tmp_path / "acp-server" / "agent.json").read_text())
    assert (entry["id"], entry["name"], entry["license"]) == ("acp-server", "acp-server workspace", "Apache-2.0")
    assert entry["version"] == __version__
    assert entry["distribution"] == {"uvx": {"package": f"acp-server=={__version__}"}}
    assert icon_faults((tmp_path / "acp-server" / "icon.svg").read_text()) == []


def test_the_entry_says_what_the_project_and_the_agent_say(tmp_path: Path) -> None:
    project = project_in(tmp_path, BASE.replace('"1"', '"1.2.3"'))
    entry = Entry(project, {"name": "a", "title": "The Agent", "version": "1.2.3"})
    assert entry.faults() == []
    assert entry.content() == {
        "id": "my-agent",
        "name": "The Agent",
        "version": "1.2.3",
        "description": "It counts.",
        "repository": "https://example.org/source",
        "website": "https://example.org",
        "authors": ["A. Author"],
        "license": "MIT",
        "distribution": {"uvx": {"package": "My.Agent==1.2.3", "cmd": "run-it"}},
    }
    assert entry.uvx == "uvx --from My.Agent==1.2.3 run-it"


@pytest.mark.parametrize(
    ("change", "info", "id", "fault"),
    [
        ({}, {"version": "1"}, None, "the version 1 is not three numbers, as in 1.2.0"),
        ({'"1"': '"1.0.0rc1"'}, {}, None, "the version 1.0.0rc1 is not three numbers"),
        ({'"1"': '"1.0.0"'}, {"version": "1.0.1"}, None, "pyproject.toml has version 1.0.0, the agent says 1.0.1"),
        ({'version = "1"': ""}, {"version": 7}, None, "neither pyproject.toml nor the agent has a version"),
        ({'"1"': '"1.0.0"', '"It counts."': '" "'}, {}, None, "pyproject.toml has no description"),
        ({'"1"': '"1.0.0"', "My.Agent": "7up"}, {}, None, "the id 7up is not a letter and then"),
        ({'"1"': '"1.0.0"'}, {}, "My_Agent", "the id My_Agent is not a letter and then"),
    ],
    ids=["short version", "pre-release", "versions differ", "no version", "no description", "digit", "id"],
)
def test_what_the_registry_refuses_of_an_entry_is_named(
    tmp_path: Path, change: dict[str, str], info: dict[str, object], id: str | None, fault: str
) -> None:
    text = BASE
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    (found,) = Entry(project_in(tmp_path, text), info, id).faults()
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("text", "script", "fault"),
    [
        ("", None, "the project has no name"),
        ("[project", None, "cannot be read"),
        (BASE.partition("[project.scripts]")[0], None, "project.scripts has no command"),
        (BASE + 'other = "agent:main"\n', None, r"several commands \(run-it, other\) could be the agent"),
        (BASE, "other", "there is no command 'other'"),
        (BASE.replace("agent:main", "import os"), None, "there is no command 'run-it'"),
    ],
    ids=["no name", "no toml", "no command", "two commands", "unknown", "no target"],
)
def test_a_project_without_a_command_that_is_the_agent_is_refused(
    tmp_path: Path, text: str, script: str | None, fault: str
) -> None:
    with pytest.raises(UsageError, match=fault):
        project_in(tmp_path, text, script=script)


def test_one_of_several_commands_may_be_named_and_the_project_s_own_name_goes_first(tmp_path: Path) -> None:
    assert project_in(tmp_path, BASE + 'other = "b:c"\n', script="other").target == "b:c"
    assert project_in(tmp_path, BASE + '"My.Agent" = "d:e"\n').target == "d:e"


@pytest.mark.parametrize(
    ("agent", "fault"),
    [
        (SOUND.replace('[{"id": "x", "name": "X"}]', "[]") + RUN, "FAULT no authMethods"),
        (SOUND, "FAULT the version 1 is not three numbers"),
    ],
    ids=["agent", "entry"],
)
def test_nothing_is_written_for_an_agent_that_the_registry_would_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], agent: str, fault: str
) -> None:
    project_in(tmp_path, BASE, agent)
    out = tmp_path / "out"
    assert main(["package", "--project", str(tmp_path), "--out", str(out)]) == 1
    said = capsys.readouterr().out
    assert fault in said
    assert said.endswith("nothing is written\n")
    assert not out.exists()


def test_an_icon_that_is_there_is_kept_and_a_bad_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = SOUND.replace('"version": "1"}', '"version": "1.0.0"}')
    project_in(tmp_path, BASE.replace('"1"', '"1.0.0"'), sound)
    command = ["package", "--project", str(tmp_path), "--out", str(tmp_path), "--id", "mine"]
    icon = tmp_path / "mine" / "icon.svg"
    icon.parent.mkdir()
    icon.write_text(DRAWN.replace("currentColor", "red"))
    assert main(command) == 1
    assert "FAULT the icon has the colour red" in capsys.readouterr().out
    assert not (tmp_path / "mine" / "agent.json").exists()
    own = DRAWN.replace("1.5", "2")
    icon.write_text(own)
    assert main(command) == 0
    assert icon.read_text() == own
    assert json.loads((tmp_path / "mine" / "agent.json").read_text())["id"] == "mine"


def test_an_agent_may_be_named_in_the_place_of_the_project_s_command(tmp_path: Path) -> None:
    project_in(tmp_path, BASE.replace('"1"', '"1.0.0"'), "raise SystemExit(9)")
    other = tmp_path / "other.py"
    other.write_text(
        "from acp_server import Agent\nagent = Agent('other', version='1.0.0')\n"
        "@agent.prompt\nasync def prompt(turn): ...\n@agent.authenticate('x', name='X')\nasync def login(call): ...\n"
    )
    assert main(["package", "--project", str(tmp_path), "--out", str(tmp_path), str(other)]) == 0
    assert json.loads((tmp_path / "my-agent" / "agent.json").read_text())["name"] == "other"


SVG = '<svg xmlns="http://www.w3.org/2000/svg" {}>{}</svg>'
SIZE = 'width="16" height="16"'
PATH = '<path fill="currentColor" d="M0 0h4"/>'


@pytest.mark.parametrize(
    ("svg", "faults"),
    [
        (DRAWN, []),
        (SVG.format('viewBox="0 0 16 16"', PATH), []),
        (SVG.format(SIZE, '<path style="fill: currentColor; stroke:none" d="M0 0h4"/>'), []),
        (SVG.format('width="24" height="16"', PATH), ["the icon is not 16x16: 24x16"]),
        (SVG.format('viewBox="0 0 32 32"', PATH), ["the icon is not 16x16: 32x32"]),
        (SVG.format("", PATH), ["the icon is not 16x16: it has no size"]),
        (SVG.format(SIZE, PATH + '<path stroke="#fff"/>'), ["the icon has the colour #fff"]),
        (SVG.format(SIZE, PATH + '<path style="fill:blue"/>'), ["the icon has the colour blue"]),
        (SVG.format(SIZE, PATH + "<style>path { stroke: red }</style>"), ["the icon has the colour red"]),
        (SVG.format(SIZE, '<path d="M0 0h4"/>'), ["the icon does not use currentColor"]),
        ("<svg>", ["the icon is not SVG"]),
    ],
)
def test_what_the_registry_refuses_of_an_icon_is_named(svg: str, faults: list[str]) -> None:
    found = icon_faults(svg)
    assert len(found) == len(faults)
    assert all(each.startswith(fault) for each, fault in zip(found, faults, strict=True))


def test_a_folder_without_a_project_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["package", "--project", str(tmp_path)]) == 2
    said = f"acp-server: there is no file {tmp_path / 'pyproject.toml'}; name its folder with --project\n"
    assert capsys.readouterr().err == said
