"""Faults of one source file, each a small change of one node of its syntax tree.

| kind         | change                                            |
|--------------|---------------------------------------------------|
| `compare`    | < ↔ <=, > ↔ >=, == ↔ !=, is ↔ is not, in ↔ not in |
| `arithmetic` | + ↔ -, * ↔ /, // → *, % → +, ** → *               |
| `sign`       | -a → a                                            |
| `constant`   | n → n + 1, f → 1.5 f (0.0 → 1.0), True ↔ False    |
| `logic`      | not a → a, and ↔ or, `if a` → `if not a`          |
| `extremum`   | min ↔ max and their relatives                     |
| `return`     | a function returns its first argument             |
| `guard`      | `raise` left out                                  |

Annotations, decorators, assertions, docstrings and error sentences are left alone: no test should
depend on them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
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
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
}
_PAIRS = [("min", "max"), ("minimum", "maximum"), ("amin", "amax"), ("argmin", "argmax")]
_PAIRS += [("clamp_min", "clamp_max")]
EXTREMA = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Change = tuple[str, ast.AST, str]  # kind, the node, what stands in its place


@dataclass(frozen=True)
class Mutant:
    """One fault: ``source`` is the whole changed file, ``before`` became ``after``."""

    kind: str
    line: int
    column: int
    before: str
    after: str
    source: str


def mutants(source: str, only: tuple[str, ...] = ()) -> list[Mutant]:
    """Return every fault of a source, or those within the named classes and functions."""
    tree = ast.parse(source)
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines))]
    found = []
    for root in _roots(tree, only):
        for kind, node, after in _changes(root, None):
            begin, end = (starts[row - 1] + column for row, column in _span(node))
            data = source.encode()
            before = " ".join(data[begin:end].decode().split())
            changed = (data[:begin] + after.encode() + data[end:]).decode()
            line, column = next(_span(node))
            found.append(Mutant(kind, line, column, before, after, changed))
    return found


def _roots(tree: ast.Module, only: tuple[str, ...]) -> list[ast.AST]:
    if not only:
        return [tree]
    named = (Function, ast.ClassDef)
    return [n for n in ast.walk(tree) if isinstance(n, named) and n.name in only]


def _span(node: ast.AST) -> Iterator[tuple[int, int]]:
    yield node.lineno, node.col_offset  # type: ignore[attr-defined]
    yield node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _changes(node: ast.AST, function: Function | None) -> Iterator[Change]:
    """Walk the tree below a node; ``function`` is the innermost one around it."""
    if isinstance(node, ast.Raise):
        yield "guard", node, "pass"
        return
    if isinstance(node, ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.expr):
        yield from ((kind, node, f"({ast.unparse(new)})") for kind, new in _expression(node))
    if isinstance(node, ast.If | ast.IfExp) and not _turned_over(node.test):
        yield "logic", node.test, f"(not ({ast.unparse(node.test)}))"
    if isinstance(node, ast.Return) and function is not None:
        yield from _returned(node, function)
    inner = node if isinstance(node, Function) else function
    for child in _children(node):
        yield from _changes(child, inner)


def _turned_over(test: ast.expr) -> bool:
    """Say if another change of the condition is its negation already."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[op]):
            return not isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Go down, past what no test should depend on."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        values = value if isinstance(value, list) else [value]
        yield from (v for v in values if isinstance(v, ast.AST))


def _expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=ops):
            for n, op in enumerate(ops):
                new = copy.deepcopy(node)
                new.ops[n] = COMPARE[type(op)]()  # type: ignore[attr-defined]
                yield "compare", new
        case ast.BinOp(op=op) if type(op) in ARITHMETIC and not _is_text(new):
            new.op = ARITHMETIC[type(op)]()
            yield "arithmetic", new
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "sign", operand
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "logic", operand
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "logic", new
        case ast.Constant(value=bool() | int() | float() as value):
            yield "constant", ast.Constant(_other(value))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in EXTREMA:
            field = "id" if isinstance(new.func, ast.Name) else "attr"
            setattr(new.func, field, EXTREMA[name])
            yield "extremum", new


def _is_text(node: ast.BinOp) -> bool:
    """Say if an operand is a string: strings do not subtract, and every test would notice."""
    sides = (node.left, node.right)
    return any(
        isinstance(s, ast.JoinedStr) or (isinstance(s, ast.Constant) and isinstance(s.value, str))
        for s in sides
    )


def _other(value: float) -> float:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 1.5 * value if value else 1.0


def _returned(node: ast.Return, function: Function) -> Iterator[Change]:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    names = [name for name in names if name not in ("self", "cls")]
    if node.value is not None and names and ast.unparse(node.value) != names[0]:
        yield "return", node, f"return {names[0]}"
