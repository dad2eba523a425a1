"""What users get: the wheel holds all of the package and nothing else, and works where only it was installed."""

import os
import site
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.packaging.built import ROOT, build, first_steps, new_environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as file:
        yield file


def test_the_wheel_has_every_file_of_the_package_and_its_console_script(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    source = [file for file in (ROOT / "acp_server").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert names >= {file.relative_to(ROOT).as_posix() for file in source}
    assert {name.split("/")[0] for name in names} - {"acp_server", "conformance"} == {"acp_server-0.1.0.dist-info"}
    scripts = ConfigParser()
    scripts.read_string(wheel.read("acp_server-0.1.0.dist-info/entry_points.txt").decode())
    assert scripts["console_scripts"]["acp-server"] == "acp_server.__main__:main"


def test_the_sdist_has_what_a_build_needs_and_no_tests(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as file:
        top = {name.split("/")[1] for name in file.getnames()}
    assert top >= {"acp_server", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert not top & {"tests", "benchmarks", "Makefile", "requirements.lock", ".ci"}


def test_the_first_agent_of_the_readme_runs_where_only_the_wheel_is_installed(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    programs = new_environment(sys.executable, tmp_path / "env")
    (packages,) = (tmp_path / "env").glob("lib/*/site-packages")
    wheel.extractall(packages)
    # What it depends on is taken from here, without the package itself, of which here is an editable one.
    needed = tmp_path / "needed"
    needed.mkdir()
    for folder in filter(os.path.isdir, site.getsitepackages()):
        for entry in Path(folder).iterdir():
            if "acp_server" not in entry.name and entry.suffix != ".pth":
                (needed / entry.name).symlink_to(entry)
    (packages / "needed.pth").write_text(f"{needed}\n")
    script = programs / "acp-server"
    script.write_text(f"#!{programs / 'python'}\nimport sys\nfrom acp_server.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    assert first_steps(programs, tmp_path) == "You asked for 'a.txt'. It has 2 lines.\n"
