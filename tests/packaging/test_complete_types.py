"""Each public name has a type that a type checker knows for sure; `make types` says so of the package."""

from pathlib import Path

from tests.packaging.complete_types import report, unknown


def test_a_name_without_a_sure_type_is_told(tmp_path: Path) -> None:
    package = tmp_path / "acp_sample"
    package.mkdir()
    (package / "py.typed").touch()
    (package / "__init__.py").write_text("from os import environ\nSIZE: int = 3\nhome = environ.get('HOME', 3)\n")
    [told] = unknown(report(package))
    assert told.startswith("acp_sample.home: ")
