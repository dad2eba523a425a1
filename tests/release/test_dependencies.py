"""Each dependency has its reason in CONTRIBUTING.md, and its floor is above the faults that are known of it."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from release.build import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REQUIREMENTS = [
    Requirement(each)
    for group in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for each in group
]


def test_each_dependency_has_one_line_of_reason() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Why each dependency")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!distribution|---)(.+?) \| (.+?) \|$", section, re.MULTILINE)
    listed = [name for names, _ in rows for name in names.split(", ")]
    assert sorted(listed) == sorted({each.name for each in REQUIREMENTS})


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        ("h11", "0.15"),  # CVE-2025-43859: a chunk may end in any two bytes
        ("orjson", "3.11.5"),  # CVE-2025-67221: writing deep nesting overflows the stack
        ("starlette", "0.49.0"),  # CVE-2025-62727: a Range header takes quadratic time
    ],
)
def test_the_floor_is_above_known_faults(name: str, faulty: str) -> None:
    assert not any(Version(faulty) in each.specifier for each in REQUIREMENTS if each.name == name)
