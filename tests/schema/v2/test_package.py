"""What the package of version 2 offers by name, and that a program that speaks version 1 loads nothing of it."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typing_extensions import TypeAliasType

from acp_server.schema import v2

AREAS = sorted({area for name in dir(v2) if (area := v2.area_of(name))})
FOLDER = Path(v2.__file__).parent
INITIALIZE = """
from acp_server import Agent
from acp_server.schema import InitializeRequest, PromptRequest
InitializeRequest.from_wire({'protocolVersion': 2, 'clientInfo': 7})
PromptRequest.from_wire({'sessionId': 's', 'prompt': [{'type': 'text', 'text': 'a', 'annotations': 5}]})
"""


def loaded_after(code: str) -> set[str]:
    """The modules of version 2 that a fresh interpreter has loaded after running some code."""
    program = f"{code}\nimport sys\nprint(*[n for n in sys.modules if n.startswith('acp_server.schema.v2')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import acp_server", "import acp_server.schema"])
def test_version_1_loads_nothing_of_version_2(code: str) -> None:
    assert loaded_after(code) == set()


def test_an_agent_loads_of_version_2_what_says_that_there_is_one() -> None:
    assert loaded_after(INITIALIZE) == {"acp_server.schema.v2"}


def test_importing_the_package_or_its_table_of_methods_loads_no_types() -> None:
    package = "acp_server.schema.v2"
    assert loaded_after("import acp_server.schema.v2") == {package}
    assert loaded_after("from acp_server.schema.v2 import METHODS\nlist(METHODS)") == {package, f"{package}.methods"}


@pytest.mark.parametrize("area", AREAS)
def test_the_package_offers_every_type_that_an_area_makes(area: str) -> None:
    module = import_module(f"acp_server.schema.v2.{area}")
    offered = {name for name in dir(v2) if v2.area_of(name) == area}
    types = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type | TypeAliasType) and value.__module__ == module.__name__
    }
    assert {name for name in types if not name.startswith("_")} <= offered
    for name in offered:
        assert getattr(v2, name) is getattr(module, name)


def test_every_file_with_public_names_is_offered_to_type_checkers_too() -> None:
    source = (FOLDER / "__init__.py").read_text("utf-8")
    assert {path.stem for path in FOLDER.glob("*.py")} == {*AREAS, "__init__"}
    for area in AREAS:
        assert f"    from acp_server.schema.v2.{area} import *" in source


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'LoadSessionRequest'"):
        v2.LoadSessionRequest  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
