"""Sizes that stand in attributes, mended for inputs of other sizes, or refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace as changed
from math import prod
from typing import Any, TypeAlias

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import Dim, Symbol, TensorType
from weft.loops.shapes import factor_groups
from weft.ops.slicing import WHOLE
from weft.records import dataclass


@dataclass(frozen=True)
class Resized:
    """A node whose inputs have got other types.

    Attributes:
        node: the node.
        before: types of its inputs.
        made: types of its outputs with those.
        after: types of its inputs now.
        earlier: shapes now of values that the node depends on and whose shape was that of
            its first output; asked for only where nothing else tells.
    """

    node: Node
    before: tuple[TensorType | None, ...]
    made: tuple[TensorType, ...]
    after: tuple[TensorType | None, ...]
    earlier: Callable[[], Collection[tuple[Dim, ...]]]

    @property
    def old(self) -> tuple[Dim, ...]:
        """The first input's shape before."""
        return () if self.before[0] is None else self.before[0].shape

    @property
    def new(self) -> tuple[Dim, ...]:
        """The first input's shape now."""
        return () if self.after[0] is None else self.after[0].shape

    def refuse(self, rule: str) -> UserError:
        """Why the node cannot be mended."""
        return UserError(
            f"shapes: {self.node.op.lower()}: {rule}",
            got=f"{self.before[0]} -> {self.made[0]}, now {self.after[0]}",
            fix="Export the network with that size instead.",
            where=f"node {self.node.name}",
        )


Group: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
Retype: TypeAlias = Callable[[Graph, Mapping[str, TensorType]], Graph]
Mender: TypeAlias = Callable[[Resized, Retype], Any]
"""``mender(resized, retype)``: the node's attributes for the new types; ``retype`` is for
bodies."""


def _reshape(resized: Resized, retype: Retype) -> Any:
    try:
        found = _followed(resized)
    except UserError:
        # A view that was undone: [n,c,h,w] -> [n,g,s] -> [n,c,h,w].
        sizes = prod(_int(dim) for dim in resized.new)
        fitting = [s for s in resized.earlier() if prod(_int(dim) for dim in s) == sizes]
        if len(fitting) != 1 or _moves_ones(resized):
            raise
        (found,) = fitting
    given = tuple(0 if isinstance(dim, Symbol) else dim for dim in found)
    if 0 in given[1:] or (given[:1] == (0,) and found[0] != resized.new[0]):
        raise resized.refuse("the open size is merged with others")
    return changed(resized.node.attributes, shape=given, allowzero=0)


def _moves_ones(resized: Resized) -> bool:
    """Whether a size that was 1 changes that may stand anywhere in the target."""
    target = resized.made[0].shape
    sizes = enumerate(zip(resized.old, resized.new, strict=True))
    return any(old == 1 != new and (place or target[:1] != (1,)) for place, (old, new) in sizes)


def _followed(resized: Resized) -> tuple[Dim, ...]:
    """The target, its sizes changed where the input's were."""
    old, new, target = resized.old, resized.new, resized.made[0].shape
    factor, old, new = _leading(resized, old, new, target)
    found = list(target)
    if factor is not None:
        found[0] = factor
    for place, dim in _others(resized, old, new, target).items():
        # The leading axis may stand in a group with others that have changed, too.
        found[place] = _scaled(found[place], dim, target[place])
    return tuple(found)


def _scaled(dim: Dim, new: int, old: Dim) -> Dim:
    if isinstance(dim, Symbol) or isinstance(old, Symbol) or not old:
        return dim
    return dim * new // old


def _leading(
    resized: Resized, old: tuple[Dim, ...], new: tuple[Dim, ...], target: tuple[Dim, ...]
) -> tuple[Dim | None, tuple[Dim, ...], tuple[Dim, ...]]:
    """What the target's leading size becomes, and the shapes with that change taken out.

    In row-major order a larger leading size of the source makes the target's leading size
    larger, whatever the sizes behind it are split into.
    """
    if not old or old[0] == new[0]:
        return None, old, new
    if not target:
        raise resized.refuse("the target is one element")
    first, last = old[0], new[0]
    if isinstance(first, Symbol) or isinstance(last, Symbol):
        if target[0] != first:
            raise resized.refuse("the open size is merged with others")
        return last, old, (first, *new[1:])
    if first == 1 != target[0] and 1 in target:
        # Perhaps a transpose once, which a batch of 1 allowed to be written as a reshape.
        raise resized.refuse("it cannot be told which size of 1 is the batch")
    size = target[0]
    if isinstance(size, Symbol) or size * last % first:
        raise resized.refuse("the leading size of the target does not grow with the input's")
    return size * last // first, old, (first, *new[1:])


def _others(
    resized: Resized, old: tuple[Dim, ...], new: tuple[Dim, ...], target: tuple[Dim, ...]
) -> dict[int, int]:
    """New sizes of the target's axes, for changes of axes but the leading one."""
    if old == new:
        return {}
    source, goal = [_int(dim) for dim in old], [_int(dim) for dim in target]
    if prod(source) == 0 or prod(source) != prod(goal):
        raise resized.refuse("it cannot be told which sizes follow the input's")
    found: dict[int, int] = {}
    settled: set[int] = set()
    for left, right in [*_alike(source, goal), *factor_groups(source, goal)]:
        if settled.intersection(left):
            continue
        settled.update(left)
        was, now = prod(source[n] for n in left), prod(_int(new[n]) for n in left)
        if was == now and all(source[n] == new[n] for n in left):
            continue
        if len(right) != 1 and not _inner(source, goal, new, left, right):
            raise resized.refuse(f"size {was} is split, and it cannot be told how {now} should be")
        found[right[-1]] = now * goal[right[-1]] // was
    loose = [n for n, dim in enumerate(old) if n not in settled and new[n] != dim]
    if loose:
        raise resized.refuse("it cannot be told which sizes follow the input's")
    return found


def _inner(
    source: Sequence[int],
    goal: Sequence[int],
    new: Sequence[Dim],
    left: tuple[int, ...],
    right: tuple[int, ...],
) -> bool:
    """Whether a change of a run's inner axes all falls into the last axis that it becomes.

    ``[4,6,6] -> [2,72]``: 2 divides the 4 that stays.
    """
    outer = 1
    for place in left:
        if source[place] != new[place]:
            break
        outer *= source[place]
    return outer % prod(goal[place] for place in right[:-1]) == 0


def _alike(source: Sequence[int], goal: Sequence[int]) -> list[Group]:
    """Axes of 1 in front that both sides have, which stand in no group."""
    found: list[Group] = []
    for place, (left, right) in enumerate(zip(source, goal, strict=False)):
        if left != right:
            break
        found.append(((place,), (place,)))
    return found


def _int(dim: Dim) -> int:
    """A size; an open one, which leads, stands beside the others like 1."""
    return 1 if isinstance(dim, Symbol) else dim


def _expand(resized: Resized, retype: Retype) -> Any:
    """Sizes of the target that were the input's stay the input's."""
    shape = list(resized.node.attributes.shape)
    offset = len(shape) - len(resized.old)
    for place, (old, new) in enumerate(zip(resized.old, resized.new, strict=True)):
        if old != new and offset + place >= 0 and shape[offset + place] == old != 1:
            shape[offset + place] = new
    return changed(resized.node.attributes, shape=tuple(shape))


def _slice(resized: Resized, retype: Retype) -> Any:
    """A slice that went to the end still does; one that ends inside means what it says."""
    attributes = resized.node.attributes
    axes = attributes.axes or tuple(range(len(attributes.starts)))
    ends = list(attributes.ends)
    steps = attributes.steps or (1,) * len(axes)
    for place, axis in enumerate(axes):
        old, new = resized.old[axis], resized.new[axis]
        if isinstance(old, int) and old != new and steps[place] > 0 and ends[place] >= old:
            ends[place] = WHOLE
    return changed(attributes, ends=tuple(ends))


def _resize(resized: Resized, retype: Retype) -> Any:
    """Fixed sizes grow as the input does."""
    attributes = resized.node.attributes
    if attributes.sizes is None:
        return attributes
    axes = attributes.axes or tuple(range(len(resized.old)))
    sizes = list(attributes.sizes)
    for place, axis in enumerate(axes):
        old, new = resized.old[axis], resized.new[axis]
        if old == new:
            continue
        if isinstance(old, Symbol) or isinstance(new, Symbol) or sizes[place] * new % old:
            raise resized.refuse(f"size {sizes[place]} does not grow with the input's")
        sizes[place] = sizes[place] * new // old
    return changed(attributes, sizes=tuple(sizes))


def _scan(resized: Resized, retype: Retype) -> Any:
    """The body, for states and slices of the new types."""
    attributes = resized.node.attributes
    types: dict[str, TensorType] = {}
    for place, (name, type) in enumerate(zip(attributes.body.inputs, resized.after, strict=True)):
        assert type is not None
        sliced = 0 <= place - attributes.num_states < attributes.num_scan_inputs
        types[name] = TensorType(type.dtype, type.shape[1:]) if sliced else type
    return changed(attributes, body=retype(attributes.body, types))


MENDERS: Mapping[str, Mender] = {
    "Expand": _expand,
    "Reshape": _reshape,
    "Resize": _resize,
    "Scan": _scan,
    "Slice": _slice,
}
"""What is done for an op whose attributes hold sizes of its inputs; others hold none, or say
in ``infer`` what does not fit."""
