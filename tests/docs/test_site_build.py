"""What the build of the site adds to the pages: the check of its links, and the texts for programs."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from docs.site_hooks import SHIM, llms, on_post_page
from docs.site_links import dead

from .blocks import DOCS


@pytest.mark.parametrize(
    "link",
    [
        "other.html",
        "other.html#there",
        "#here",
        "folder/",
        "picture.svg",
        "https://example.org/nothing",
        "mailto:a@b",
        ".",
    ],
)
def test_a_link_that_leads_somewhere_is_fine(link: str, tmp_path: Path) -> None:
    assert list(dead(site(tmp_path, link))) == []


@pytest.mark.parametrize("link", ["gone.html", "other.html#gone", "#gone", "gone/", "gone.svg", "../other.html"])
def test_a_dead_link_is_told_with_its_page(link: str, tmp_path: Path) -> None:
    assert list(dead(site(tmp_path, link))) == [f"index.html: {link}"]


def site(folder: Path, link: str) -> Path:
    """A site with one link to look at."""
    built = folder / "site"
    (built / "folder").mkdir(parents=True)
    (built / "index.html").write_text(f'<h1 id="here">A</h1><a href="{link}">b</a>')
    (built / "other.html").write_text('<a name="there">c</a>')
    (built / "folder" / "index.html").write_text("")
    (built / "picture.svg").write_text("<svg/>")
    return built


def test_the_list_for_programs_has_each_page_with_its_first_sentence() -> None:
    pages = {
        "index.md": "# Name\n\nWhat it is. And more.\n",
        "a.md": '# A "thing"\n\n```python\nx = 1\n```\n\nIt [does](b.md) **this**: that.\n',
        "b.md": "# Only a table\n\n| a |\n| --- |\n",
    }
    assert llms("Name", "About", [("", "index.md"), ("Guides", "a.md"), ("Guides", "b.md")], pages) == (
        "# Name\n\n> About\n\n- [Name](index.md): What it is.\n\n"
        '## Guides\n\n- [A "thing"](a.md): It does this\n- [Only a table](b.md)\n'
    )


@pytest.mark.parametrize(
    ("page", "path"), [("index.html", "vendor/iframe-worker.js"), ("a/b.html", "../vendor/iframe-worker.js")]
)
def test_what_the_search_needs_without_a_server_comes_from_the_site(page: str, path: str) -> None:
    built = SimpleNamespace(file=SimpleNamespace(dest_uri=page))
    assert on_post_page(f'<script src="{SHIM}">', page=built) == f'<script src="{path}">'
    assert (DOCS / "vendor" / "iframe-worker.js").is_file()
