"""Compares the types of this library with a published schema, and says what is new, changed or gone there.

    python -m tests.schema.watch SOURCE...

A SOURCE is a schema file, an npm package or a Rust crate: as a folder, as an archive, or as `npm:NAME@VERSION`, which
is fetched. Every difference is listed by the stability that it has there, with its reason if this library has one. The
exit status is 1 if there is a difference without a reason.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from acp_server.schema.features import ABSENT, FEATURES, Feature
from tests.schema.canonical import Canonical, differences
from tests.schema.exported import definitions
from tests.schema.reasons import ALONE, THEIRS_ALONE, TOLERATED, covers

Definitions = Mapping[str, Any]


_SHOWN = 6
"""Places that are named for one reason."""


class Published(NamedTuple):
    """One schema document."""

    name: str
    version: int
    is_stable: bool
    """Whether it leaves out what is unstable."""
    definitions: Definitions


class Finding(NamedTuple):
    """A difference between a published schema and the types here."""

    what: str
    """`new`, `changed` or `gone`."""
    where: str
    reason: str | None
    """Why it is so; None if that is not known here."""
    detail: str = ""


def compared(published: Published) -> Iterator[Finding]:
    """Every difference."""
    name = "schema.json" if published.is_stable else "schema.unstable.json"
    ours, theirs = definitions(published.version, name), published.definitions
    for missing in sorted(theirs.keys() - ours.keys()):
        yield Finding("new", missing, THEIRS_ALONE[published.version].get(missing) or _reason_of(missing))
    for alone in sorted(ours.keys() - theirs.keys()):
        yield Finding("gone", alone, ALONE[published.version].get(alone) or _ahead(alone, ""))
    mine, other = Canonical(ours), Canonical(theirs)
    for name in sorted(ours.keys() & theirs.keys()):
        for where, has, have in differences(mine.definition(name), other.definition(name)):
            reason = next(
                (why for entry, why in TOLERATED[published.version].items() if covers(entry, (name, where))), None
            )
            kind = "new" if has is None else "gone" if have is None else "changed"
            detail = "" if kind == "new" else f"here {has!r}, there {have!r}"
            yield Finding(kind, f"{name}: {where}", reason or _reason_of(name, where) or _ahead(name, where), detail)


def _reason_of(name: str, where: str = "") -> str | None:
    """Why this library does not have what is published at a place."""
    return next((feature.does for feature in ABSENT.values() if _is_of(feature, name, where)), None)


def _ahead(name: str, where: str) -> str | None:
    """Why a published schema does not have what this library has at a place."""
    found = next((feature for feature in FEATURES.values() if _is_of(feature, name, where)), None)
    return found and f"{found.state} since {found.release}"


def _is_of(feature: Feature, name: str, where: str) -> bool:
    last = where.rpartition(".")[2].strip("'")
    if name in feature.types or last in feature.types:
        return True
    keys = [key for owner, _, key in (member.partition(".") for member in feature.members) if owner == name]
    return any(last == key or f"properties.{key}" in where or f"='{key}'" in where for key in keys)


def read(source: str, folder: Path) -> Iterator[Published]:
    """The schema documents of a source. `folder`: an empty one to unpack archives in. Raises ValueError."""
    if source.startswith("npm:"):
        packed = subprocess.run(
            ["npm", "pack", "--silent", source.removeprefix("npm:")],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        source = str(folder / packed.stdout.split()[-1])
    path = Path(source)
    if path.is_file() and path.suffix in (".tgz", ".gz", ".crate"):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        path = folder
    files = [path] if path.is_file() else sorted(path.rglob("schema*.json"))
    found = [each for file in files if (each := _document(file)) is not None]
    if not found:
        raise ValueError(f"{source} has no schema of the protocol")
    yield from found


def _document(path: Path) -> Published | None:
    document = json.loads(path.read_text("utf-8"))
    defined = document.get("$defs") if isinstance(document, dict) else None
    if not isinstance(defined, dict) or "InitializeRequest" not in defined:
        return None
    # Version 2 has states of sessions in its stable set.
    version = 2 if "AbsolutePath" in defined else 1
    is_stable = not any("UNSTABLE" in each.get("description", "") for each in defined.values())
    return Published(f"{path.parent.name}/{path.name}", version, is_stable, defined)


def report(published: Published) -> tuple[str, int]:
    """The findings in words, and how many have no reason."""
    found = list(compared(published))
    unexplained = [each for each in found if each.reason is None]
    stability = "stable" if published.is_stable else "with what is unstable"
    lines = [f"{published.name}: version {published.version}, {stability}: {len(found)} differences"]
    for what in ("new", "changed", "gone"):
        group = [each for each in found if each.what == what and each.reason is not None]
        reasons = dict.fromkeys(each.reason for each in group)
        lines += [f"  {what} there, with a reason: {len(group)}"] if group else []
        for reason in reasons:
            places = [each.where for each in group if each.reason == reason]
            more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
            lines.append(f"    {reason}: {'; '.join(places[:_SHOWN])}{more}")
    lines += [f"  unexplained, {each.what} there: {each.where} {each.detail}".rstrip() for each in unexplained]
    return "\n".join([*lines, f"  unexplained: {len(unexplained)}"]), len(unexplained)


def main(sources: Sequence[str]) -> int:
    """The command. Its exit status is 1 if a difference is unexplained, and 2 if a source cannot be read."""
    unexplained = 0
    with ExitStack() as stack:
        for source in sources:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            try:
                for published in read(source, folder):
                    text, count = report(published)
                    sys.stdout.write(f"{text}\n")
                    unexplained += count
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                sys.stderr.write(f"{source}: {error}\n")
                return 2
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
