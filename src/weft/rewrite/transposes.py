"""Transposes: cancelled, merged, and sunk through elementwise ops to meet one another."""

from __future__ import annotations

import numpy as np

from weft.ir.unknown import contiguous
from weft.match.view import Match
from weft.ops import activation, arithmetic, logic
from weft.ops.build import GraphBuilder
from weft.ops.ordering import TransposeAttributes
from weft.ops.record import Op
from weft.rewrite.rule import Exactness, Rule


def _named(inputs: int) -> tuple[str, ...]:
    """Elementwise ops of so many inputs: all ops of the elementwise families."""
    families: tuple[Op, ...] = (*activation.OPS, *arithmetic.OPS, *logic.OPS)
    return tuple(
        op.name
        for op in families
        if len(op.inputs) == inputs and not any(each.variadic for each in op.inputs)
    )


UNARY = (*_named(1), "Cast")
BINARY = _named(2)


def permutation(match: Match, name: str) -> tuple[int, ...]:
    """The permutation of the Transpose that makes a named value."""
    perm = match.attributes(name).perm
    return tuple(perm) if perm is not None else tuple(reversed(range(len(match.type(name).shape))))


def _transpose(value: str, perm: tuple[int, ...], builder: GraphBuilder) -> str:
    return builder.op("Transpose", value, attributes=TransposeAttributes(perm))


def _composed(match: Match, builder: GraphBuilder) -> str:
    first, second = permutation(match, "t"), permutation(match, "y")
    perm = tuple(first[axis] for axis in second)
    return match["x"] if perm == tuple(range(len(perm))) else _transpose(match["x"], perm, builder)


def _below_unary(match: Match, builder: GraphBuilder) -> str:
    made = builder.op(match.root.op, match["x"], attributes=match.root.attributes)
    return _transpose(made, permutation(match, "t"), builder)


def _different(match: Match) -> str | None:
    if match["s"] == match["t"]:
        return None
    both = (match["s"], match["t"])
    if any(match.view.use_count(value) > 1 for value in both):
        return "a transposed value is read by others too"
    if permutation(match, "s") != permutation(match, "t"):
        return "the inputs are transposed differently"
    return None


def _below_binary(match: Match, builder: GraphBuilder) -> str:
    root = match.root
    made = builder.op(root.op, match["a"], match["b"], attributes=root.attributes)
    return _transpose(made, permutation(match, "t"), builder)


def _too_many_axes(match: Match) -> str | None:
    if match.array("k").ndim > len(match.type("t").shape):
        return "the constant has more axes than the transposed value"
    return None


def _below_constant(match: Match, builder: GraphBuilder) -> str:
    root, perm, k = match.root, permutation(match, "t"), match.array("k")
    moved = match["k"]
    if k.size > 1:
        whole = k.reshape((1,) * (len(perm) - k.ndim) + k.shape)
        back = contiguous(whole.transpose(np.argsort(perm)))
        moved = builder.constant(back, match["k"])
    elif k.ndim:
        moved = builder.constant(k.reshape(()), match["k"])
    inputs = [moved if value == match["k"] else match["x"] for value in root.inputs]
    made = builder.op(root.op, *inputs, attributes=root.attributes)
    return _transpose(made, perm, builder)


RULES: tuple[Rule, ...] = (
    Rule(
        name="merge-transposes",
        before="t = Transpose(x)\ny = Transpose(t)",
        after=_composed,
        exactness=Exactness.BIT_EXACT,
        doc="Two transposes are one, or none if they cancel.",
    ),
    Rule(
        name="sink-transpose",
        before="t = Transpose(x) [users=1]\ny = " + " | ".join(f"{op}(t)" for op in UNARY),
        after=_below_unary,
        exactness=Exactness.BIT_EXACT,
        doc="A Transpose moves below an elementwise op, towards one that cancels it.",
    ),
    Rule(
        name="sink-transposes",
        before="s = Transpose(a)\nt = Transpose(b)\ny = "
        + " | ".join(f"{op}(s, t)" for op in BINARY),
        where=_different,
        after=_below_binary,
        exactness=Exactness.BIT_EXACT,
        doc="Equal transposes of both inputs of an elementwise op become one of its output.",
    ),
    Rule(
        name="sink-transpose-beside-constant",
        before="t = Transpose(x) [users=1]\ny = "
        + " | ".join(f"{op}(t, const k) | {op}(const k, t)" for op in BINARY),
        where=_too_many_axes,
        after=_below_constant,
        exactness=Exactness.BIT_EXACT,
        doc="A Transpose moves below an elementwise op whose other input is constant.",
    ),
)
