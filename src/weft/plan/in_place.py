"""Which operands' memory a group's result could take over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from weft.loops.nodes import Reduce
from weft.loops.walk import loads, walk
from weft.plan.fusion import Group
from weft.plan.program import Region
from weft.plan.storage import Storage
from weft.plan.strides import StridedView
from weft.plan.tensors import is_point


def candidates(group: Group, storage: Storage) -> Iterator[tuple[str, str]]:
    """Pairs of the result's root and that of an operand that is read point by point."""
    roots = storage.roots
    root = roots.get(group.value)
    if root is None or root.region is not Region.ARENA:
        return
    for value in group.reads:
        source = storage.views[value].root
        if roots[source].region is Region.ARENA and overwrites(group, value, storage):
            yield root.value, source


def overwrites(group: Group, value: str, storage: Storage) -> bool:
    """Whether the result could take the memory of an operand; the regions play no part."""
    views, roots, types = storage.views, storage.roots, storage.types
    source, root = views[value], roots[views[group.value].root]
    owners = Counter(views[each].root for each in group.reads)
    return (
        owners[source.root] == 1
        and roots[source.root].bytes == root.bytes
        and source.offset == 0
        and _same_place(source, views[group.value], group)
        and types[value].dtype is group.type.dtype
        and _pointwise(group, value)
    )


def _same_place(source: StridedView, view: StridedView, group: Group) -> bool:
    """Whether both walk their memory alike."""
    return len(source.strides) == len(view.strides) and all(
        extent == 1 or a == b
        for a, b, extent in zip(source.strides, view.strides, group.type.dims, strict=True)
    )


def _pointwise(group: Group, value: str) -> bool:
    """Whether every element is only read where, and just before, its place is written."""
    inside = {
        load.buffer
        for node in walk(group.compute.value)
        if isinstance(node, Reduce)
        for load in loads(node.value)
    }
    return value not in inside and all(
        is_point(load, group.compute.axes)
        for load in loads(group.compute.value)
        if load.buffer == value
    )
