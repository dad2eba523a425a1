"""The page of results says of each agent what the tests expect of it, no more and no less."""

import re
import tomllib

import pytest

from .blocks import DOCS

REAL_WORLD = DOCS.parent / "tests" / "conformance" / "real_world"
PAGE = (DOCS / "conformance-results.md").read_text("utf-8")
JUDGED = sorted(path.stem for path in REAL_WORLD.glob("*.toml") if "[[expected]]" in path.read_text("utf-8"))


def broken(name: str, verdict: str) -> dict[str, int]:
    """How many cases end so, by the reason."""
    expected = tomllib.loads((REAL_WORLD / f"{name}.toml").read_text("utf-8"))["expected"]
    return {" ".join(each["because"].split()): len(each["cases"]) for each in expected if each["verdict"] == verdict}


def section(name: str) -> str:
    found = re.search(rf"^## [^\n]*\n\n`{name}`(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


@pytest.mark.parametrize("name", JUDGED)
def test_the_page_has_each_reason_with_its_verdict_and_its_number_of_cases(name: str) -> None:
    rows = re.findall(r"^\| (failed|warned) \| (\d+) \| (.*) \|$", section(name), re.MULTILINE)
    wanted = {("failed", str(n), text) for text, n in broken(name, "fail").items()}
    wanted |= {("warned", str(n), text) for text, n in broken(name, "warn").items()}
    assert set(rows) == wanted


@pytest.mark.parametrize("name", JUDGED)
def test_the_overview_adds_them_up(name: str) -> None:
    (row,) = re.findall(rf"^\| [^\n]* \| `{name}` \| (\d+) \| (\d+) \|", PAGE, re.MULTILINE)
    assert row == tuple(str(sum(broken(name, verdict).values())) for verdict in ("fail", "warn"))


def test_each_list_of_reasons_is_on_the_page() -> None:
    assert len(JUDGED) == 6
