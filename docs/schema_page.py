"""Writes docs/schema.md, the fields and words of the types of `acp_server.schema`: `python docs/schema_page.py`.

With `--check` it writes nothing, and fails if the page is stale.
"""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from acp_server import schema
from acp_server.schema.base import Record, attributes, to_wire_name
from acp_server.schema.words import OpenEnum, own_of

PAGE = Path(__file__).with_name("schema.md")
HEAD = """# Types of the protocol

The names of `acp_server.schema`, the types of version 1. `from acp_server.schema import ToolCall` makes one in
Python; the names on the wire are `camelCase`. Nearly all have `meta` as well, which is `_meta` on the wire: data of
extensions, by key. [Words of the protocol](words.md) says what each word means to a user.
"""


def names(area: str) -> list[str]:
    """Those of an area, in alphabetic order."""
    return sorted(name for name in dir(schema) if schema.area_of(name) == area)


def page() -> str:
    """The whole page."""
    areas = dict.fromkeys(filter(None, map(schema.area_of, dir(schema))))
    parts = [HEAD]
    for area in sorted(areas):
        parts.append(f"\n## `{area}`\n")
        parts += [entry(name, getattr(schema, name), area) for name in names(area)]
    return "".join(parts)


def entry(name: str, kind: Any, area: str) -> str:
    """One name, with its fields or its words."""
    text = [f"\n### {name}\n"]
    if said := _doc(name, kind, area):
        text.append(f"\n{said}\n")
    if isinstance(kind, type) and issubclass(kind, Record):
        rows = [_row(each, field, kind) for each, field in kind.model_fields.items() if each != "meta"]
        if rows:
            text.append("\n| field | type | meaning |\n| --- | --- | --- |\n" + "".join(rows))
    elif isinstance(known := own_of(kind), OpenEnum):
        text.append(f"\nOne of {', '.join(f'`{word}`' for word in known.known)}.\n")
    elif members := _members(kind):
        text.append(f"\nOne of {', '.join(members)}.\n")
    return "".join(text)


def _row(name: str, field: Any, kind: type) -> str:
    default = "" if field.is_required() or field.default is None else f" = {field.default!r}"
    default = default if re.fullmatch(r" = ['\w]+", default) else ""
    needed = "" if field.is_required() else ", optional" if not default else ""
    return f"| `{name}` | `{_type(kind, name)}{default}`{needed} | {_meaning(kind, name)} |\n"


def _type(kind: type, name: str) -> str:
    """As the source writes it, without the notes on the wire."""
    for each in kind.__mro__:
        if name in inspect.get_annotations(each):
            found = re.search(rf"^    {name}: (.+?)(?: = .*)?$", inspect.getsource(each), re.MULTILINE)
            text = found[1] if found else "Any"
            return _plain(text).replace("|", "\\|")
    return "Any"


_NOTES = "Annotated|Sent|Unsaid|NullIsDefault|Lenient|LenientItems"


def _plain(text: str) -> str:
    while (inner := re.fullmatch(rf"(?:{_NOTES})\[(.*)\]", text)) is not None:
        text = re.sub(r", (CountsAs|Wire|Expect)\(.*\)$", "", inner[1])
    text = re.sub(r"MaybeItems\[([^\]]+)\]", r"list[\1] | None", text)
    return re.sub(r"\bItems\[", "list[", text)


def _meaning(kind: type, name: str) -> str:
    for each in kind.__mro__:
        source = inspect.getsource(each) if name in inspect.get_annotations(each) else ""
        if found := re.search(rf'^    {name}: .*\n    """((?:.|\n)*?)"""', source, re.MULTILINE):
            return " ".join(found[1].split()).replace("|", "\\|")
    return f"`{to_wire_name(name)}` on the wire" if name in attributes(kind).values() else ""


def _doc(name: str, kind: Any, area: str) -> str:
    if isinstance(kind, type):
        return inspect.cleandoc(vars(kind)["__doc__"] or "")
    if inspect.isroutine(kind):
        return inspect.getdoc(kind) or ""
    source = inspect.getsource(sys.modules[f"acp_server.schema.{area}"])
    found = re.search(rf'^{name}\b(?: = |: )(?:.*\n)(?:(?:    .*|\)|\])\n)*"""((?:.|\n)*?)"""', source, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _members(kind: Any) -> list[str]:
    text = repr(getattr(kind, "__value__", ""))
    return [f"`{name}`" for name in dict.fromkeys(re.findall(r"\.(\w+)(?= \||,|\])", text)) if hasattr(schema, name)]


def main() -> int:
    """The exit status: 1 for a page that is stale."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
