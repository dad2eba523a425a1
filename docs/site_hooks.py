"""What mkdocs does to each page before it renders it: the same text is read by the code host, by the tests and here."""

import posixpath
import re
from typing import Any


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """`markdown` without what is for other readers of the page."""
    return for_site(markdown, page.file.src_uri)


def for_site(markdown: str, path: str) -> str:
    """The text of the page `path` (below `docs/`) as mkdocs understands it.

    - A block may have a name (```` ```python echo ````), by which the tests run it. mkdocs would take such a block for
      a paragraph, and the text behind it for code.
    - A link to a file outside of `docs/` leads nowhere from the site, so its text alone is kept.
    """

    def kept(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2]))
        return link[1] if target.startswith("..") else link[0]

    unnamed = re.sub(r"^(```\w+) \w+$", r"\1", markdown, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((\.\./[^)]+)\)", kept, unnamed)
