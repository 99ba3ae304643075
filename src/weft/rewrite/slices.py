"""Slices: formed from Gather, and moved above views and transposes."""

from __future__ import annotations

from weft.ir.types import TensorType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.ordering import TransposeAttributes
from weft.ops.shape import VIEWS
from weft.ops.slicing import SliceAttributes
from weft.rewrite.rule import Exactness, Rule
from weft.rewrite.transposes import permutation
from weft.rewrite.views import reshape_to, reshaped


def _not_one_index(match: Match) -> str | None:
    axis = match.attributes("y").axis
    if match.array("i").size != 1:
        return ""
    if not isinstance(match.type("x").shape[axis], int):
        return "the size of the axis is not known"
    if reshape_to(_sliced_type(match), match.type("y")) is None:
        return "the batch does not stay in front"
    return None


def _sliced_type(match: Match) -> TensorType:
    source, axis = match.type("x"), match.attributes("y").axis
    shape = list(source.shape)
    shape[axis] = 1
    return TensorType(source.dtype, tuple(shape))


def _slice(match: Match, builder: GraphBuilder) -> str:
    source = match.type("x")
    axis: int = match.attributes("y").axis % len(source.shape)
    length = source.shape[axis]
    place = int(match.array("i").reshape(-1)[0])
    if place < 0 and isinstance(length, int):
        place += length
    attributes = SliceAttributes((place,), (place + 1,), (axis,), (1,))
    cut = builder.op("Slice", match["x"], attributes=attributes)
    return reshaped(cut, match.type("y"), builder)


def _axes(match: Match) -> tuple[int, ...]:
    """Axes of a Slice, counted from the front."""
    attributes, rank = match.attributes("y"), len(match.type("y").shape)
    if attributes.axes is None:
        return tuple(range(len(attributes.starts)))
    return tuple(axis % rank for axis in attributes.axes)


def _on_axes(match: Match, axes: tuple[int, ...]) -> SliceAttributes:
    attributes = match.attributes("y")
    return SliceAttributes(attributes.starts, attributes.ends, axes, attributes.steps)


def _read_whole(match: Match, name: str) -> str | None:
    """Nothing is gained where another node needs all of the value anyway."""
    readers = match.view.readers(match[name])
    if match[name] in match.view.outputs or any(node.op != "Slice" for node in readers):
        return "what is sliced is read as a whole too"
    return None


def _below_slice(match: Match, builder: GraphBuilder) -> str:
    perm = permutation(match, "t")
    axes = tuple(perm[axis] for axis in _axes(match))
    cut = builder.op("Slice", match["x"], attributes=_on_axes(match, axes))
    return builder.op("Transpose", cut, attributes=TransposeAttributes(perm))


def _wide_axes(type: TensorType) -> list[int]:
    return [axis for axis, dim in enumerate(type.shape) if dim != 1]


def _axes_above(match: Match) -> tuple[int, ...] | None:
    """The axes to slice before a view that only adds or removes axes of one element."""
    before, after = _wide_axes(match.type("x")), _wide_axes(match.type("v"))
    same = [match.type("x").shape[axis] for axis in before] == [
        match.type("v").shape[axis] for axis in after
    ]
    if not same or any(axis not in after for axis in _axes(match)):
        return None
    return tuple(before[after.index(axis)] for axis in _axes(match))


def _not_above_view(match: Match) -> str | None:
    if _axes_above(match) is None:
        return ""
    if not (match.type("x").is_static and match.type("y").is_static):
        return "the batch is not known"
    return _read_whole(match, "v")


def _above_view(match: Match, builder: GraphBuilder) -> str:
    attributes = _on_axes(match, _axes_above(match) or ())
    cut = builder.op("Slice", match["x"], attributes=attributes)
    return reshaped(cut, match.type("y"), builder)


RULES: tuple[Rule, ...] = (
    Rule(
        name="gather-to-slice",
        before="y = Gather(x, const i)",
        where=_not_one_index,
        after=_slice,
        exactness=Exactness.BIT_EXACT,
        doc="Gathering at one constant index is a Slice, which often costs nothing.",
    ),
    Rule(
        name="slice-before-transpose",
        before="t = Transpose(x)\ny = Slice(t)",
        where=lambda match: _read_whole(match, "t"),
        after=_below_slice,
        exactness=Exactness.BIT_EXACT,
        doc="A Transpose of which only slices are read moves below them.",
    ),
    Rule(
        name="slice-before-view",
        before="v = " + " | ".join(f"{op}(x)" for op in VIEWS) + "\ny = Slice(v)",
        where=_not_above_view,
        after=_above_view,
        exactness=Exactness.BIT_EXACT,
        doc="A view that only adds or removes axes of one element moves below a Slice, towards "
        "other views.",
    ),
)
