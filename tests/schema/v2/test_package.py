"""What the package of version 2 offers by name, and that a program that speaks version 1 loads nothing of it."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("code", ["import acp_server", "import acp_server.schema", INITIALIZE])
def test_version_1_loads_nothing_of_version_2(code: str) -> None:
    assert loaded_after(code) == set()


def test_importing_the_package_or_its_table_of_methods_loads_no_types() -> None:
    package = "acp_server.schema.v2"
    assert loaded_after("import acp_server.schema.v2") == {package}
    assert loaded_after("from acp_server.schema.v2 import METHODS\nlist(METHODS)") == {package, f"{package}.methods"}


@pytest.mark.parametrize("area", AREAS)
def test_the_package_offers_exactly_the_public_names_of_an_area(area: str) -> None:
    module = import_module(f"acp_server.schema.v2.{area}")
    offered = {name for name in dir(v2) if v2.area_of(name) == area}
    assert offered == set(module.__all__)
    for name in offered:
        assert getattr(v2, name) is getattr(module, name)


def test_every_file_with_public_names_is_offered_to_type_checkers_too() -> None:
    source = (FOLDER / "__init__.py").read_text("utf-8")
    with_names = {path.stem for path in FOLDER.glob("*.py") if "\n__all__ = [" in path.read_text("utf-8")}
    assert with_names == set(AREAS)
    for area in AREAS:
        assert f"    from acp_server.schema.v2.{area} import *" in source


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'LoadSessionRequest'"):
        v2.LoadSessionRequest  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
