"""Cuts CHANGELOG.md for a release: "Unreleased" becomes a version with a date, whose text is the release notes."""

import re

UNRELEASED = "## [Unreleased]"
_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)


class ChangelogError(ValueError):
    """The changelog is not as a release needs it."""


def cut(text: str, version: str, date: str) -> str:
    """The changelog with what was unreleased as `version` of `date`, below an empty "Unreleased".

    A changelog that has this version already is returned as it is, so that a release can be repeated.

    Raises:
        ChangelogError: There is no "Unreleased", or no entry in it.
    """
    if date_of(text, version) is not None:
        return text
    entries = _section(text, "Unreleased")
    if entries is None:
        raise ChangelogError(f"CHANGELOG.md has no line {UNRELEASED!r}")
    if not re.search(r"^- ", entries, re.MULTILINE):
        raise ChangelogError("CHANGELOG.md has no entry under Unreleased")
    return text.replace(UNRELEASED, f"{UNRELEASED}\n\n## [{version}] - {date}", 1)


def date_of(text: str, version: str) -> str | None:
    """The day of a version, `YYYY-MM-DD`; None if the changelog has not that version."""
    return next((each["date"] for each in _HEADING.finditer(text) if each["name"] == version), None)


def notes(text: str, version: str) -> str:
    """The entries of a version, as Markdown. Raises ChangelogError if the changelog has not that version."""
    entries = _section(text, version)
    if entries is None:
        raise ChangelogError(f"CHANGELOG.md has not {version}")
    return entries.strip() + "\n"


def _section(text: str, name: str) -> str | None:
    heading = next((each for each in _HEADING.finditer(text) if each["name"] == name), None)
    if heading is None:
        return None
    after = _HEADING.search(text, heading.end())
    return text[heading.end() : after.start() if after else len(text)]
