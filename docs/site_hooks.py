"""What mkdocs does besides rendering: the same text is read by the code host, by the tests, by programs and here."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHIM = "https://unpkg.com/iframe-worker/shim"

_pages: dict[str, str] = {}
"""The text of each page by its path, as mkdocs rendered it."""


def on_config(config: Any, **_: object) -> Any:
    """Put the version that the pages are about below each of them."""
    config.copyright = f"acp_server {version()}"
    _pages.clear()
    return config


def version() -> str:
    """That of the package."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "acp_server/__init__.py").read_text("utf-8"), re.MULTILINE)
    return found


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """`markdown` without what is for other readers of the page."""
    shown = for_site(markdown, page.file.src_uri)
    _pages[page.file.src_uri] = shown
    return shown


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


def on_post_page(output: str, *, page: Any, **_: object) -> str:
    """`output` with the program that the search needs on the file system taken from the site, and not from a host."""
    return output.replace(
        SHIM, posixpath.relpath("vendor/iframe-worker.js", posixpath.dirname(page.file.dest_uri) or ".")
    )


def on_post_build(*, config: Any, **_: object) -> None:
    """Write the site for programs: each page as Markdown, a list of them, and all of them as one text."""
    site = Path(config.site_dir)
    for path, text in _pages.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, "utf-8")
    listed = list(_listed(config.nav))
    (site / "llms.txt").write_text(llms(config.site_name, config.site_description, listed, _pages), "utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(_pages[path].strip() for _, path in listed) + "\n", "utf-8")


def _listed(nav: Any, group: str = "") -> Iterator[tuple[str, str]]:
    """Group and path of each page, in the order of the navigation."""
    for entry in nav:
        if isinstance(entry, str):
            yield group, entry
        else:
            for name, below in entry.items():
                yield from _listed(below, name)


def llms(name: str, description: str, listed: list[tuple[str, str]], pages: dict[str, str]) -> str:
    """The list of the pages, each with its title and its first sentence."""
    lines = [f"# {name}", "", f"> {description}", ""]
    last = ""
    for group, path in listed:
        if group != last:
            lines += ["", f"## {group}", ""] if lines[-1] else [f"## {group}", ""]
            last = group
        title, about = _head(pages[path])
        lines.append(f"- [{title}]({path}): {about}" if about else f"- [{title}]({path})")
    return "\n".join(lines) + "\n"


def _head(text: str) -> tuple[str, str]:
    """The title of a page, and its first sentence without its links."""
    title, _, rest = text.partition("\n")
    for paragraph in re.sub(r"^```.*?^```", "", rest, flags=re.MULTILINE | re.DOTALL).split("\n\n"):
        words = "" if paragraph.startswith("    ") else " ".join(paragraph.split())
        if re.match(r"[A-Za-z`*\[]", words):
            plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", words).replace("**", "")
            return title.lstrip("# "), re.split(r"(?<=[.:])\s", plain)[0].rstrip(":")
    return title.lstrip("# "), ""
