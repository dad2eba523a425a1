"""`acp-server new`: what it makes works as it stands, and what is there already stays."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from acp_server.apps.cli import main
from acp_server.apps.cli.new import Names, editor_settings, files
from acp_server.errors import UsageError
from tests.agent.processes.driver import environment


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new agent, made in a folder that is not there yet."""
    folder = tmp_path_factory.mktemp("new") / "deep" / "My 1st agent"
    assert main(["new", str(folder)]) == 0
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=50)


def test_it_makes_an_agent_its_test_and_a_project(made: Path) -> None:
    assert sorted(file.name for file in made.iterdir()) == [
        ".gitignore",
        "README.md",
        "my_1st_agent.py",
        "pyproject.toml",
        "test_my_1st_agent.py",
    ]


@pytest.mark.parametrize(
    ("direct_url", "source"),
    [
        (None, None),
        (
            {"url": "file:///home/me/acp%20server", "dir_info": {"editable": True}},
            {"path": "/home/me/acp server", "editable": True},
        ),
        ({"url": "file:///me/acp_server-0.2.0.whl", "archive_info": {}}, {"path": "/me/acp_server-0.2.0.whl"}),
        (
            {"url": "https://example.org/acp.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}},
            {"git": "https://example.org/acp.git", "rev": "abc123"},
        ),
        ({"url": "https://example.org/acp.whl", "archive_info": {}}, {"url": "https://example.org/acp.whl"}),
    ],
    ids=["index", "checkout", "wheel", "git", "url"],
)
def test_the_project_finds_acp_server_where_it_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, direct_url: dict[str, object] | None, source: dict[str, object] | None
) -> None:
    monkeypatch.setattr("acp_server.apps.cli.new._direct_url", lambda: direct_url and json.dumps(direct_url))
    project = tomllib.loads(files(Names.of("counter"))["pyproject.toml"])
    assert project["tool"].get("uv") == (source and {"sources": {"acp-server": source}})
    assert "acp-server[chat]" in project["dependency-groups"]["dev"]


def test_the_test_passes_and_fails_for_an_agent_that_does_something_else(made: Path) -> None:
    tests = ["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = run(made, *tests)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
    agent = made / "my_1st_agent.py"
    source = agent.read_text()
    agent.write_text(source.replace("splitlines()", "splitlines()[1:]").replace("You said", "He said"))
    try:
        assert "4 failed" in run(made, *tests).stdout
    finally:
        agent.write_text(source)


def test_the_agent_works_in_a_chat(made: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    done = run(tmp_path, "-m", "acp_server", "chat", "-p", "count a.txt", str(made / "my_1st_agent.py"))
    assert (done.returncode, done.stdout) == (0, "a.txt has 2 lines.\n"), done.stderr
    assert "* Count the lines of a.txt" in done.stderr


def test_the_entry_for_the_registry_has_no_fault(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["package", "--project", str(made), "--out", str(tmp_path)]) == 0, capsys.readouterr().out
    entry = json.loads((tmp_path / "my-1st-agent" / "agent.json").read_text())
    assert (entry["name"], entry["version"]) == ("My 1st Agent", "0.1.0")
    assert entry["distribution"] == {"uvx": {"package": "my-1st-agent==0.1.0"}}


def test_a_wheel_of_it_has_the_module_and_the_command(made: Path, tmp_path: Path) -> None:
    done = run(made, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "my_1st_agent-0.1.0-py3-none-any.whl") as wheel:
        assert [name for name in wheel.namelist() if "dist-info" not in name] == ["my_1st_agent.py"]
        scripts = wheel.read("my_1st_agent-0.1.0.dist-info/entry_points.txt").decode()
        assert scripts == "[console_scripts]\nmy-1st-agent = my_1st_agent:main\n"


def test_the_settings_that_it_prints_start_the_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / "it's mine")]) == 0
    said = capsys.readouterr().out
    assert f"cd '{tmp_path}/it'\"'\"'s mine'" in said
    zed, jetbrains = (
        json.loads(found) for found in re.findall(r"^    \{\n.*?^    \}$", said, re.MULTILINE | re.DOTALL)
    )
    settings = zed["agent_servers"]["It S Mine"]
    assert settings.pop("type") == "custom"
    assert jetbrains == {"agent_servers": {"It S Mine": {**settings, "env": {}}}}
    assert main(["doctor", settings["command"], *settings["args"]]) == 0
    agent = str(tmp_path / "it's mine" / "it_s_mine.py")
    assert f'commands = {{ default = {{ {json.dumps(settings["command"])}, "serve", "{agent}" }} }}' in said
    # Two agents that were made like this have adapters of their own in one editor.
    assert "it_s_mine = function()" in said
    assert 'chat = { adapter = "it_s_mine" }' in said


@pytest.mark.parametrize("file", ["my_agent.py", "notes.txt"])
def test_nothing_is_written_into_a_folder_that_has_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    (tmp_path / "my-agent").mkdir()
    (tmp_path / "my-agent" / file).write_text("mine")
    assert main(["new", str(tmp_path / "my-agent")]) == 2
    assert capsys.readouterr().err.endswith("my-agent exists already and was not overwritten\n")
    assert [(each.name, each.read_text()) for each in (tmp_path / "my-agent").iterdir()] == [(file, "mine")]


def test_a_file_in_the_place_of_the_folder_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["new", str(tmp_path / "mine")]) == 2
    assert main(["new", str(tmp_path / "mine" / "agent")]) == 2
    assert (tmp_path / "mine").read_text() == "mine"
    assert "was not overwritten" in capsys.readouterr().err


def test_a_folder_that_was_made_for_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "counter" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "counter")
    assert main(["new", "."]) == 0
    assert (tmp_path / "counter" / "counter.py").exists()
    assert ". has an agent now" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "title", "project", "module"),
    [
        ("counter", "Counter", "counter", "counter"),
        ("my-agent", "My Agent", "my-agent", "my_agent"),
        ("My_Agent.2", "My Agent 2", "my-agent-2", "my_agent_2"),
        ("3d", "3d", "agent-3d", "agent_3d"),
        ("class", "Class", "class-agent", "class_agent"),
        ("json", "Json", "json-agent", "json_agent"),
        ("anyio", "Anyio", "anyio-agent", "anyio_agent"),
        ("acp-server", "Acp Server", "acp-server-agent", "acp_server_agent"),
        ("café", "Café", "cafe", "cafe"),
        ('a "quoted" $name\\', "A Quoted Name", "a-quoted-name", "a_quoted_name"),
    ],
)
def test_a_name_becomes_one_for_each_place_that_has_rules(name: str, title: str, project: str, module: str) -> None:
    assert Names.of(name) == Names(title, project, module)
    assert module.isidentifier()


@pytest.mark.parametrize("name", ["", "42", "日本", "--", "..."])
def test_a_name_without_a_letter_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no letter from a to z"):
        Names.of(name)


def test_the_adapter_for_codecompanion_logs_in_by_no_method_of_the_one_that_it_extends() -> None:
    said = editor_settings(Names("It's mine", "it-s-mine", "it_s_mine"), ["/bin/acp-server", "serve"])
    adapter = said.split("Neovim with CodeCompanion:")[1].split("Toad:")[0]
    # `gemini_cli` has `auth_method`, which CodeCompanion then asks of every agent.
    assert 'extend("goose", {' in adapter
    assert 'name = "it_s_mine"' in adapter
    assert 'formatted_name = "It\'s mine"' in adapter
    assert "auth_method" not in adapter
    readme = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    assert 'extend("goose", {' in readme
    assert "gemini_cli" not in readme
