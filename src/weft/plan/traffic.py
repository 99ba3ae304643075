"""What the steps of a plan have to compute and move at the least, for profiles.

Work is what the nodes ask for (``weft.plan.stats``), whatever the kernel does: a Winograd
convolution counts like a direct one.  Bytes are those of every operand and of the result,
once each, and no more of an operand than is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.ir.graph import Node
from weft.loops.nodes import Binary, Cast, Const, Expr, Load, Reduce, Select, Unary, Var
from weft.plan.group import Group
from weft.plan.plan import Plan, PlannedStep
from weft.plan.program import Region
from weft.plan.stats import GraphStats, Work


@dataclass(frozen=True, slots=True)
class Traffic:
    """A step's share.

    Attributes:
        work: multiply-accumulates and other operations of its nodes.
        reads: bytes read of each operand; writes: bytes written of each result.
        distances: for each of them, how many bytes of other memory were touched since it
            was used before; what is larger than a cache will come from behind it.
    """

    work: Work
    reads: Mapping[str, int]
    writes: Mapping[str, int]
    distances: Mapping[str, int]

    @property
    def flops(self) -> int:
        """Operations, two for each multiply-accumulate."""
        return 2 * self.work.macs + self.work.operations

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return sum(self.reads.values()) + sum(self.writes.values())


def _loads(expr: Expr, times: int) -> Iterator[tuple[str, int]]:
    """Buffers that are loaded, and how often at most."""
    match expr:
        case Load(buffer, index):
            yield buffer, times
            for each in index:
                yield from _loads(each, times)
        case Reduce(_, axes, value):
            yield from _loads(value, times * prod(axis.extent for axis in axes))
        case Unary(_, x) | Cast(_, x):
            yield from _loads(x, times)
        case Binary(_, lhs, rhs):
            yield from _loads(lhs, times)
            yield from _loads(rhs, times)
        case Select(condition, then, otherwise):
            for each in (condition, then, otherwise):
                yield from _loads(each, times)
        case Const() | Var():
            return


def _read(step: PlannedStep, plan: Plan) -> dict[str, int]:
    """Bytes of each operand: all, or one element for each load if that is less."""
    if not isinstance(step.work, Group):
        return {value: plan.types[value].bytes for value in step.reads}
    compute = step.work.compute
    points = prod(axis.extent for axis in compute.axes)
    loaded: dict[str, int] = {}
    for value, times in _loads(compute.value, points):
        loaded[value] = loaded.get(value, 0) + times
    return {
        value: min(plan.types[value].bytes, times * plan.types[value].dtype.bytes)
        for value, times in loaded.items()
    }


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
    reads = [_read(step, plan) for step in plan.steps]
    writes = [{value: plan.types[value].bytes for value in step.writes} for step in plan.steps]
    distances = _distances(plan, [{**r, **w} for r, w in zip(reads, writes, strict=True)])
    found: list[Traffic] = []
    for step, read, written, far in zip(plan.steps, reads, writes, distances, strict=True):
        work = sum((works.get(node.name, Work()) for node in _nodes(step)), Work())
        found.append(Traffic(work, read, written, far))
    return found
