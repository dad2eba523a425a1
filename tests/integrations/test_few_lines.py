"""What an author writes for ACP around an agent of a framework: a few lines, counted in the guides."""

import ast

import pytest

from tests.docs.blocks import blocks

MOST = 5
GUIDES = [
    *[("integrations.md", name) for name in ("langgraph", "pydantic_ai", "openai_agents")],
    ("mcp.md", "whole"),
]


def ours(source: str) -> list[str]:
    """The lines that are there for ACP: imports of the package, and what uses those, or what that made."""
    names: set[str] = set()
    lines: list[str] = []
    for statement in ast.parse(source).body:
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("acp_server"):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif not used & names:
            continue
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AsyncFunctionDef | ast.FunctionDef):
            # The agent itself, which there is no framework for.
            lines += [ast.unparse(decorator) for decorator in statement.decorator_list]
            continue
        lines += ast.unparse(statement).splitlines()
    return lines


@pytest.mark.parametrize(("guide", "name"), GUIDES)
def test_an_author_writes_five_lines_at_most(guide: str, name: str) -> None:
    lines = ours(blocks()[guide, name])
    assert any("acp_server" in line for line in lines)
    assert any("agent.run()" in line for line in lines)
    assert len(lines) <= MOST, lines
