"""The conditions, statements and values of a module that can be changed, and the module with a switch at each of them.
It runs nothing."""

import ast
from dataclasses import dataclass
from typing import Final

SWITCH: Final = "acp_server._switch"
"""The module that `switch.py` is in the mutated copy."""

_SIGNS: Final = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass(frozen=True)
class Mutant:
    """One change. A condition is forced `True` or `False`, or `slips` to the comparison beside it. A statement is
    `gone`, a number is `plus one`, a constant True or False is `flipped`, a returned value or an argument is `None`."""

    place: int
    change: str
    file: str
    line: int
    text: str
    """The code that is changed, in one line."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}  ->  {self.change}"


class Switches(ast.NodeTransformer):
    """Puts a switch at each condition of one module, and at the statements and values of its functions. `mutants`: the
    changes that the switches make possible.

    `first`: the number of its first place.
    """

    def __init__(self, file: str, source: str, first: int) -> None:
        self.mutants: list[Mutant] = []
        self.next = first
        self._file = file
        self._source = source
        self._is_in_function = False

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

    # -- statements and values in functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self._deletable(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        # A local variable without its value is a NameError, which every test notices.
        is_kept = all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
        return self._deletable(node) if is_kept else self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._deletable(node)

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        return self._deletable(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return self._deletable(node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None:
            node.value = self._optional(node.value)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.value = self.visit(node.value) if node.arg is None else self._optional(node.value)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not self._is_in_function or type(node.value) not in (bool, int):
            return node
        name, change = ("flipped", "flipped") if isinstance(node.value, bool) else ("number", "plus one")
        return self._call(name, ast.Constant(self._place(node, change)), ast.Constant(node.value))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        # Decorators and defaults are evaluated at import, before a mutant is chosen.
        outside, self._is_in_function = self._is_in_function, True
        node.body = [self.visit(statement) for statement in node.body]
        self._is_in_function = outside
        return node

    def _deletable(self, node: ast.stmt) -> ast.AST:
        if not self._is_in_function:
            return self.generic_visit(node)
        place = self._place(node, "gone")
        kept = self._call("kept", ast.Constant(place))
        self.generic_visit(node)
        return ast.If(kept, [node], [])

    def _optional(self, value: ast.expr) -> ast.expr:
        if not self._is_in_function or isinstance(value, ast.Constant):
            return self.visit(value)
        place = self._place(value, "None")
        return self._call("optional", ast.Constant(place), self.visit(value))

    # -- what is no condition of the program

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

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

    def _place(self, node: ast.expr | ast.stmt, *changes: str) -> int:
        place, self.next = self.next, self.next + 1
        text = " ".join((ast.get_source_segment(self._source, node) or "?").split())
        self.mutants += [Mutant(place, change, self._file, node.lineno, text) for change in changes]
        return place

    @staticmethod
    def _call(name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Attribute(ast.Name("_switch", ast.Load()), name, ast.Load()), list(arguments), [])
