"""Build the suite as one file that any Python of a supported version runs: `python build.py FILE.pyz`.

The file has the suite, the schema, and the libraries that it needs, copied from the environment that builds it. All of
these are plain Python except one, `rpds-py`, which is compiled: `rpds.py` here replaces it, so that the file is the
same for every system.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipapp
from importlib.metadata import distribution
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "acp_conformance"

LIBRARIES = (
    *("anyio", "idna", "sniffio", "typing-extensions", "click"),
    *("jsonschema", "jsonschema-specifications", "referencing", "attrs"),
)
_COMPILED = (".so", ".pyd", ".dylib")


def build(target: Path) -> None:
    """Write the file.

    Raises:
        importlib.metadata.PackageNotFoundError: A library is not installed here.
        RuntimeError: A library is no longer plain Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "inside"
        shutil.copytree(PACKAGE, inside / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE / "rpds.py", inside)
        shutil.copy(HERE / "__main__.py", inside)
        for name in LIBRARIES:
            _copy(name, inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(inside, target, interpreter="/usr/bin/env python3", compressed=True)


def _copy(name: str, inside: Path) -> None:
    for file in distribution(name).files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        if file.suffix in _COMPILED:
            raise RuntimeError(f"{name} has {file}, which is not plain Python")
        copy = inside / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(file.locate()), copy)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
