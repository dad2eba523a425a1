"""The conditions of a module, and the module with a switch at each of them. It runs nothing."""

import ast
from dataclasses import dataclass
from typing import Final

SWITCH: Final = "acp_server._switch"
"""The module that `switch.py` is in the mutated copy."""

_SIGNS: Final = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass(frozen=True)
class Mutant:
    """One change of one condition: it is forced `True` or `False`, or `slips` to the comparison beside it."""

    place: int
    change: str
    file: str
    line: int
    text: str
    """The condition as it is written, in one line."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}  ->  {self.change}"


class Switches(ast.NodeTransformer):
    """Puts a switch at each condition of one module; `mutants` are those that it has made possible.

    `first`: the number of its first place.
    """

    def __init__(self, file: str, source: str, first: int) -> None:
        self.mutants: list[Mutant] = []
        self.next = first
        self._file = file
        self._source = source

    def module(self) -> str:
        """The source with its switches."""
        tree = self.visit(ast.parse(self._source, self._file))
        doc_and_future = [
            statement
            for statement in tree.body[:2]
            if (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")
        ]
        tree.body.insert(len(doc_and_future), ast.parse(f"import {SWITCH} as _switch").body[0])
        return ast.unparse(ast.fix_missing_locations(tree))

    # -- where there are conditions

    def visit_If(self, node: ast.If) -> ast.AST:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            node.test = self._forced(node.test, "True", "False")
        self._visit_but_test(node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._forced(node.test, "True", "False")
        self._visit_but_test(node)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        if not isinstance(node.test, ast.Constant):
            node.test = self._forced(node.test, "False")  # the other change never ends
        self._visit_but_test(node)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.ifs = [self._forced(test, "True", "False") for test in node.ifs]
        node.target, node.iter = self.visit(node.target), self.visit(node.iter)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self._operands(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._forced(node, "True", "False")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self._forced(node, "True", "False") if isinstance(node.op, ast.Not) else self.generic_visit(node)

    # -- what is no condition of the program

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    # -- the switches

    def _visit_but_test(self, node: ast.If | ast.IfExp | ast.While) -> None:
        for name, value in list(ast.iter_fields(node)):
            if name == "test":
                continue
            if isinstance(value, list):
                setattr(node, name, [self.visit(child) for child in value])
            else:
                setattr(node, name, self.visit(value))

    def _forced(self, test: ast.expr, *changes: str) -> ast.expr:
        """`test` behind a switch, and what is inside of it behind others."""
        place = self._place(test, *changes)
        return self._call("condition", ast.Constant(place), self._inside(test))

    def _inside(self, test: ast.expr) -> ast.expr:
        if isinstance(test, ast.BoolOp):
            return self._operands(test)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test.operand = self._inside(test.operand)
            return test
        if isinstance(test, ast.Compare):
            return self._comparison(test)
        return self.visit(test)

    def _operands(self, node: ast.BoolOp) -> ast.expr:
        # What leaves the others to decide; the opposite is the whole condition forced.
        change = "True" if isinstance(node.op, ast.And) else "False"
        node.values = [self._forced(value, change) for value in node.values]
        return node

    def _comparison(self, node: ast.Compare) -> ast.expr:
        sign = _SIGNS.get(type(node.ops[0]))
        text = node
        left, right = self.visit(node.left), [self.visit(each) for each in node.comparators]
        if sign is None or len(right) > 1:
            node.left, node.comparators = left, right
            return node
        place = self._place(text, "slips")
        return self._call("compare", ast.Constant(place), ast.Constant(sign), left, right[0])

    def _place(self, node: ast.expr, *changes: str) -> int:
        place, self.next = self.next, self.next + 1
        text = " ".join((ast.get_source_segment(self._source, node) or "?").split())
        self.mutants += [Mutant(place, change, self._file, node.lineno, text) for change in changes]
        return place

    @staticmethod
    def _call(name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Attribute(ast.Name("_switch", ast.Load()), name, ast.Load()), list(arguments), [])
