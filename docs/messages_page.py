"""Writes docs/messages.md, the templates of all log entries, warnings and errors: `python docs/messages_page.py`.

A template is a text in the source: the arguments of a logger's method, of `warnings.warn` and of an exception. A value
that is inserted is shown as its expression in braces. A text from a function or from a variable is not followed.
With `--check` it writes nothing, and fails if the page is stale.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PAGE = Path(__file__).with_name("messages.md")
PACKAGE = Path(__file__).parents[1] / "acp_server"
HEAD = """# Messages

This page has the texts of all log entries, warnings and errors of the package, grouped by subpackage. `{name}` stands
for a value. A message says what happened, with which value, and what to do if something can be done. A text from a
peer is escaped before it is logged. The texts may change in every release. So match the class of an exception, or the
code of an error, and not the text.

`make schema` writes this page.
"""
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
Constants = dict[str, ast.expr]
Entry = tuple[str, str]
"""The kind of a message, and its template."""


def page() -> str:
    """The whole page."""
    sources = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    errors = _exceptions(sources.values())
    shared = {name: value for tree in sources.values() for name, value in _constants(tree).items()}
    rooms: dict[str, set[Entry]] = {}
    for path, tree in sources.items():
        found = set(_entries(tree, errors, {**shared, **_constants(tree)}))
        if found:
            rooms.setdefault(_room(path), set()).update(found)
    return HEAD + "".join(_section(room, rooms[room]) for room in sorted(rooms))


def _room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    depth = 2 if parts[0] == "apps" else 1
    return "/".join(parts[:depth])


def _section(room: str, entries: set[Entry]) -> str:
    rows = "".join(f"| `{kind}` | {text} |\n" for kind, text in sorted(entries))
    return f"\n## `{room.replace('__init__', 'acp_server')}`\n\n| kind | message |\n| --- | --- |\n{rows}"


def _exceptions(trees: Iterable[ast.Module]) -> set[str]:
    """The names of all exceptions: of Python, and of the package by their bases."""
    known = {name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)}
    known |= {"ClickException", "BadParameter", "AcpError", "SystemExit"}
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while new := {each.name for each in classes if known & {_last(base) for base in each.bases}} - known:
        known |= new
    return known


def _constants(tree: ast.Module) -> Constants:
    """The module's constants that are texts."""
    found: Constants = {}
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case _:
                pass
    return {name: value for name, value in found.items() if isinstance(value, ast.Constant | ast.JoinedStr)}


def _entries(tree: ast.Module, errors: set[str], constants: Constants) -> Iterator[Entry]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (kind := _kind(node.func, errors)):
            for text in _templates(node, constants):
                if re.search(r"\w\S* +\S*\w", re.sub(r"\{[^}]*\}", "", text)):
                    yield kind, _shown(text)
        elif isinstance(node, ast.ClassDef) and node.name in errors:
            for each in node.body:
                match each:
                    case ast.Assign(targets=[ast.Name(id="default_message")], value=ast.Constant(value=str() as text)):
                        yield node.name, _shown(text)
                    case _:
                        pass


def _kind(function: ast.expr, errors: set[str]) -> str:
    match function:
        case ast.Attribute(value=ast.Name(id="logger"), attr=level) if level in LEVELS:
            return f"log: {'error' if level == 'exception' else level}"
        case ast.Attribute(value=ast.Name(id="warnings"), attr="warn"):
            return "warning"
        case _:
            return name if (name := _last(function)) in errors else ""


def _last(node: ast.expr) -> str:
    """`b` of `a.b`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _templates(call: ast.Call, constants: Constants) -> Iterator[str]:
    """The texts of a call: each branch of a conditional, each text of `a or b`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS:
        values = [_value(each) for each in call.args[1:]]
        for text in _texts(call.args[0], constants):
            yield _filled(text, values)
        return
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("message", "msg")]
    for argument in [*call.args[:1], *named]:
        yield from _texts(argument, constants)


def _filled(text: str, values: list[str]) -> str:
    """A template of `logging` with the names of its values."""
    rest = iter(values)
    return re.sub(r"%(?:\.\d+)?[sdrgf]", lambda _: next(rest, "{...}"), text)


def _texts(node: ast.expr, constants: Constants) -> list[str]:
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(_part(part, constants) for part in parts)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = (_texts(each, constants) or [_value(each)] for each in (left, right))
            return [a + b for a in first for b in second]
        case ast.IfExp(body=body, orelse=other):
            return [*_texts(body, constants), *_texts(other, constants)]
        case ast.BoolOp(values=values):
            return [text for value in values for text in _texts(value, constants)]
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants and name.lstrip("_").isupper():
            return _texts(constants[name], constants)
        case _:
            return []


def _part(part: ast.expr, constants: Constants) -> str:
    match part:
        case ast.Constant(value=str() as text):
            return text
        case ast.FormattedValue(value=value):
            return found[0] if len(found := _texts(value, constants)) == 1 else _value(value)
        case _:
            return _value(part)


def _value(node: ast.expr) -> str:
    """A value in a text, by the last name of its expression or of what a function makes it from: `{path}`."""
    match node:
        case ast.Attribute(attr="__name__"):
            return "{type}"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return f"{{{name.strip('_')}}}"
        case ast.Call(args=[first, *_]):
            return _value(first)
        case ast.Call(func=ast.Attribute(value=inner)) if _last(inner) != "self":
            return _value(inner)
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.Await(value=inner) | ast.BinOp(left=inner):
            return _value(inner)
        case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner) | ast.JoinedStr(values=[*_, inner]):
            return _value(inner)
        case ast.FormattedValue(value=inner) | ast.IfExp(body=inner) | ast.BoolOp(values=[inner, *_]):
            return _value(inner)
        case _:
            return "{...}"


def _shown(template: str) -> str:
    """One line of a table in Markdown."""
    return re.sub(r"([\\|<>*_\[\]])", r"\\\1", " ".join(template.split()))


def main() -> int:
    """Write the page, or check it."""
    written = page()
    if "--check" in sys.argv:
        return int(not PAGE.exists() or PAGE.read_text("utf-8") != written)
    PAGE.write_text(written, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
