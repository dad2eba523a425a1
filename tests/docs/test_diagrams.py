"""The diagrams of the guides are drawn from the texts beside them, and those texts are true."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

from acp_server.session.state import TurnState

from .blocks import DOCS

TEXTS = sorted((DOCS / "diagrams").glob("*.d2"))


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_a_picture_is_made_from_the_text_beside_it(text: Path) -> None:
    picture = text.with_suffix(".svg").read_text("utf-8")
    digest = sha256(text.read_bytes()).hexdigest()
    assert picture.endswith(f"<!-- made from {digest} -->\n"), "run 'make diagrams'"


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_a_picture_has_colours_for_light_and_dark_and_loads_nothing(text: Path) -> None:
    picture = text.with_suffix(".svg").read_text("utf-8")
    assert "@media screen and (prefers-color-scheme:dark)" in picture
    loaded = re.findall(r"""(?:href|src)=["']([^"'#]+)|url\(["']?([^"'#)]+)|@import""", picture)
    assert not [link for link in loaded if not link[1].startswith("data:")]


def test_each_diagram_is_on_a_page_and_three_are_there() -> None:
    pages = "".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    assert len(TEXTS) == 3
    assert all(f"](diagrams/{text.stem}.svg)" in pages for text in TEXTS)


def test_the_diagram_of_the_states_has_every_way_between_them_and_no_other() -> None:
    drawn = set(re.findall(r"^(\w+) -> (\w+)", (DOCS / "diagrams" / "turn-states.d2").read_text("utf-8"), re.MULTILINE))
    assert drawn == {(state.value, after.value) for state in TurnState for after in state.successors}
