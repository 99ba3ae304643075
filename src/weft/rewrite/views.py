"""Reshape, Flatten, Squeeze and Unsqueeze in a row: one Reshape."""

from __future__ import annotations

from weft.ir.types import Symbol, TensorType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.shape import VIEWS, ReshapeAttributes
from weft.rewrite.rule import Exactness, Rule


def reshape_to(source: TensorType, target: TensorType) -> ReshapeAttributes | None:
    """Attributes of the Reshape from one type to another, if there is one."""
    if target.is_static:
        return ReshapeAttributes(target.dims, allowzero=1 if 0 in target.dims else 0)
    rest = tuple(dim for dim in target.shape[1:] if isinstance(dim, int))
    if not source.shape or source.shape[0] != target.shape[0]:
        return None
    return None if 0 in rest else ReshapeAttributes((0, *rest))


def _unknown(match: Match) -> str | None:
    found = reshape_to(match.type("x"), match.type("y"))
    return None if found else "the batch does not stay in front"


def _once(match: Match, builder: GraphBuilder) -> str:
    return reshaped(match["x"], match.type("y"), builder)


def reshaped(value: str, target: TensorType, builder: GraphBuilder) -> str:
    """A value in another shape; the value itself if it has that shape."""
    source = builder.types[value]
    if source == target:
        return value
    attributes = reshape_to(source, target) or ReshapeAttributes(())
    return builder.op("Reshape", value, attributes=attributes)


def _moves_something(match: Match) -> str | None:
    """Axes of one element may go anywhere without an element being moved."""
    source, perm = match.type("x"), match.attributes("y").perm
    order = tuple(reversed(range(len(source.shape)))) if perm is None else perm
    kept = [axis for axis in order if source.shape[axis] != 1]
    if kept != sorted(kept):
        return ""
    if any(isinstance(dim, Symbol) for dim in source.shape) and order[0] != 0:
        return ""
    return None


def _leads_with_more(match: Match) -> str | None:
    """An axis of one element in front changes nothing for a constant that is added."""
    inner, outer = match.type("x").shape, match.type("v").shape
    more = len(outer) - len(inner)
    if match.type("x") != match.type("y") or more < 1 or outer != (1,) * more + inner:
        return ""
    return None if match.type("a") == match.type("v") else "the constant broadcasts the view"


def _added_before(match: Match, builder: GraphBuilder) -> str:
    array, rank = match.array("k"), len(match.type("x").shape)
    kept = array.reshape(array.shape[max(0, array.ndim - rank) :])
    return builder.op("Add", match["x"], builder.constant(kept, match["k"]))


RULES: tuple[Rule, ...] = (
    Rule(
        name="merge-views",
        before="v = "
        + " | ".join(f"{op}(x)" for op in VIEWS)
        + "\ny = "
        + " | ".join(f"{op}(v)" for op in VIEWS),
        where=_unknown,
        after=_once,
        exactness=Exactness.BIT_EXACT,
        doc="Reshape, Flatten, Squeeze and Unsqueeze in a row are one Reshape, or nothing.",
    ),
    Rule(
        name="add-before-view",
        before="v = "
        + " | ".join(f"{op}(x) [users=1]" for op in VIEWS)
        + "\na = Add{v, const k} [users=1]\ny = "
        + " | ".join(f"{op}(a)" for op in VIEWS),
        where=_leads_with_more,
        after=_added_before,
        exactness=Exactness.BIT_EXACT,
        doc="A constant that is added while axes of one element stand in front, as the mask of "
        "shifted windows is, is added without them: the addition can ride on what comes before.",
    ),
    Rule(
        name="transpose-to-reshape",
        before="y = Transpose(x)",
        where=_moves_something,
        after=_once,
        exactness=Exactness.BIT_EXACT,
        doc="A Transpose that only moves axes of one element is a Reshape, which costs nothing.",
    ),
)
