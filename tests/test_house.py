"""The rules of the house that no tool holds for us: behaviours, words, sizes, docstrings, imports."""

import ast
import graphlib
import importlib.metadata
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.plugins import behaviours

ROOT = Path(__file__).resolve().parents[1]
LONGEST_FILE = 500
LONGEST_FACE = 700
FACES = {"acp_server/agent/app.py", "acp_server/client/remote.py"}
"""What authors write against: its docstrings are longer than its code."""
BACK = {
    # A public attribute leads back to the owner: `RemoteSession.agent`, `RemoteTurn.session`, `Turn.session`.
    ("client.session", "client.remote"),
    ("client.subagents", "client.session"),
    ("client.turn", "client.session"),
    ("session.client", "session.session"),
    ("session.turn", "session.session"),
    ("session.turn", "session.subagents"),  # `Turn.subagent` returns one
    # A part of one thing in a file of its own: it works on the whole, and the whole is made of it.
    ("session.turn", "session.updates"),
    ("session.v2.prompting", "session.v2.session"),
    ("store.children", "store.records"),
    ("tools.session_tools", "tools.runner"),
    ("apps.cli.chat.commands", "apps.cli.chat.conversation"),
    # The turns of a session are the session's, and each has a part in its end.
    ("session.updates", "session.live_session"),
    # The key of an approval is a function of the running call, which has its tool.
    ("tools.tool", "tools.context"),
    # What an author declares are functions of what the runtime makes by this declaration.
    ("session.definition", "session.negotiation"),
    ("session.definition", "session.session"),
    ("session.definition", "session.settings"),
    ("session.definition", "session.turn"),
}
"""Imports for types alone that go against those at run time, within one package."""

VERSION_2 = {
    "acp_server/agent/app.py",
    "acp_server/client/__init__.py",
    "acp_server/schema/export.py",
}
"""What names version 2 beside its own modules: what registers it for agents and for clients, neither of which knows the
other, and what writes the schemas of all versions."""

NOT_OURS = {"__pycache__", "build", "dist", "htmlcov", "node_modules"}

# Put together here, so that this file may be searched like any other.
MACHINE_PATHS = [f"/{name}/" for name in ("work", "root", "opt/wheels", "opt/pypi")]
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
    )
]


@cache
def _files() -> list[Path]:
    """The project's own files, found without git, which a machine may lack that unpacked an archive."""
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not (name[0] == "." or name in NOT_OURS)]
        found += [Path(folder, name) for name in names if not name.startswith((".git", ".coverage"))]
    return found


def _python_files() -> list[Path]:
    return [path for path in _files() if path.suffix == ".py"]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _package_trees() -> list[tuple[str, ast.Module]]:
    return [
        (name, ast.parse(path.read_text("utf-8"), name))
        for path in _python_files()
        if (name := _name(path)).startswith("acp_server/")
    ]


# Behaviours


def test_the_catalogue_numbers_each_group_without_a_gap() -> None:
    for group in behaviours.catalogue():
        assert list(group.titles) == [f"{group.letter}{n}" for n in range(1, group.count + 1)]
    assert sum(group.count for group in behaviours.catalogue()) == 170


def test_every_behaviour_has_a_test_that_says_so() -> None:
    held = {number for mark in behaviours.marks_in_tests() for number in mark.numbers}
    missing = [
        f"{number:4} {title}"
        for group in behaviours.catalogue()
        if group.deferred is None
        for number, title in group.titles.items()
        if number not in held
    ]
    if missing:
        pytest.fail(f"{len(missing)} behaviours without a test:\n" + "\n".join(missing), pytrace=False)


def test_every_behaviour_mark_is_on_a_test_and_names_known_numbers() -> None:
    known = {number for group in behaviours.catalogue() for number in group.titles}
    wrong = [
        f"{mark.place}: {mark.fault or 'unknown ' + ', '.join(set(mark.numbers) - known)}"
        for mark in behaviours.marks_in_tests()
        if mark.fault or not known.issuperset(mark.numbers)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('@pytest.mark.behaviour("A1", "B2")\ndef test_it(): ...', None),
        ('@pytest.mark.behaviour("A1", "B2")\nclass TestIt: ...', None),
        ('pytestmark = pytest.mark.behaviour("A1", "B2")', None),
        ('pytest.param(1, marks=pytest.mark.behaviour("A1", "B2"))', None),
        ("@pytest.mark.behaviour\ndef test_it(): ...", "no number"),
        ("@pytest.mark.behaviour()\ndef test_it(): ...", "no number"),
        ("@pytest.mark.behaviour(*NUMBERS)\ndef test_it(): ...", "a number that is no literal string"),
        ('@pytest.mark.behaviour("A1")\ndef helper(): ...', "not on a test"),
    ],
)
def test_a_mark_is_found_wherever_pytest_would_see_it(source: str, fault: str | None) -> None:
    (mark,) = behaviours.marks(source, "test_x.py")
    assert mark.fault == fault
    if fault is None:
        assert mark.numbers == ("A1", "B2")


# Words, sizes, docstrings


def test_no_file_names_a_machine_path_or_a_registry_host() -> None:
    found: list[str] = []
    for path in _files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{_name(path)}: {word}" for word in MACHINE_PATHS + REGISTRY_HOSTS if word in text]
    assert not found, "\n".join(found)


def test_the_lock_gives_every_requirement_an_exact_version_and_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text("utf-8").replace("\\\n", " ")
    requirements = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert requirements
    for line in requirements:
        assert re.match(r"[a-z0-9._-]+==[^ ]+ ", line), line
        assert "--hash=sha256:" in line, line


def test_every_python_file_can_be_read_in_one_go() -> None:
    lengths = {_name(path): len(path.read_text("utf-8").splitlines()) for path in _python_files()}
    longest = {name: LONGEST_FACE if name in FACES else LONGEST_FILE for name in lengths}
    assert not {name: lines for name, lines in lengths.items() if lines > longest[name]}


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        _name(path)
        for path in _python_files()
        if not (ast.get_docstring(ast.parse(text := path.read_text("utf-8"))) or "").strip()
        # An empty file that only makes a folder a package has nothing to say, except to the users of ours.
        if text.strip() or _name(path).startswith("acp_server/")
    ]
    assert not silent


# What import contracts cannot say


def test_scopes_are_shielded_in_two_places() -> None:
    found = [
        name
        for name, tree in _package_trees()
        for node in ast.walk(tree)
        if (isinstance(node, ast.keyword) and node.arg == "shield")
        or (isinstance(node, ast.Attribute) and node.attr == "shield" and isinstance(node.ctx, ast.Store))
    ]
    # A block with an end, and what is left alone because it does not end.
    assert sorted(found) == ["acp_server/tasks/grace.py", "acp_server/tasks/tree.py"]


def test_no_memory_object_stream_hides_control_flow() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in _package_trees()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "create_memory_object_stream")
        or (isinstance(node, ast.alias) and node.name == "create_memory_object_stream")
    ]
    assert not found


@pytest.mark.parametrize("folder", ["acp_server", "conformance/acp_conformance"])
def test_modules_import_each_other_in_no_circle(folder: str) -> None:
    imports = _imports_within(folder, for_types=False)
    assert len(imports) > 40
    graphlib.TopologicalSorter(imports).prepare()


def test_types_go_in_circles_only_where_that_is_said() -> None:
    imports = _imports_within("acp_server", for_types=True)
    back = {(f"acp_server.{module}", f"acp_server.{other}") for module, other in BACK}
    at_once = _imports_within("acp_server", for_types=False)
    assert not {(module, other) for module, other in back if other not in imports[module] - at_once[module]}
    graphlib.TopologicalSorter(
        {module: {other for other in others if (module, other) not in back} for module, others in imports.items()}
    ).prepare()


def _imports_within(folder: str, *, for_types: bool) -> dict[str, set[str]]:
    """Which modules a module imports when it is imported. `for_types`: also what only type checkers see, apart from the
    names that the index of a package lists for them."""
    above = folder.rpartition("/")[0]
    paths = {
        name.removeprefix(f"{above}/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in _python_files()
        if (name := _name(path)).startswith(f"{folder}/")
    }
    imports: dict[str, set[str]] = {}
    for module, path in paths.items():
        is_index = path.name == "__init__.py"
        package = module if is_index else module.rpartition(".")[0]
        tree = ast.parse(path.read_text("utf-8"))
        imports[module] = {
            found
            for name, names in _imports_at_once(tree, package, for_types and not is_index)
            for found in ({f"{name}.{one}" for one in names} & paths.keys() or {name} & paths.keys())
        } - {module}
    return imports


def _imports_at_once(tree: ast.AST, package: str, for_types: bool) -> Iterator[tuple[str, list[str]]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            yield f"{above}.{node.module or ''}".strip("."), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif for_types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from _imports_at_once(node, package, for_types)


def test_version_2_is_named_by_its_own_modules_and_where_each_room_registers_it() -> None:
    """Whatever else has to do with a version asks the registries: `versions.py` of `schema`, `session` and `client`."""
    found = {
        name
        for name, tree in _package_trees()
        if "/v2/" not in name
        for node in ast.walk(tree)
        for word in _words(node)
        if re.search(r"(^|[_.])(v2|version_2|speak_2)($|[_.])|V2|Version2", word)
    }
    assert found == VERSION_2


def _words(node: ast.AST) -> list[str]:
    """The names that a node of code has itself, those of modules included; no text."""
    match node:
        case ast.ImportFrom():
            return [node.module or "", *(alias.name for alias in node.names)]
        case ast.alias() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Name():
            return [node.id]
        case ast.Attribute():
            return [node.attr]
        case ast.arg() | ast.keyword():
            return [node.arg or ""]
        case _:
            return []


def test_the_black_box_tests_never_import_the_package() -> None:
    found = [
        f"{_name(path)}: {module}"
        for path in _python_files()
        if _name(path).startswith("conformance/")
        for module in _imported(ast.parse(path.read_text("utf-8")))
        if module == "acp_server"
    ]
    assert not found


def test_the_package_imports_only_what_it_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    allowed_in = [("acp_server/", project["dependencies"])]
    allowed_in += [(folder, needed) for extra, needed in extras.items() for folder in _folders(extra)]
    distributions = importlib.metadata.packages_distributions()
    undeclared: list[str] = []
    for name, tree in _package_trees():
        declared = {_distribution(need) for folder, needs in allowed_in if name.startswith(folder) for need in needs}
        for module in _imported(tree):
            # The second one comes with Python 3.14.
            if module in sys.stdlib_module_names or module in ("__future__", "annotationlib", "acp_server"):
                continue
            if not declared.intersection(map(_distribution, distributions.get(module, [module]))):
                undeclared.append(f"{name}: {module}")
    assert not undeclared


def _folders(extra: str) -> tuple[str, ...]:
    match extra:
        case "postgres":
            return ("acp_server/apps/gateway/postgres_engine.py",)
        case "gateway":
            return ("acp_server/apps/gateway/", "acp_server/http/")
        case "remote":
            return ("acp_server/remote/", "acp_server/http/")
        case "chat" | "reload":
            return (f"acp_server/apps/cli/{extra}/",)
        case _:
            return (f"acp_server/{extra}/",)


def _imported(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def _distribution(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()
