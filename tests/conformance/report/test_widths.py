"""Each filter of the page, `passed` the last of them, is in sight in a wide and in a narrow browser."""

from pathlib import Path

import pytest

from acp_conformance.report import html
from tests.chromium import seen

from .test_html import every_verdict

LOOK = """
const labels = [...page.querySelectorAll("nav label")], width = page.documentElement.clientWidth;
const hidden = labels.filter(each => each.getBoundingClientRect().right > width);
const wide = page.documentElement.scrollWidth > width;
return `${labels.at(-1).firstChild.textContent.trim()}, ${hidden.length} hidden, ${wide}`;"""


@pytest.mark.parametrize("width", [390, 1200])
def test_each_filter_is_in_sight(tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    page.write_text(html.render(every_verdict()), "utf-8")
    assert seen(page, width, LOOK) == "passed, 0 hidden, false"
