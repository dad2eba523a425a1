"""`make release VERSION=X.Y.Z`: everything that a release consists of, made and checked on this machine.

It writes the version into both packages and the changelog, builds both distributions twice and compares the bytes,
checks them with twine, and writes a bill of materials of each, release notes and checksums. It uploads nothing, commits
nothing and tags nothing: it prints the commands for that. Run again, it makes the same bytes.
"""

import argparse
import filecmp
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from release import changelog
from release.bill import write_bill
from release.build import ROOT, build_all

CHANGELOG = ROOT / "CHANGELOG.md"
VERSIONED = (ROOT / "acp_server" / "__init__.py", ROOT / "conformance" / "acp_conformance" / "__init__.py")
"""The files that hold the version. Everything else reads it from these."""

DIST = ROOT / "dist"
_LINE = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


class ReleaseError(Exception):
    """The release cannot be made; the message says why."""


def main() -> int:
    """Make the release. Exit status 1 with one line on standard error if it cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m release", description="Make a release; upload nothing.")
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--tools", type=Path, required=True, help="the folder of programs with twine and cyclonedx-py")
    options = parser.parse_args()
    try:
        _release(options.version, options.tools)
    except (ReleaseError, changelog.ChangelogError, RuntimeError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: {error.cmd[0]} failed:\n{error.stdout or ''}{error.stderr or ''}", file=sys.stderr)
        return 1
    return 0


def _release(version: str, tools: Path) -> None:
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise ReleaseError(f"{version!r} is not a version such as 0.2.0")
    _check_tree()
    text = changelog.cut(CHANGELOG.read_text("utf-8"), version, f"{datetime.now(UTC):%Y-%m-%d}")
    day = changelog.date_of(text, version)
    assert day is not None
    CHANGELOG.write_text(text, "utf-8")
    for file in VERSIONED:
        set_version(file, version)
    print(f"version {version} of {day}: {', '.join(str(file.relative_to(ROOT)) for file in (*VERSIONED, CHANGELOG))}")

    # The day of the release, and not that of a commit: whoever has the tag can make the same bytes.
    date = int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())
    files = _built_twice(date)
    print(f"built twice, {len(files)} files, the same bytes")
    _run(str(tools / "twine"), "check", "--strict", *map(str, files))
    print("checked by twine")

    papers = ROOT / "build" / f"release-{version}"
    shutil.rmtree(papers, ignore_errors=True)
    papers.mkdir(parents=True)
    (papers / "notes.md").write_text(changelog.notes(text, version), "utf-8")
    made = [papers / "notes.md"]
    for name in ("acp-server", "acp-conformance"):
        made.append(papers / f"{name}-{version}.cdx.json")
        components = write_bill(name, version, DIST, made[-1], tools)
        print(f"bill of materials of {name}: {components} components")
    sums = "".join(f"{_digest(file)}  {file.name}\n" for file in [*files, *made])
    (papers / "SHA256SUMS").write_text(sums, "utf-8")
    print(f"\n{sums}\n{_next_steps(version, papers)}")


def _check_tree() -> None:
    """Only what a release writes may differ from the last commit."""
    status = _run("git", "status", "--porcelain").splitlines()
    ours = {str(file.relative_to(ROOT)) for file in (*VERSIONED, CHANGELOG)}
    if others := [line[3:] for line in status if line[3:] not in ours]:
        raise ReleaseError(f"these files differ from the last commit: {', '.join(others)}")


def set_version(file: Path, version: str) -> None:
    """Write the version into a module. Raises ReleaseError if it has no line for it, or more than one."""
    text, count = _LINE.subn(f'__version__ = "{version}"', file.read_text("utf-8"))
    if count != 1:
        raise ReleaseError(f"{file} has {count} lines with __version__")
    file.write_text(text, "utf-8")


def _built_twice(date: int) -> list[Path]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.rmtree(DIST, ignore_errors=True)
        files = build_all(DIST, date)
        again = build_all(Path(folder), date)
        differing = [file.name for file, other in zip(files, again, strict=True) if not filecmp.cmp(file, other, False)]
    if differing:
        raise ReleaseError(f"two builds differ: {', '.join(differing)}")
    return files


def _next_steps(version: str, papers: Path) -> str:
    return f"""\
Nothing was uploaded, committed or tagged. To release:

    git commit --all --message "Release {version}"
    git tag --annotate --cleanup=whitespace --file {papers.relative_to(ROOT) / "notes.md"} v{version}
    git push --atomic origin main v{version}

The tag starts the workflow that builds the same bytes and publishes them."""


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True, timeout=300).stdout


if __name__ == "__main__":
    sys.exit(main())
