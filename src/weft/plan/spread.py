"""Which values get a gap after every row, so that rows do not share places of the cache.

A first-level cache finds the place of a line by the low bits of its address, those within a
page.  A register tile reads a dozen rows side by side; where their distance is a multiple of
half a page all of them want one or two places, which hold no more than eight or twelve lines.
A gap of one line after every row gives every row places of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.ir.types import TensorType
from weft.ops.shape import VIEWS
from weft.plan.contractions import contraction
from weft.plan.fusion import Group
from weft.plan.tensors import Assembled, Opaque, TensorProgram, moved_from

LINE = 64
"""Bytes of a line of a cache, and of a gap."""
PAGE = 4096
"""Bytes after which the places of a first-level cache come again."""
FEW = 4
"""Rows that may share their places."""


def gap_of(type: TensorType, order: Sequence[int]) -> int:
    """Elements to leave free after every row of a value whose dimensions lie in ``order``."""
    moving = [axis for axis in order if type.dims[axis] > 1]
    if len(moving) < 2:
        return 0
    row = type.dims[moving[-1]] * type.dtype.bytes
    rows = type.size // type.dims[moving[-1]]
    return LINE // type.dtype.bytes if row % (PAGE // 2) == 0 and rows > FEW else 0


def spreadable(program: TensorProgram, groups: Mapping[str, Group]) -> frozenset[str]:
    """Values that matrix products and convolutions read, and that need not be packed.

    A view has the rows of the value whose memory it shares, so that this one counts with it.
    """
    factors = {
        load
        for group in groups.values()
        if contraction(group.compute.value) is not None
        for load in group.reads
    }
    views = [(group.value, source) for group in groups.values() for source in _viewed(group)]
    _close(factors, views)
    return frozenset(factors - _packed(program, groups))


def _packed(program: TensorProgram, groups: Mapping[str, Group]) -> set[str]:
    """Values of which some reader wants all elements in one run."""
    found: set[str] = set()
    links: list[tuple[str, str]] = []
    for item in program.items:
        match item:
            case Opaque():
                # A body of C reads and writes elements in one run.
                found.update((*item.reads, *filter(None, item.node.outputs)))
            case Assembled():
                whole = item.owner[0] if item.owner else item.value
                links += [(whole, item.value), (item.value, whole)]
                links += [pair for part in item.parts for pair in ((part, whole), (whole, part))]
            case _:
                pass
    for group in groups.values():
        if _flattens(group, program.types):
            found.update(group.reads)
        else:
            links += [(group.value, source) for source in _viewed(group)]
    _close(found, links)
    return found


def _flattens(group: Group, types: Mapping[str, TensorType]) -> bool:
    """Whether a group only reshapes, and does not keep the rows."""
    if len(group.members) > 1 or group.nodes[0].op not in VIEWS:
        return False
    return any(types[source].dims[-1:] != group.type.dims[-1:] for source in group.reads)


def _viewed(group: Group) -> Iterator[str]:
    """What a group may be a view of."""
    load = moved_from(group.compute)
    if load is not None:
        yield load.buffer
    elif len(group.members) == 1 and group.nodes[0].op in VIEWS:
        yield from group.reads


def _close(found: set[str], links: Sequence[tuple[str, str]]) -> None:
    """Adds the second of every pair whose first is there, until none is left."""
    after: dict[str, list[str]] = {}
    for first, second in links:
        after.setdefault(first, []).append(second)
    open = list(found)
    while open:
        for second in after.get(open.pop(), ()):
            if second not in found:
                found.add(second)
                open.append(second)
