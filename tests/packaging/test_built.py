"""What users get: the wheels hold their packages and nothing else, and work where only they were installed."""

import itertools
import os
import site
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

import acp_conformance
import acp_server
from release.build import PROJECTS, ROOT, build_all
from tests.packaging.built import ANSWER, first_steps, new_environment, run

PACKAGES = {"acp-server": ROOT / "acp_server", "acp-conformance": ROOT / "conformance" / "acp_conformance"}
VERSION = acp_server.__version__


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both sdists, and the wheels that were built from them."""
    folder = tmp_path_factory.mktemp("dist")
    build_all(folder)
    return folder


def file_name(name: str) -> str:
    return f"{name.replace('-', '_')}-{VERSION}"


def wheel(built: Path, name: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(built / f"{file_name(name)}-py3-none-any.whl")


@pytest.mark.parametrize("name", PROJECTS)
def test_the_wheel_from_the_sdist_has_every_file_of_its_package_and_nothing_else(built: Path, name: str) -> None:
    folder = PACKAGES[name]
    with wheel(built, name) as file:
        names = set(file.namelist())
    source = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert names >= {path.relative_to(folder.parent).as_posix() for path in source}
    assert {each.split("/")[0] for each in names} == {folder.name, f"{file_name(name)}.dist-info"}


@pytest.mark.parametrize(
    ("name", "entry"), [("acp-server", "acp_server.__main__:main"), ("acp-conformance", "acp_conformance.cli:main")]
)
def test_each_command_belongs_to_one_wheel(built: Path, name: str, entry: str) -> None:
    scripts = ConfigParser()
    with wheel(built, name) as file:
        scripts.read_string(file.read(f"{file_name(name)}.dist-info/entry_points.txt").decode())
    assert dict(scripts["console_scripts"]) == {name: entry}


@pytest.mark.parametrize("name", PROJECTS)
def test_the_sdist_has_what_a_build_needs_and_no_tests(built: Path, name: str) -> None:
    with tarfile.open(built / f"{file_name(name)}.tar.gz") as file:
        top = {each.split("/")[1] for each in file.getnames()}
    changes = {"CHANGELOG.md"} if name == "acp-server" else set()
    assert top == {PACKAGES[name].name, "pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"} | changes


def test_both_packages_have_one_version() -> None:
    assert acp_conformance.__version__ == VERSION


def environment_with(built: Path, *names: str, folder: Path) -> Path:
    """An environment in which only these wheels are installed. What they depend on is that of the running one."""
    programs = new_environment(sys.executable, folder / "env")
    (packages,) = (folder / "env").glob("lib/*/site-packages")
    needed = folder / "needed"
    needed.mkdir()
    for path in filter(os.path.isdir, site.getsitepackages()):
        for entry in Path(path).iterdir():
            if not entry.name.startswith(("acp_server", "acp_conformance")) and entry.suffix != ".pth":
                (needed / entry.name).symlink_to(entry)
    (packages / "needed.pth").write_text(f"{needed}\n")
    for name in names:
        with wheel(built, name) as file:
            file.extractall(packages)
        entry = "acp_server.__main__" if name == "acp-server" else "acp_conformance.cli"
        script = programs / name
        script.write_text(f"#!{programs / 'python'}\nimport sys\nfrom {entry} import main\nsys.exit(main())\n")
        script.chmod(0o755)
    return programs


def test_the_first_agent_of_the_readme_runs_where_only_the_wheel_is_installed(built: Path, tmp_path: Path) -> None:
    programs = environment_with(built, "acp-server", folder=tmp_path)
    assert first_steps(programs, tmp_path) == ANSWER


def test_the_judge_works_where_only_its_wheel_is_installed(built: Path, tmp_path: Path) -> None:
    programs = environment_with(built, "acp-conformance", folder=tmp_path)
    agent = [sys.executable, "-S", "-E", str(ROOT / "tests" / "conformance" / "faulty" / "agents")]
    profile = str(ROOT / "tests" / "conformance" / "faulty" / "profile.toml")
    cases = ["--case", "ids/zero", "--case", "schema/*"]
    judged = run(programs / "acp-conformance", "agent", "--profile", profile, *cases, "--", *agent, cwd=tmp_path)
    assert "8 passed" in judged.stdout


def test_no_file_belongs_to_both_wheels(built: Path) -> None:
    contents: list[set[str]] = []
    for name in PROJECTS:
        with wheel(built, name) as file:
            contents.append(set(file.namelist()))
    assert not any(one & other for one, other in itertools.combinations(contents, 2))


def test_two_builds_of_one_date_are_the_same_bytes(built: Path, tmp_path: Path) -> None:
    date = 1_700_000_000
    first, second = (
        {file.name: file.read_bytes() for file in build_all(tmp_path / name, date)} for name in ("first", "second")
    )
    assert first == second
    assert len(first) == 4
