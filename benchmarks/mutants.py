"""Small changes of a Python module, each of which a test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {
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
REVERSED = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "isfinite": "isnan",
    "floor": "ceil",
    "ceil": "floor",
}
TINY = 1e-3
"""Constants below this are tolerances: they are multiplied by a thousand."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    line: int
    function: int
    """The first line of the innermost function that is changed; 0 if it is none."""
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.line}: {_short(self.before)}  ->  {_short(self.after)}"


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module that can be made."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    spans = [
        (min(n.lineno for n in [f, *f.decorator_list]), f.body[0].lineno, f.end_lineno) for f in functions
    ]
    made = []
    for node in _code(tree):
        for changed in _changes(node):
            mutant = _spliced(source, node, changed, spans)
            if mutant is not None:
                made.append(mutant)
    return made


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk over the code that runs: no annotations, docstrings, imports, messages of errors or displays."""
    for name, child in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for node in child if isinstance(child, list) else [child]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
                continue
            if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "_repr_html_", "__str__"):
                continue
            if (
                isinstance(node, ast.If)
                and isinstance(node.test, ast.Name)
                and node.test.id == "TYPE_CHECKING"
            ):
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: an assertion
                continue
            yield node
            if not isinstance(node, ast.Raise):
                yield from _code(node)


def _changes(node: ast.AST) -> Iterator[ast.AST | None]:
    """Yield what may stand in the place of a node; None for nothing at all."""
    match node:
        case ast.Compare(ops=[op]):
            for table in (COMPARISONS, REVERSED):
                if type(op) in table:
                    yield _with(node, ops=[table[type(op)]()])
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield _with(node, op=OPERATORS[type(op)]())
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield from _numbers(node.value)
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield _with(node, func=ast.Name(NAMES[name]))
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            yield _with(node, func=_with(node.func, attr=NAMES[name]))
        case ast.If() | ast.IfExp():
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.AST()) if not _is_none(node.value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield None


def _numbers(value: float) -> Iterator[ast.AST]:
    if value == 0:
        yield ast.Constant(type(value)(1))
    elif value == 1:
        yield ast.Constant(type(value)(0))
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif abs(value) < TINY:
        yield ast.Constant(value * 1e3)
    else:
        yield ast.Constant(2.0 * value)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _spliced(source: str, node: ast.AST, changed: ast.AST | None, spans: list) -> Mutant | None:
    """Put the changed node into the source; of a compound statement, its condition only."""
    old: ast.AST = node
    if isinstance(node, ast.If):
        old, changed = node.test, changed.test
    before = ast.get_source_segment(source, old)
    if before is None:
        return None
    after = "pass" if changed is None else ast.unparse(ast.fix_missing_locations(changed))
    if changed is not None and isinstance(changed, ast.expr):
        after = f"({after})"
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()
    start, end = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
    text = (data[:start] + after.encode() + data[end:]).decode()
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return None
    function = max((first for first, body, last in spans if body <= old.lineno <= last), default=0)
    return Mutant(old.lineno, function, before, after, text)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else text[:87] + "..."
