"""What the steps of a plan have to compute and move at the least, for profiles.

Work is what the nodes ask for (``weft.plan.stats``), whatever the kernel does: a Winograd
convolution counts like a direct one.  Bytes are those of every operand and of the result,
once each, and no more of an operand than is read; of weights that a kernel has in fewer bits,
those of that form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.loops.nodes import Const, Expr, Load, Reduce, Select, Var
from weft.loops.walk import free_vars, loads, walk
from weft.plan.fusion import Group
from weft.plan.implementation import Encoded
from weft.plan.plan import Plan, PlannedStep
from weft.plan.program import Region
from weft.plan.scans import scan_of
from weft.plan.stats import GraphStats, Work
from weft.plan.storage import Storage
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """A step's share.

    Attributes:
        work: multiply-accumulates and other operations of its nodes.
        reads: bytes read of each operand; writes: bytes written of each result.
        distances: for each operand, how many bytes of other memory were touched since it
            was used before; what is larger than a cache will come from behind it.
        fresh: bytes written that do not take the place of an operand.
    """

    work: Work
    reads: Mapping[str, int]
    writes: Mapping[str, int]
    distances: Mapping[str, int]
    fresh: int = 0

    def beyond(self, size: int) -> int:
        """Bytes that cannot come from a cache of some size, or stay in it.

        A cache keeps what was used last, as much as it holds.  The place of a result may
        be in any cache, whatever lay there before.
        """
        moved = sum(
            min(each, max(0, self.distances[value] + each - size))
            for value, each in self.reads.items()
        )
        return moved + max(0, self.fresh - size)

    @property
    def flops(self) -> int:
        """Operations, two for each multiply-accumulate."""
        return 2 * self.work.macs + self.work.operations

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return sum(self.reads.values()) + sum(self.writes.values())


def _read(step: PlannedStep, types: Mapping[str, TensorType]) -> dict[str, int]:
    """Bytes of each operand: all, or one element for each place that its index can name."""
    if not isinstance(step.work, Group):
        return {value: types[value].bytes for value in step.reads}
    value = step.work.compute.value
    extents = {axis.var: axis.extent for axis in step.work.compute.axes}
    for node in walk(value):
        if isinstance(node, Reduce):
            for axis in node.axes:
                extents[axis.var] = max(axis.extent, extents.get(axis.var, 0))
    places: dict[str, int] = {}
    for load in loads(value):
        names = frozenset[str]().union(*map(free_vars, load.index))
        count = prod(extents[name] for name in names)
        places[load.buffer] = max(places.get(load.buffer, 0), count)
    whole = {name: types[name].bytes for name in places} | _packed(step)
    return {
        name: min(whole[name], count * types[name].dtype.bytes) for name, count in places.items()
    }


def carried(
    steps: Sequence[PlannedStep], storage: Storage, scratch: Mapping[int, str]
) -> dict[str, int]:
    """Bytes that steps read and write of every root and of the scratch memory of steps.

    Args:
        steps: in order.
        storage: where their values lie.
        scratch: names of scratch memory, by step.  It is written and read once, in a loop over
            a nested plan once in each iteration.
    """
    found: dict[str, int] = {}
    for place, step in enumerate(steps):
        for value, size in (
            *_read(step, storage.types).items(),
            *((value, storage.types[value].bytes) for value in step.writes),
        ):
            root = storage.views[value].root
            found[root] = found.get(root, 0) + size
        if place in scratch:
            turns = 1
            if step.nested is not None:
                (node,) = step.nodes
                turns = scan_of(node, step.nested.graph, storage.types).count
            found[scratch[place]] = 2 * step.scratch * turns
    return found


def _packed(step: PlannedStep) -> dict[str, int]:
    """Bytes of operands that a kernel reads in fewer bits."""
    found: dict[str, int] = {}
    for operand in step.implementation.operands if step.implementation else ():
        if isinstance(operand.packing, Encoded):
            size = operand.packing.stored.bytes
            found[operand.value] = found.get(operand.value, 0) + size
    return found


def _distances(plan: Plan, touched: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Reuse distances by step, when the network runs again and again.

    Memory counts by the value that owns it.  Values of the arena take one another's places,
    so together they count for no more than the arena.
    """
    recent: dict[str, int] = {}  # root -> bytes, the last used one last
    found: list[dict[str, int]] = [{} for _ in touched]
    for _ in range(2):  # the second run finds what the first one left
        for place, values in enumerate(touched):
            for value in values:
                found[place][value] = _since(plan, recent, plan.views[value].root)
            for value, size in values.items():
                root = plan.views[value].root
                before = recent.pop(root, 0)
                recent[root] = max(before, size)
    return found


def _since(plan: Plan, recent: Mapping[str, int], wanted: str) -> int:
    """Bytes used after a root was; 0 if it never was, for its place may be a warm one."""
    if wanted not in recent:
        return 0
    arena = others = 0
    for root, size in reversed(list(recent.items())):
        if root == wanted:
            break
        if plan.roots[root].region is Region.ARENA:
            arena += size
        else:
            others += size
    return min(arena, plan.arena_bytes) + others


def _nodes(step: PlannedStep) -> Sequence[Node]:
    """Nodes that a step computes; what only moves values, for one of its users, has none."""
    if not isinstance(step.work, Group):
        return (step.work.node,)
    return step.work.nodes if _computes(step.work.compute.value) else ()


def _computes(value: Expr) -> bool:
    """Whether more is done with elements than choosing among them."""
    match value:
        case Load() | Const() | Var():
            return False
        case Select(_, then, otherwise):
            return _computes(then) or _computes(otherwise)
        case _:
            return True


def traffic(plan: Plan, figures: GraphStats) -> list[Traffic]:
    """What each step of a plan has to do, in order.

    A node whose work two groups repeat is counted in both.

    Args:
        plan: all steps.
        figures: of the plan's graph.
    """
    works = {layer.name: Work(layer.macs, layer.operations) for layer in figures.layers}
    reads = [_read(step, plan.types) for step in plan.steps]
    writes = [{value: plan.types[value].bytes for value in step.writes} for step in plan.steps]
    distances = _distances(plan, [{**r, **w} for r, w in zip(reads, writes, strict=True)])
    found: list[Traffic] = []
    for step, read, written, far in zip(plan.steps, reads, writes, distances, strict=True):
        work = sum((works.get(node.name, Work()) for node in _nodes(step)), Work())
        distances = {value: far[value] for value in read}
        fresh = 0 if step.in_place else sum(written.values())
        found.append(Traffic(work, read, written, distances, fresh))
    return found
