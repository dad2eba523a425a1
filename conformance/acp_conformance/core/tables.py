"""Reads profiles from TOML files. Every error names the place in the file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Reader = Callable[[Any, str], Any]
"""Converts a value of a profile; its second argument is the place of the value, for an error."""


class ProfileError(Exception):
    """Raised for a profile that does not exist, or has an invalid entry."""


def names(folder: Path) -> list[str]:
    """Return the names of the profiles in a folder."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def document(name: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Return a document and the path of its file: the file `name`, or else `name`.toml in `folder`.

    Raises:
     ProfileError: There is no such file, or it is not TOML.
    """
    path = Path(name)
    if not path.is_file():
        path = folder / f"{name}.toml"
    if not path.is_file():
        raise ProfileError(
            f"no profile {name!r}: not a file, and not one of {', '.join(names(folder)) or 'none included'}"
        )
    try:
        return tomllib.loads(path.read_text("utf-8")), str(path)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{path}: {error}") from error


def read(data: Mapping[str, Any], keys: Mapping[str, Reader], where: str) -> dict[str, Any]:
    """Return the values of a table, each read by the reader of its key.

    Raises:
     ProfileError: A key does not exist, or a value has another type.
    """
    for key in data:
        if key not in keys:
            raise ProfileError(f"{where}: unknown key {key!r}; known are {', '.join(keys)}")
    return {key: keys[key](value, f"{where}: {key}") for key, value in data.items()}


def text(value: Any, where: str) -> str:
    """Return a string. Raises ProfileError for another type."""
    if not isinstance(value, str):
        raise ProfileError(f"{where} must be a string")
    return value


def flag(value: Any, where: str) -> bool:
    """Return a boolean. Raises ProfileError for another type."""
    if not isinstance(value, bool):
        raise ProfileError(f"{where} must be true or false")
    return value


def texts(value: Any, where: str) -> tuple[str, ...]:
    """Return a list of strings. Raises ProfileError for another type."""
    if not isinstance(value, list):
        raise ProfileError(f"{where} must be a list of strings")
    return tuple(text(each, f"{where}[{n}]") for n, each in enumerate(value))


def table(value: Any, where: str) -> Mapping[str, Any]:
    """Return a table with any values. Raises ProfileError for another type."""
    if not isinstance(value, dict):
        raise ProfileError(f"{where} must be a table")
    return value


def strings(value: Any, where: str) -> Mapping[str, str]:
    """Return a table of strings. Raises ProfileError for another type."""
    return {key: text(each, f"{where}: {key}") for key, each in table(value, where).items()}
