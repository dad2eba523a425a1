"""Loads a file as a program. The block under `if __name__ == "__main__":` runs, up to `agent.run()`.

An author sets up the store or the log in `main()`. `python my_agent.py` runs `main()`, and each other way to serve the
file must run it too. A block that serves no agent is not run, for example if it tests a function.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType
from typing import Any, Final

_SERVING: Final = frozenset({"run", "serve_stdio"})
"""The names of calls that serve an agent: `agent.run()`, or `serve_stdio(agent)` in an event loop that the program
runs."""
_LOOPS: Final = frozenset({"asyncio", "anyio", "trio", "uvloop", "subprocess"})
"""Modules whose `run` does not serve an agent."""


class ProgramLoader(SourceFileLoader):
    """Loads a file together with its main block if that serves an agent. Any other file is loaded as a module."""

    def get_code(self, fullname: str) -> CodeType | None:
        """See `importlib.abc.InspectLoader`."""
        path = self.get_filename(fullname)
        data = self.get_data(path)
        if b"__main__" in data:
            tree = compile(data, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
            if isinstance(tree, ast.Module) and _turned_on(tree):
                return compile(tree, path, "exec", dont_inherit=True)
        return super().get_code(fullname)


def with_program(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Give the spec of a source file a `ProgramLoader` as its loader, and return the spec. Any other spec is returned
    unchanged."""
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = ProgramLoader(spec.loader.name, spec.loader.path)
    return spec


@contextmanager
def arguments_of(program: str) -> Generator[None]:
    """Enter a block in which `sys.argv` is the command line of the program, without arguments."""
    before, sys.argv = sys.argv, [program]
    try:
        yield
    finally:
        sys.argv = before


def _turned_on(tree: ast.Module) -> bool:
    """Make the condition of each main block that serves an agent true. Returns whether there is such a block."""
    functions = {each.name: each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
    found = False
    for each in tree.body:
        if isinstance(each, ast.If) and _is_main(each.test) and _serves(each.body, functions, set()):
            each.test = ast.copy_location(ast.Constant(True), each.test)
            found = True
    return found


def _is_main(test: ast.expr) -> bool:
    return ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__")


def _serves(body: Sequence[ast.stmt], functions: dict[str, Any], seen: set[str]) -> bool:
    """Whether statements serve an agent, themselves or by functions of the file that they name."""
    for node in (node for statement in body for node in ast.walk(statement)):
        if _is_serving(node):
            return True
        if isinstance(node, ast.Name) and node.id in functions and node.id not in seen:
            seen.add(node.id)
            if _serves(functions[node.id].body, functions, seen):
                return True
    return False


def _is_serving(node: ast.AST) -> bool:
    # Called, or handed to a task group.
    if isinstance(node, ast.Name):
        return node.id == "serve_stdio"
    if not isinstance(node, ast.Attribute) or node.attr not in _SERVING:
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id in _LOOPS)


def find(name: str) -> ModuleSpec | None:
    """Return the spec of the module. This imports its packages, and raises their exceptions."""
    return with_program(importlib.util.find_spec(name))
