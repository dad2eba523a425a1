"""The table "where is what" names files that are there, and what they have; packages and dependencies are explained."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def _table(text: str, heading: str) -> list[list[str]]:
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows: list[list[str]] = []
    for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        rows += [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return rows


def _names(path: Path) -> set[str]:
    """What a file defines: `name`, `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


@pytest.mark.parametrize(("duty", "file", "names"), _table(ARCHITECTURE, "Where is what"))
def test_each_file_has_what_the_page_says(duty: str, file: str, names: str) -> None:
    assert duty
    path = ROOT / "acp_server" / file.strip("`")
    assert path.is_file()
    named = re.findall(r"`([^`]+)`", names)
    assert named
    assert _names(path).issuperset(named)


def test_each_file_of_the_package_has_a_line_on_the_page() -> None:
    package = ROOT / "acp_server"
    files = {path.relative_to(package) for path in package.rglob("*.py")}
    # An area of the protocol has the name of its file; what begins a package says what the package is.
    files = {file for file in files if file.parts[0] != "schema" and file.stem not in ("__init__", "__main__")}
    named = {row[1].strip("`") for row in _table(ARCHITECTURE, "Where is what")}
    assert {file.as_posix() for file in files} - named == set()


def test_the_page_says_of_every_package_what_it_does() -> None:
    packages = {path.parent.name for path in (ROOT / "acp_server").glob("*/__init__.py")}
    packages |= {f"apps/{path.parent.name}" for path in (ROOT / "acp_server" / "apps").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "acp_server").glob("[a-z]*.py")}
    assert packages | modules == {row[0].strip("`") for row in _table(ARCHITECTURE, "Packages")}
