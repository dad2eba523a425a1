"""What a release does with the changelog, and with the files that hold the version."""

from pathlib import Path

import pytest

from release import changelog
from release.__main__ import ReleaseError, set_version
from release.build import ROOT

TEXT = """\
# Changelog

## [Unreleased]

### Highlights

- It flies.

## [0.1.0] - 2026-01-02

- It runs.
"""


def test_what_was_unreleased_becomes_the_version_below_an_empty_unreleased() -> None:
    text = changelog.cut(TEXT, "0.2.0", "2026-03-04")
    assert text == TEXT.replace("## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-03-04\n")
    assert changelog.date_of(text, "0.2.0") == "2026-03-04"


def test_a_release_that_is_repeated_on_another_day_changes_nothing() -> None:
    text = changelog.cut(TEXT, "0.2.0", "2026-03-04")
    assert changelog.cut(text, "0.2.0", "2026-03-05") == text


def test_the_notes_are_the_entries_of_the_version_alone() -> None:
    text = changelog.cut(TEXT, "0.2.0", "2026-03-04")
    assert changelog.notes(text, "0.2.0") == "### Highlights\n\n- It flies.\n"
    assert changelog.notes(text, "0.1.0") == "- It runs.\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# Changelog\n", "has no line '## \\[Unreleased\\]'"),
        ("## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n\n- It runs.\n", "has no entry under Unreleased"),
    ],
)
def test_a_changelog_without_entries_is_refused(text: str, message: str) -> None:
    with pytest.raises(changelog.ChangelogError, match=message):
        changelog.cut(text, "0.2.0", "2026-03-04")


def test_a_version_that_is_not_there_has_no_notes() -> None:
    with pytest.raises(changelog.ChangelogError, match=r"has not 0\.3\.0"):
        changelog.notes(TEXT, "0.3.0")


def test_the_changelog_of_this_project_can_be_cut() -> None:
    text = changelog.cut((ROOT / "CHANGELOG.md").read_text("utf-8"), "99.0.0", "2099-01-01")
    assert changelog.notes(text, "99.0.0").startswith("### ")


def test_a_module_has_its_version_in_one_line(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""A module."""\n\n__version__ = "0.1.0"\n')
    set_version(module, "0.2.0")
    assert module.read_text() == '"""A module."""\n\n__version__ = "0.2.0"\n'
    module.write_text("")
    with pytest.raises(ReleaseError, match="has 0 lines with __version__"):
        set_version(module, "0.2.0")
