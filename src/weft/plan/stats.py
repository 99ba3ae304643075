"""Statistics: what every node of a graph computes, reads, writes and keeps live.

The figures come from the ops' definitions, so that every op has them: a multiply-
accumulate is one term of a sum of products of two tensors, an operation is anything else
that is done with elements (a comparison, an exponential, a conversion); what indices
cost is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from math import prod

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.loops.nodes import Const, Expr, Load, Operation, Reduce, Select, Var
from weft.loops.walk import children
from weft.ops.control import ScanAttributes, scan_length
from weft.ops.evaluate import call_of
from weft.ops.expand import expand
from weft.ops.record import Control, Define, Expand, Extern, Op
from weft.plan.contractions import contraction
from weft.records import dataclass
from weft.screen import Screen, Shown, several


@dataclass(frozen=True, slots=True)
class Work:
    """What is computed.

    Attributes:
        macs: multiply-accumulates.
        operations: everything else that is done with elements.
    """

    macs: int = 0
    operations: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.macs + other.macs, self.operations + other.operations)

    def times(self, count: int) -> Work:
        """So often."""
        return Work(self.macs * count, self.operations * count)


@dataclass(frozen=True, slots=True)
class LayerStats:
    """Figures of one node.

    Attributes:
        name: of the node.
        op: its op.
        output: type of its first output.
        macs: multiply-accumulates.
        operations: everything else that is done with elements.
        parameters: elements of the constants that it reads.
        weight_bytes: their bytes.
        read_bytes: bytes of computed values and inputs that it reads.
        written_bytes: bytes that it writes.
        live_bytes: bytes of inputs, outputs and computed values that have to exist while it
            runs, in the order of the graph and without fusion or sharing.
    """

    name: str
    op: str
    output: str
    macs: int
    operations: int
    parameters: int
    weight_bytes: int
    read_bytes: int
    written_bytes: int
    live_bytes: int

    @property
    def intensity(self) -> float:
        """Arithmetic operations (two for a multiply-accumulate) per byte moved."""
        moved = self.weight_bytes + self.read_bytes + self.written_bytes
        return (2 * self.macs + self.operations) / moved if moved else 0.0

    def record(self) -> dict[str, str | int | float]:
        """The figures by name, for JSON."""
        return {**asdict(self), "intensity": round(self.intensity, 4)}


@dataclass(frozen=True, slots=True, repr=False)
class GraphStats(Shown):
    """Figures of a graph.

    Attributes:
        layers: one for each node, in graph order.
        macs: multiply-accumulates of all nodes.
        operations: of all nodes.
        parameters: elements of all constants, each once.
        weight_bytes: their bytes.
        peak_bytes: the largest ``live_bytes``.
    """

    layers: tuple[LayerStats, ...]
    macs: int
    operations: int
    parameters: int
    weight_bytes: int
    peak_bytes: int

    def record(self) -> dict[str, object]:
        """The figures by name, for JSON."""
        totals = {
            name: getattr(self, name)
            for name in ("macs", "operations", "parameters", "weight_bytes", "peak_bytes")
        }
        return {**totals, "layers": [layer.record() for layer in self.layers]}

    def screen(self) -> Screen:
        """What ``repr`` tells: the totals, and the layers with the most work first."""
        title = (
            f"GraphStats: {several(len(self.layers), 'layer')}, {self.macs:,} MACs, "
            f"{self.parameters:,} parameters in {self.weight_bytes:,} bytes, "
            f"{self.peak_bytes:,} bytes live at most"
        )
        busiest = sorted(self.layers, key=lambda each: -(2 * each.macs + each.operations))
        headings = ("layer, most work first", "op", "output", "MACs", "other ops", "parameters")
        rows = [
            (
                each.name,
                each.op,
                each.output,
                f"{each.macs:,}",
                f"{each.operations:,}",
                f"{each.parameters:,}",
            )
            for each in busiest
        ]
        return Screen(title, (), headings, rows, (3, 4, 5))


# --- work -----------------------------------------------------------------------------------


def _children(expr: Expr) -> tuple[Expr, ...]:
    """Operands that are elements, not indices or guards."""
    match expr:
        case Operation():
            return children(expr)
        case Select(condition, then, otherwise):
            return tuple(each for each in (condition, then, otherwise) if _has_load(each))
        case Reduce(_, _, value):
            return (value,)
        case Const() | Var() | Load():
            return ()


def _has_load(expr: Expr) -> bool:
    return isinstance(expr, Load) or any(_has_load(child) for child in _children(expr))


def _terms(expr: Expr) -> Iterator[tuple[Expr, int]]:
    """Nodes that handle elements, and how often they are evaluated per output point."""
    pending: list[tuple[Expr, int]] = [(expr, 1)]
    while pending:
        node, times = pending.pop()
        if isinstance(node, Reduce):
            times *= prod(axis.extent for axis in node.axes)
        yield node, times
        pending.extend((child, times) for child in _children(node) if _has_load(child))


def _of_expression(value: Expr) -> Work:
    """Work for one output point."""
    product = contraction(value)
    work = Work()
    inside: set[int] = set()
    if product is not None:
        work += Work(macs=prod(axis.extent for axis in product.axes))
        # The product itself, and what guards and widens its factors, is the accumulate.
        inside = {id(node) for node, _ in _terms(product)}
    for node, times in _terms(value):
        if id(node) in inside or isinstance(node, Load | Const | Var | Select):
            continue
        work += Work(operations=times)
    return work


def _of_node(node: Node, graph: Graph, ops: Mapping[str, Op]) -> Work:
    call = call_of(node, graph.types)
    match ops[node.op].compute:
        case Define(function):
            work = Work()
            for output, compute in zip(node.outputs, function(call), strict=False):
                if output:
                    points = prod(axis.extent for axis in compute.axes)
                    work += _of_expression(compute.value).times(points)
            return work
        case Expand():
            inner = expand(_alone(node, graph), ops)
            return sum((_of_node(each, inner, ops) for each in inner.nodes), Work())
        case Extern():
            values = [value for value in (*node.inputs, *node.outputs) if value]
            return Work(operations=sum(graph.types[value].size for value in values))
        case Control():
            attributes: ScanAttributes = node.attributes
            body = attributes.body
            once = sum((_of_node(each, body, ops) for each in body.nodes), Work())
            return once.times(scan_length(call))


def _alone(node: Node, graph: Graph) -> Graph:
    """A graph of one node."""
    values = [value for value in (*node.inputs, *node.outputs) if value]
    given = tuple(value for value in node.reads if value not in graph.constants)
    return replace(
        graph,
        inputs=given,
        outputs=tuple(value for value in node.outputs if value),
        nodes=(node,),
        types={value: graph.types[value] for value in values},
        constants={value: graph.constants[value] for value in values if value in graph.constants},
        history=(),
    )


# --- memory ---------------------------------------------------------------------------------


def _live(graph: Graph) -> list[int]:
    """Bytes live at each node in graph order."""
    last = dict.fromkeys(graph.inputs, 0)
    first = dict.fromkeys(graph.inputs, 0)
    for place, node in enumerate(graph.nodes):
        for value in node.outputs:
            if value:
                first[value] = last[value] = place
        for value in node.inputs:
            if value in first:
                last[value] = place
    for value in graph.outputs:
        if value in last:
            last[value] = len(graph.nodes) - 1
    change = [0] * (len(graph.nodes) + 2)  # Without nodes inputs are read all the same.
    for value, place in first.items():
        change[place] += graph.types[value].bytes
        change[last[value] + 1] -= graph.types[value].bytes
    live: list[int] = []
    total = 0
    for step in change[: len(graph.nodes)]:
        total += step
        live.append(total)
    return live


def _layer(node: Node, graph: Graph, ops: Mapping[str, Op], live: int) -> LayerStats:
    read = [value for value in dict.fromkeys(node.inputs) if value]
    weights = [value for value in read if value in graph.constants]
    made = [value for value in node.outputs if value]
    work = _of_node(node, graph, ops)
    return LayerStats(
        name=node.name,
        op=node.op,
        output=str(graph.types[made[0]]) if made else "",
        macs=work.macs,
        operations=work.operations,
        parameters=sum(graph.types[value].size for value in weights),
        weight_bytes=sum(graph.types[value].bytes for value in weights),
        read_bytes=sum(graph.types[value].bytes for value in read) - _bytes(graph, weights),
        written_bytes=_bytes(graph, made),
        live_bytes=live,
    )


def _bytes(graph: Graph, values: list[str]) -> int:
    return sum(graph.types[value].bytes for value in values)


def stats(graph: Graph, ops: Mapping[str, Op]) -> GraphStats:
    """Figures of a graph and of each of its nodes.

    Raises:
        UserError: the graph has a symbolic dimension.
    """
    symbolic = [name for name in graph.inputs if not graph.types[name].is_static]
    if symbolic:
        raise UserError(
            "all dimensions must be known to count operations",
            got=", ".join(f"{name} {graph.types[name]}" for name in symbolic),
            fix=f"Give it with --input {symbolic[0]}=SHAPE",
        )
    live = _live(graph)
    layers = tuple(_layer(node, graph, ops, live[place]) for place, node in enumerate(graph.nodes))
    used = {value for node in graph.nodes for value in node.inputs} | set(graph.outputs)
    constants = [value for value in graph.constants if value in used]
    return GraphStats(
        layers,
        macs=sum(layer.macs for layer in layers),
        operations=sum(layer.operations for layer in layers),
        parameters=sum(graph.types[value].size for value in constants),
        weight_bytes=_bytes(graph, constants),
        peak_bytes=max(live, default=0),
    )
