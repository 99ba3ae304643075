"""Transposes of the rows of products with one matrix: moved to where they cancel.

Exporters that keep sequences in front write attention as transposes around such products.  For
one sequence they cost nothing; for several, a view between them would have to copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from weft.ir.types import TensorType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.ordering import TransposeAttributes
from weft.ops.shape import VIEWS
from weft.rewrite.rule import Exactness, Rule
from weft.rewrite.transposes import permutation
from weft.rewrite.views import reshaped


def _turned(value: str, perm: Sequence[int], builder: GraphBuilder) -> str:
    return builder.op("Transpose", value, attributes=TransposeAttributes(tuple(perm)))


def _viewed(value: str, dims: Sequence[int], builder: GraphBuilder) -> str:
    return reshaped(value, TensorType(builder.types[value].dtype, tuple(dims)), builder)


# --- below a product --------------------------------------------------------------------------


def _not_rows(match: Match) -> str | None:
    perm = permutation(match, "t")
    if len(match.type("w").shape) != 2 or perm[-1] != len(perm) - 1:
        return ""
    return None


def _below_product(match: Match, builder: GraphBuilder) -> str:
    made = builder.op("MatMul", match["x"], match["w"])
    return _turned(made, permutation(match, "t"), builder)


# --- below a view -----------------------------------------------------------------------------


def split_of(dims: Sequence[int], into: Sequence[int]) -> list[tuple[int, ...]] | None:
    """For each axis of a shape the axes that a view splits it into; ``None`` if it joins any.

    Axes of one element in ``into`` go with an axis beside them.
    """
    found: list[tuple[int, ...]] = []
    rest = list(into)
    for dim in dims:
        part: list[int] = []
        while rest and prod(part) < dim:
            part.append(rest.pop(0))
        if prod(part) != dim:
            return None
        found.append(tuple(part))
    if found and prod(rest) == 1:
        found[-1] += tuple(rest)
        return found
    return None if rest or not found else found


def _not_split(match: Match) -> str | None:
    before, after = match.type("t"), match.type("y")
    if not (before.is_static and after.is_static) or 0 in before.dims:
        return ""
    return None if split_of(before.dims, after.dims) else ""


def _below_split(match: Match, builder: GraphBuilder) -> str:
    perm = permutation(match, "t")
    parts = split_of(match.type("t").dims, match.type("y").dims) or []
    of_source = [parts[perm.index(axis)] for axis in range(len(perm))]
    starts = [0, *accumulate(map(len, of_source))]
    split = _viewed(match["x"], [dim for part in of_source for dim in part], builder)
    return _turned(split, [n for axis in perm for n in range(*starts[axis : axis + 2])], builder)


# --- above a product of all rows --------------------------------------------------------------


def _not_above_gemm(match: Match) -> str | None:
    perm, rows = permutation(match, "y"), len(permutation(match, "y")) - 1
    source, split = match.type("v"), match.type("s")
    if perm[-1] != rows or match.attributes("p").transA:
        return ""
    if not (source.is_static and split.is_static) or source.dims[:rows] != split.dims[:rows]:
        return ""
    if (prod(split.dims[:rows]), split.dims[-1]) != match.type("p").dims:
        return ""
    if "c" in match and prod(match.type("c").dims[:-1]) > 1:
        return "what is added is not the same for all rows"
    above = match.view.producers.get(match["v"])
    if above is None or above.op != "Transpose":
        return "no transpose above could take it in"
    return None


def _above_gemm(match: Match, builder: GraphBuilder) -> str:
    perm, product = permutation(match, "y"), match.node("p")
    source, target = match.type("v").dims, match.type("y").dims
    moved = _turned(match["v"], (*perm[:-1], *range(len(perm) - 1, len(source))), builder)
    rows = _viewed(moved, match.type("r").dims, builder)
    made = builder.op("Gemm", rows, *product.inputs[1:], attributes=product.attributes)
    return _viewed(made, target, builder)


RULES: tuple[Rule, ...] = (
    Rule(
        name="sink-transpose-below-product",
        before="t = Transpose(x) [users=1]\ny = MatMul(t, const w)",
        where=_not_rows,
        after=_below_product,
        exactness=Exactness.BIT_EXACT,
        doc="Rows that are multiplied with one matrix are transposed after that.",
    ),
    Rule(
        name="split-before-transpose",
        before="t = Transpose(x) [users=1]\ny = " + " | ".join(f"{op}(t)" for op in VIEWS),
        where=_not_split,
        after=_below_split,
        exactness=Exactness.BIT_EXACT,
        doc="Axes are split before a Transpose, so that the split cancels a view that joined them.",
    ),
    Rule(
        name="transpose-before-gemm",
        before="r = "
        + " | ".join(f"{op}(v) [users=1]" for op in VIEWS)
        + "\np = Gemm(r, const w, const c?) [users=1]\ns = "
        + " | ".join(f"{op}(p) [users=1]" for op in VIEWS)
        + "\ny = Transpose(s)",
        where=_not_above_gemm,
        after=_above_gemm,
        exactness=Exactness.BIT_EXACT,
        doc="Rows are transposed before a product with one matrix, where a Transpose is already.",
    ),
)
