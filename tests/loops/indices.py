"""Random index arithmetic, and its meaning by brute force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from hypothesis import strategies as st

from weft.dtypes import DType
from weft.loops.nodes import Binary, Const, Expr, Load, Select, Unary, Var
from weft.loops.walk import index

LOW, HIGH = DType.I64.limits
VARS = ("a", "b", "c")
TABLE = (-3, 0, 7, HIGH, 2, LOW)


def wrap(value: int) -> int:
    return (value - LOW) % (HIGH - LOW + 1) + LOW


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """By the definition, with no regard to speed."""
    match expr:
        case Const(value, _):
            return value
        case Var(name):
            return values[name]
        case Load(_, (position,), _):
            return TABLE[evaluate(position, values) % len(TABLE)]
        case Select(condition, then, otherwise):
            return evaluate(then if evaluate(condition, values) else otherwise, values)
        case Unary("not", x):
            return not evaluate(x, values)
        case Unary("neg", x):
            return wrap(-evaluate(x, values))
        case Binary(op, lhs, rhs):
            return OPERATIONS[op](evaluate(lhs, values), evaluate(rhs, values))
    raise AssertionError(expr)


OPERATIONS = {
    "add": lambda a, b: wrap(a + b),
    "sub": lambda a, b: wrap(a - b),
    "mul": lambda a, b: wrap(a * b),
    "floordiv": lambda a, b: wrap(a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}
SMALL = st.integers(-6, 6)
CONSTANTS = st.one_of(SMALL, SMALL, SMALL, st.sampled_from([HIGH, LOW, HIGH // 2, 1 << 32]))


COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
ARITHMETIC = ["add", "sub", "mul", "min", "max", "floordiv", "mod", "neg", "select"]


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> Expr:
    """An ``i64`` expression; divisors are positive constants."""
    op = draw(st.sampled_from(["var", "const", "load", *ARITHMETIC])) if depth else "var"
    part = indices(depth - 1)
    match op:
        case "var":
            return Var(draw(st.sampled_from(VARS)))
        case "const":
            return index(draw(CONSTANTS))
        case "load":
            return Load("table", (Var(draw(st.sampled_from(VARS))),), DType.I64)
        case "neg":
            return Unary("neg", draw(part))
        case "select":
            return Select(draw(conditions(depth - 1)), draw(part), draw(part))
        case "floordiv" | "mod":
            return Binary(op, draw(part), index(draw(st.integers(1, 8))))
        case _:
            return Binary(op, draw(part), draw(part))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Expr:
    """A condition on integers."""
    op = draw(st.sampled_from(["and", "and", "or", "not", *COMPARISONS])) if depth else "lt"
    if op == "not":
        return Unary("not", draw(conditions(depth - 1)))
    part = conditions(depth - 1) if op in ("and", "or") else indices(depth)
    return Binary(op, draw(part), draw(part))


INDICES = indices()
CONDITIONS = conditions()
RANGES = st.fixed_dictionaries(
    {name: st.tuples(st.integers(-3, 3), st.integers(0, 4)) for name in VARS}
).map(lambda found: {name: (low, low + extent) for name, (low, extent) in found.items()})


def points(ranges: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    """Every assignment of the variables."""
    for values in product(*(range(low, high + 1) for low, high in ranges.values())):
        yield dict(zip(ranges, values, strict=True))
