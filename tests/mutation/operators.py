"""Small wrongs that a test should notice: one change of the syntax tree each.

Left alone are what no test should pin: docstrings, annotations, the words of errors and logs, `__all__`; and asserts,
also those that `zip(strict=True)` makes.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_TWINS = [
    ("min", "max"),
    ("sum", "mean"),
    ("any", "all"),
    ("argmin", "argmax"),
    ("zeros_like", "ones_like"),
    ("zeros", "ones"),
    ("margin", "total_margin"),
    ("chosen", "rejected"),
    ("chosen_mean", "rejected_mean"),
    ("chosen_tokens", "rejected_tokens"),
]
TWINS = dict(_TWINS) | {b: a for a, b in _TWINS}
BUILT_IN_TWINS = {"min", "max", "any", "all"}  # there is no built-in mean
WITHOUT = {"detach", "clone", "copy", "double", "abs"}  # x.f() becomes x
ANNOTATIONS = {"annotation", "returns"}

Where = tuple[ast.AST, str, int | None]  # parent, field, place in the field's list
Change = Callable[[ast.AST], Iterator[ast.AST]]


@dataclass(frozen=True)
class Mutant:
    """A module with one change. `statement` is the first and last line that must run for it to show."""

    line: int
    kind: str
    change: str
    statement: tuple[int, int]
    at_import: bool
    tree: ast.Module

    @property
    def name(self) -> str:
        return f"{self.line}: {self.change}"


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, from its first line to its last."""
    tree = ast.parse(source)
    for where, statement, depth in list(_places(tree)):
        node = _at(where)
        for kind, new in _changes(node):
            ast.copy_location(new, node)
            _put(where, new)
            changed = ast.fix_missing_locations(copy.deepcopy(tree))
            _put(where, node)
            words = f"{_words(node)} -> {_words(new)}"
            yield Mutant(node.lineno, kind, words, _span(statement), depth == 0, changed)  # type: ignore[attr-defined]


def _places(tree: ast.Module) -> Iterator[tuple[Where, ast.stmt, int]]:
    """Where a change may be made, in which statement, and inside how many functions."""

    def below(parent: ast.AST, statement: ast.stmt | None, depth: int) -> Iterator[tuple[Where, ast.stmt, int]]:
        for field, value in ast.iter_fields(parent):
            if field in ANNOTATIONS:
                continue
            # the body of a function runs when it is called; its defaults and decorators run with the module
            inner = depth + (isinstance(parent, ast.FunctionDef) and field == "body")
            for place, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(node, ast.AST) or _untouched(node):
                    continue
                here = node if isinstance(node, ast.stmt) else statement
                if here is not None and hasattr(node, "lineno"):
                    yield (parent, field, place), here, inner
                if not isinstance(node, ast.Raise):  # only whether it is raised; its words are for people
                    yield from below(node, here, inner)

    return below(tree, None, 0)


def _untouched(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id == "__all__"
    if isinstance(node, ast.Expr):
        return ast.unparse(node).startswith("logger.") or isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for kind, of in KINDS.items():
        for new in of(node):
            yield kind, new


# ---- the changes; each is given a node and says what could stand in its place ----


def _operator(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            ops = [*node.ops]
            ops[place] = OPERATORS[type(op)]()  # type: ignore[call-overload]
            yield _with(node, ops=ops)
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield _with(node, op=OPERATORS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield node.operand


def _constant(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        swapped = [1 - node.value] if node.value in (0, 1) else []
        for value in dict.fromkeys([*swapped, node.value + 1, node.value * 2]):
            if value != node.value:
                yield ast.Constant(value)


def _condition(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        if not _negated_elsewhere(node.test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for place, loop in enumerate(node.generators):
            if loop.ifs:
                loops = [*node.generators]
                loops[place] = _with(loop, ifs=[])
                yield _with(node, generators=loops)


def _negated_elsewhere(test: ast.expr) -> bool:
    """Whether a changed operator is this condition's negation already."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _twin(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Attribute) and node.attr in TWINS and isinstance(node.ctx, ast.Load):
        yield _with(node, attr=TWINS[node.attr])
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "any", "all")
    ):
        yield _with(node, func=ast.Name(TWINS[node.func.id], ast.Load()))


def _without(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WITHOUT:
        if not node.args and not node.keywords:
            yield node.func.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("abs", "round"):
        yield node.args[0]


def _dropped(node: ast.AST) -> Iterator[ast.AST]:
    """A statement that does something even if nothing that follows needs a name from it."""
    if isinstance(node, ast.Return):
        if node.value is not None and ast.unparse(node.value) != "None":
            yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.With) and not any(item.optional_vars for item in node.items):
        yield ast.If(ast.Constant(True), node.body, [])
    elif isinstance(node, ast.AugAssign | ast.Raise | ast.Break | ast.Continue) or _acts(node):
        yield ast.Pass()


def _acts(node: ast.AST) -> bool:
    """A call for its own sake, a name given a new value from its old one, or a place that is written to."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Yield | ast.YieldFrom)
    if not isinstance(node, ast.Assign):
        return False
    target, read = node.targets[0], {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
    return isinstance(target, ast.Attribute | ast.Subscript) or (isinstance(target, ast.Name) and target.id in read)


KINDS: dict[str, Change] = {
    "operator": _operator,
    "constant": _constant,
    "condition": _condition,
    "twin": _twin,
    "without": _without,
    "dropped": _dropped,
}


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _at(where: Where) -> ast.AST:
    parent, field, place = where
    value = getattr(parent, field)
    return value if place is None else value[place]


def _put(where: Where, node: ast.AST) -> None:
    parent, field, place = where
    if place is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[place] = node


def _span(statement: ast.stmt) -> tuple[int, int]:
    """Its lines; of one that has a body, those before the body."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) else statement.end_lineno or statement.lineno
    return statement.lineno, max(last, statement.lineno)


def _words(node: ast.AST) -> str:
    """As it is written; of a statement with a body, its head."""
    if isinstance(node, ast.Pass) or (isinstance(node, ast.If) and isinstance(node.test, ast.Constant)):
        return "nothing"
    head = _with(node, body=[ast.Pass()], orelse=[]) if isinstance(node, ast.If | ast.While | ast.With) else node
    text = " ".join(ast.unparse(head).removesuffix("pass").split())
    return text if len(text) <= 70 else text[:67] + "..."
