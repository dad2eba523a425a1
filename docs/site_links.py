"""`python docs/site_links.py build/site`: whether each link of the built site leads to a file and an anchor in it.

It reads what a browser gets, so a link that a plugin or a theme makes is checked like any other. Links to other hosts
are not followed.
"""

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places in it that a link can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.append(value)


@cache
def read(path: Path) -> Page:
    """A page; each is read once."""
    return Page(path.read_text("utf-8"))


def dead(site: Path) -> Iterator[str]:
    """Each dead link with its page."""
    for path in sorted(site.rglob("*.html")):
        # The page for what is not found is shown at any address; its links begin at the root.
        if path.name != "404.html":
            for link in read(path).links:
                if not _leads_somewhere(path, link):
                    yield f"{path.relative_to(site)}: {link}"


def _leads_somewhere(page: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return False
    return not parts.fragment or target.suffix != ".html" or unquote(parts.fragment) in read(target).anchors


if __name__ == "__main__":
    found = list(dead(Path(sys.argv[1])))
    for line in found:
        sys.stderr.write(f"docs: dead link: {line}\n")
    sys.exit(bool(found))
