"""Views of a batch: where its members may stand in another shape, and the nodes that put them so.

A member of its own is laid out as ever; where the batch stands among its axes is free, as long
as what reads it agrees.  Where the wanted place is not the one that the elements' order gives,
a transpose brings it about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from math import prod

from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.ops.ordering import TransposeAttributes
from weft.ops.shape import ReshapeAttributes
from weft.surgery.members import MemberPlace

Step = tuple[Node, TensorType]


def choices(member: Sequence[int], behind: int) -> list[MemberPlace]:
    """Places of a new batch in a shape of one member, the most natural first.

    Args:
        member: the shape, without the batch.
        behind: how many elements in a row belong to one member now.
    """
    ahead = prod(member) // behind
    between: list[MemberPlace] = []
    moved: list[MemberPlace] = []
    inside: list[MemberPlace] = []
    before = 1
    for axis, dim in enumerate(member):
        if dim == 1:
            # An axis of 1 is where a batch of 1 stood.
            if before == ahead:
                between.append(MemberPlace(axis, 1))
            elif before % ahead == 0 or ahead % before == 0:
                moved.append(MemberPlace(axis, 1))
        elif ahead % before == 0 and ahead // before <= dim and dim % (ahead // before) == 0:
            # In front of the axis's elements (batch times heads), among them, or behind them.
            inside.append(MemberPlace(axis, dim * before // ahead))
        before *= dim
    return [*between, *moved, *sorted(inside, key=lambda place: -place.axis)]


def view(
    node: Node,
    source: tuple[TensorType, MemberPlace],
    target: tuple[TensorType, MemberPlace],
    batch: int,
    fresh: Callable[[str], str],
) -> list[Step]:
    """Nodes in the place of a view whose members shall stand elsewhere.

    Args:
        node: the view.
        source: type and place of what it reads.
        target: those of what it shall make.
        batch: how many members there are.
        fresh: a free name like this one.
    """
    (given, old), (made, new) = source, target
    size = prod(given.dims) // batch
    one, other = old.behind(given.dims), new.behind(made.dims)
    if one == other:
        return [(_reshape(node, made.dims), made)]
    # Elements in front of the batch, between its old and its new place, and behind it.
    if one > other:
        digits, order = (size // one, batch, one // other, other), (0, 2, 1, 3)
    else:
        digits, order = (size // other, other // one, batch, one), (0, 2, 1, 3)
    kept = [place for place, digit in enumerate(digits) if digit > 1]
    split = tuple(digits[place] for place in kept)
    perm = tuple(kept.index(place) for place in order if place in kept)
    turned = tuple(split[place] for place in perm)
    shapes = [split, turned, made.dims]
    steps: list[Step] = []
    value = node.inputs[0]
    for kind, shape in zip(("split", "turn", ""), shapes, strict=True):
        turn = kind == "turn"
        if not turn and (steps[-1][1].dims if steps else given.dims) == shape:
            continue
        step = changed(node, inputs=(value,), outputs=(fresh(f"{node.outputs[0]}_{kind}"),))
        step = changed(step, name=fresh(f"{node.name}_{kind}"))
        value = step.outputs[0]
        type = TensorType(given.dtype, shape)
        steps.append((_transpose(step, perm) if turn else _reshape(step, shape), type))
    last, type = steps[-1]
    steps[-1] = (changed(last, name=node.name, outputs=node.outputs), type)
    return steps


def _reshape(node: Node, shape: tuple[int, ...]) -> Node:
    return changed(
        node, op="Reshape", inputs=node.inputs[:1], attributes=ReshapeAttributes(shape, 0)
    )


def _transpose(node: Node, perm: tuple[int, ...]) -> Node:
    return changed(node, op="Transpose", attributes=TransposeAttributes(perm))
