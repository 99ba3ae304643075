"""What is fetched ahead: weights of the next tiles, and what the end of a tile reads."""

from __future__ import annotations

from math import prod

from weft.kernels.contraction import Contraction
from weft.kernels.tiling import LaneBlock
from weft.kernels.writer import integer, plus
from weft.loops.nodes import Binary, Buffer, Const, Expr, Load, Var
from weft.loops.walk import dtype_of, free_vars, loads, map_expr
from weft.targets.target import Target


def prefetches(target: Target, slab: int, total: int) -> bool:
    """Whether the next slab of weights is fetched while one is used.

    Args:
        target: the machine.
        slab: bytes that are used again and again before the next slab's turn.
        total: bytes of all slabs.
    """
    if not target.caches:
        return False
    # In a network, other layers' weights have taken all caches since the last run.
    return total > target.caches[0] // 2 and slab <= target.caches[-1] // 2


def following(number: Expr, count: int) -> Expr:
    """The number after one of ``count``; the last one's own."""
    return Binary("min", plus(number, 1), integer(count - 1))


def last_operands(parts: Contraction) -> tuple[Load, ...]:
    """What the end of a tile reads from beyond a core's own caches, position by position.

    The lines of a tile lie rows apart, so that no prefetcher of a processor follows them: a sum
    with what another layer computed would wait for each.
    """
    return parts.fact(_last_operands)


def _last_operands(parts: Contraction) -> tuple[Load, ...]:
    if not (parts.task.target.caches and parts.reduce and parts.tile and parts.lanes):
        return ()
    done, nothing = parts.reduce, Const(0.0, dtype_of(parts.reduce.value))
    rest = map_expr(parts.task.compute.value, lambda node: nothing if node == done else node)
    inputs = {each.name: each for each in parts.task.inputs}
    found = (load for load in loads(rest) if load.buffer in inputs)
    return tuple(dict.fromkeys(load for load in found if _is_far(parts, load, inputs[load.buffer])))


def _is_far(parts: Contraction, load: Load, buffer: Buffer) -> bool:
    assert parts.tile
    assert parts.lanes
    extents = {axis.var: axis.extent for axis in parts.task.compute.axes}
    # A load that a condition guards may read beyond its buffer elsewhere; variables of loops
    # around the task are not looked at.
    inside = all(
        extents.get(part.name, size + 1) <= size
        if isinstance(part, Var)
        else isinstance(part, Const)
        for part, size in zip(load.index, buffer.shape, strict=True)
    )
    along = {parts.tile.var, parts.lanes.var} <= free_vars(load)
    steps = dict(zip(load.index, buffer.steps, strict=True))
    size = buffer.dtype.bytes * prod(buffer.shape)
    near = size <= parts.task.target.caches[-1] // 2
    return inside and along and steps[Var(parts.lanes.var)] == 1 and not near


def last_lines(parts: Contraction, block: LaneBlock) -> list[tuple[Load, int]]:
    """Those operands and the first lane of each of their lines, if a tile has time to fetch them.

    A position fetches as many, so it does not matter how many there are.
    """
    target = parts.task.target
    found = [
        (load, lane)
        for load in last_operands(parts)
        for lane in range(0, block.width, max(1, target.line // load.dtype.bytes))
    ]
    steps = prod(axis.extent for axis in parts.reduce.axes) if parts.reduce else 0
    time = steps * len(block.widths) / target.multiply_adds
    return found if target.costs.prefetch * len(found) <= time else []
