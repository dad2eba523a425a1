"""What the package offers by name, and that it loads no more than is used."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typing_extensions import TypeAliasType

import acp_server.schema as schema

AREAS = sorted({area for name in dir(schema) if (area := schema.area_of(name))})
FOLDER = Path(schema.__file__).parent
MEANS = {"ByKey", "CountsAs", "Expect", "FirstProblem", "MaybeItems", "Model", "Sparse", "Tagged", "Wire"}
MEANS |= {"Absolute", "Address", "Base64", "FromOne", "MediaType", "OpenEnum", "Own"}
"""What types are written with; not types of the protocol."""


def loaded_after(code: str) -> set[str]:
    """The areas that a fresh interpreter has loaded after running some code."""
    program = (
        f"{code}\nimport sys\nprint(*[n.rpartition('.')[2] for n in sys.modules if n.startswith('acp_server.schema.')])"
        "\nprint('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    areas, pydantic = done.stdout.splitlines()
    return {*areas.split(), *(["pydantic"] if pydantic == "True" else [])}


def test_importing_the_package_loads_nothing_of_it() -> None:
    assert loaded_after("import acp_server.schema") == set()


def test_answering_initialize_loads_only_what_that_takes() -> None:
    loaded = loaded_after("from acp_server import schema\nschema.InitializeRequest.from_wire({'protocolVersion': 1})")
    assert loaded == {"pydantic", "base", "initialization", "shown", "types", "words"}


def test_the_table_of_methods_loads_no_types() -> None:
    assert loaded_after("from acp_server.schema import METHODS\nlist(METHODS.values())") == {"methods"}


@pytest.mark.parametrize("area", AREAS)
def test_the_package_offers_every_type_that_an_area_makes(area: str) -> None:
    module = import_module(f"acp_server.schema.{area}")
    offered = {name for name in dir(schema) if schema.area_of(name) == area}
    types = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type | TypeAliasType) and value.__module__ == module.__name__
    }
    assert {name for name in types if not name.startswith("_")} - MEANS <= offered
    for name in offered:
        assert getattr(schema, name) is getattr(module, name)


def test_every_file_with_public_names_is_offered_to_type_checkers_too() -> None:
    source = (FOLDER / "__init__.py").read_text("utf-8")
    assert {path.stem for path in FOLDER.glob("*.py")} == {*AREAS, "export", "shown", "versions", "__init__"}
    for area in AREAS:
        assert f"    from acp_server.schema.{area} import *" in source


@pytest.mark.parametrize("package", ["acp_server.schema", "acp_server.schema.v2"])
def test_importing_all_of_a_package_brings_every_public_name(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    module = import_module(package)
    assert names.keys() - {"__builtins__"} == {name for name in dir(module) if module.area_of(name)}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        schema.Nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
