"""The page of regular expressions: it has every module that uses one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .blocks import DOCS

PACKAGE = DOCS.parent / "acp_server"
_ROW = re.compile(r"^\| `([\w/]+\.py)` \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


def with_expressions() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        names = {f.value.id for f in calls if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name)}
        if names & {"re", "regex"}:
            yield path.relative_to(PACKAGE).as_posix()


def test_each_module_with_an_expression_is_listed_with_the_reason_why_it_ends() -> None:
    page = Path(DOCS / "decisions" / "expressions.md").read_text("utf-8")
    assert _ROW.findall(page) == list(with_expressions())
