# pyright: basic
"""Graphs of which Weft compiles a part: what runs where, and in what order.

Nodes that the importer refuses run by PyTorch.  All other nodes are compiled, as few parts as
their order allows: what a part gives goes to PyTorch's ops, what those give to the next part.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from weft.codegen.naming import identifier
from weft.errors import UserError, WeftError
from weft.options import Options
from weft.records import dataclass
from weft.torch.aliases import is_view, views
from weft.torch.aten.importer import Imported, import_nodes, origin_of
from weft.torch.capture import Captured, Slot
from weft.torch.execution import CompiledPart
from weft.torch.tensors import gives_complex

_LEAST = 3
"""A part between PyTorch's ops with fewer nodes that compute is not worth its call."""
_CHECKED = (torch.ops.aten._assert_tensor_metadata.default,)
"""Checks of what the signature of a call decides already."""
_SIZES = ("aten::sym_", "aten::_assert_scalar")


@dataclass(frozen=True)
class Fallback:
    """A node that PyTorch runs between compiled parts.

    Attributes:
        op: the ATen op.
        reason: why it is not compiled.
        where: the module's path and the line of its source, as far as they are known.
    """

    op: str
    reason: str
    where: str

    def __str__(self) -> str:
        return f"{self.op} ({self.where}): {self.reason}"


@dataclass(frozen=True, eq=False)
class Region:
    """Nodes that run together, in the graph's order.

    Attributes:
        nodes: the nodes.
        compiled: whether Weft runs them; PyTorch does otherwise.
    """

    nodes: tuple[fx.Node, ...]
    compiled: bool


@dataclass(frozen=True, eq=False)
class Joined:
    """A captured graph, ready to run.

    Attributes:
        run: takes the inputs, then ``weights``, one by one; gives a tuple of the results.
        weights: parameters, buffers and constants that results, PyTorch's ops or parts read.
        parts: what is compiled, in order.
        fallbacks: what is not.
    """

    run: fx.GraphModule
    weights: Sequence[Slot]
    parts: Sequence[CompiledPart]
    fallbacks: Sequence[Fallback]


def join(
    captured: Captured, imported: Imported, options: Options, *, strict: bool = False
) -> Joined:
    """Compiles what can be compiled of a graph; the rest is PyTorch's.

    Args:
        captured: functional, unless all its nodes can be imported.
        imported: what ``imported_whole`` gave.
        options: of building.
        strict: refuses what PyTorch would have to run.

    Raises:
        UserError: ``strict`` refuses; all nodes are listed.
    """
    refused = dict(imported.refused)
    while True:
        if refused and strict:
            raise strict_error(captured, refused)
        regions = partition(captured, refused)
        try:
            parts = _compiled(captured, regions, options, None if refused else imported)
        except _PartError as error:
            # Planning refused what the importer took: the part runs by PyTorch, and says so.
            refused.update(error.reasons)
            continue
        return _joined(captured, regions, parts, refused)


def imported_whole(captured: Captured) -> Imported:
    """All nodes that results depend on; ``refused`` tells which of them PyTorch must run."""
    outputs = [node for node in wanted(captured) if node.op == "call_function"]
    nodes = live(captured)
    try:
        return import_nodes(captured, nodes, outputs)
    except UserError:
        # A result that a refused node gives is no tensor of Weft.
        return import_nodes(captured, nodes, ())


def strict_error(captured: Captured, refused: Mapping[fx.Node, str]) -> UserError:
    """The error that lists what cannot be compiled."""
    listed = [str(each) for each in _fallbacks(refused)]
    return UserError(
        f"every op of {captured.name} must be supported with strict=True",
        got="; ".join(listed),
        fix="Without strict PyTorch runs these ops.",
    )


# --- what runs where ------------------------------------------------------------------------


def views_given(captured: Captured) -> dict[fx.Node, tuple[fx.Node, tuple[fx.Node, ...]]]:
    """Results that share memory with an input, a weight or another result.

    A caller who writes into one sees it in the other, so that PyTorch takes these views.

    Returns:
        By result what it is a view of, and the views on the way.
    """
    given = {result.value for result in captured.results if result.target is None}
    found = {node: views(node) for node in given if isinstance(node, fx.Node)}
    roots = Counter(root for root, _ in found.values())
    return {
        node: (root, chain)
        for node, (root, chain) in found.items()
        if chain and (root.op == "placeholder" or roots[root] > 1)
    }


def wanted(captured: Captured) -> list[fx.Node]:
    """The nodes whose values the results are, or views of."""
    taken = views_given(captured)
    values = [each.value for each in captured.results if isinstance(each.value, fx.Node)]
    return list(dict.fromkeys(taken[node][0] if node in taken else node for node in values))


def live(captured: Captured) -> list[fx.Node]:
    """The nodes that results or effects depend on, in order."""
    read = set(wanted(captured))
    found: list[fx.Node] = []
    for node in reversed(captured.graph.nodes):
        if node.op != "call_function" or node.target in _CHECKED:
            continue
        if node in read or node.is_impure():
            found.append(node)
            read.update(node.all_input_nodes)
    return found[::-1]


def partition(captured: Captured, refused: Mapping[fx.Node, str]) -> list[Region]:
    """The regions of a graph in an order in which they can run.

    Args:
        captured: the graph.
        refused: nodes that PyTorch runs.
    """
    nodes = live(captured)
    foreign = set(refused)
    for node in nodes:
        # What is taken from a node with several outputs belongs to it.
        if node.target is operator.getitem and node.args[0] in foreign:
            foreign.add(node)
    while True:
        regions = _staged(nodes, foreign)
        small = [
            region
            for region in regions
            if foreign and region.compiled and not _pays(captured, region)
        ]
        if not small:
            return regions
        foreign.update(min(small, key=lambda region: len(region.nodes)).nodes)


def _staged(nodes: Sequence[fx.Node], foreign: set[fx.Node]) -> list[Region]:
    """Alternating regions: a node's stage counts how often the longest way to it changes sides."""
    stages: dict[fx.Node, int] = {}
    effect = 0
    for node in nodes:
        own = node not in foreign
        before = [each for each in node.all_input_nodes if each in stages]
        stages[node] = max((stages[each] + (own and each in foreign) for each in before), default=0)
        if not own and node.is_impure():
            # Effects and random numbers keep their order.
            stages[node] = effect = max(stages[node], effect)
    found: list[Region] = []
    for stage in range(max(stages.values(), default=-1) + 1):
        for compiled in (True, False):
            members = tuple(
                node
                for node, number in stages.items()
                if number == stage and (node not in foreign) == compiled
            )
            if members:
                found.append(Region(members, compiled))
    return found


def _pays(captured: Captured, region: Region) -> bool:
    """Whether a part is worth a call: it has a layer with weights, or several nodes."""
    computing = [
        node for node in region.nodes if node.target is not operator.getitem and not is_view(node)
    ]
    if len(computing) >= _LEAST:
        return True
    read = (views(each)[0] for node in computing for each in node.all_input_nodes)
    slots = map(captured.slots.get, read)
    return any(slot and slot.kind == "parameter" and slot.value.dim() >= 2 for slot in slots)


def _fallbacks(refused: Mapping[fx.Node, str]) -> list[Fallback]:
    """What is told of refused nodes: not what reckons with sizes, nor checks of these."""
    found: list[Fallback] = []
    for node, reason in refused.items():
        target: Any = node.target
        name = target.name() if isinstance(target, torch._ops.OpOverload) else str(target)
        if target.__module__ == "_operator" or name.startswith(_SIZES):
            continue
        found.append(Fallback(name, reason, ", ".join(origin_of(node).sources)))
    return found


# --- building -------------------------------------------------------------------------------


class _PartError(Exception):
    """A part cannot be built; why, by node."""

    def __init__(self, region: Region, error: WeftError) -> None:
        self.reasons = dict.fromkeys(region.nodes, f"its part cannot be compiled: {error}")
        super().__init__()


def _compiled(
    captured: Captured, regions: Sequence[Region], options: Options, whole: Imported | None
) -> dict[Region, CompiledPart]:
    results = set(wanted(captured))
    alive = {node for region in regions for node in region.nodes}
    parts: dict[Region, CompiledPart] = {}
    for region in regions:
        if region.compiled:
            name = f"{identifier(captured.name)}_{len(parts)}"
            imported = whole or _imported(captured, region, results, alive, name)
            try:
                parts[region] = CompiledPart(imported, options)
            except WeftError as error:
                raise _PartError(region, error) from error
    return parts


def _imported(
    captured: Captured, region: Region, results: set[fx.Node], alive: set[fx.Node], name: str
) -> Imported:
    others = alive.difference(region.nodes)
    outputs = [node for node in region.nodes if node in results or node.users.keys() & others]
    return import_nodes(captured, region.nodes, outputs, name)


def _joined(
    captured: Captured,
    regions: Sequence[Region],
    parts: Mapping[Region, CompiledPart],
    refused: Mapping[fx.Node, str],
) -> Joined:
    read = set(wanted(captured))
    for region in regions:
        part = parts.get(region)
        read.update(part.imported.inputs if part else _arguments(region))
    weights = [slot for slot in captured.weights if slot.node in read]
    graph = fx.Graph()
    root: dict[str, Any] = {}
    made: dict[fx.Node, fx.Node] = {}
    for slot in (*captured.inputs, *weights):
        made[slot.node] = graph.placeholder(slot.node.name)
        made[slot.node].meta = dict(slot.node.meta)
    owner: Any = captured.graph.owning_module
    for node in captured.graph.nodes:
        if node.op == "get_attr" and node in read:
            made[node] = graph.node_copy(node)
            root[node.target] = getattr(owner, node.target)
    for region in regions:
        if region in parts:
            name = f"part_{len(root)}"
            root[name] = parts[region]
            _call(graph, name, parts[region].imported, made)
        else:
            for node in region.nodes:
                made[node] = graph.node_copy(node, lambda each: made[each])
    for node, (source, chain) in views_given(captured).items():
        made[node] = _taken(graph, made[source], chain)
    values = [result.value for result in captured.results]
    graph.output(tuple(made[each] if isinstance(each, fx.Node) else each for each in values))
    told = _fallbacks(refused)
    module = fx.GraphModule(root, graph, captured.name)
    return Joined(module, weights, list(parts.values()), told)


def _call(graph: fx.Graph, name: str, imported: Imported, made: dict[fx.Node, fx.Node]) -> None:
    """Calls a part with what was made before; adds what it gives."""
    given = [_as_pairs(graph, node, made[node]) for node in imported.inputs]
    outputs = graph.call_module(name, (given,))
    for place, node in enumerate(imported.outputs):
        output = graph.call_function(operator.getitem, (outputs, place))
        if gives_complex(node):
            output = graph.call_function(torch.view_as_complex, (output,))
        made[node] = output


def _as_pairs(graph: fx.Graph, node: fx.Node, value: fx.Node) -> fx.Node:
    """The value of a node as a part takes it: complex numbers as pairs."""
    if not gives_complex(node):
        return value
    plain = graph.call_function(torch.resolve_conj, (value,))
    return graph.call_function(torch.view_as_real, (plain,))


def _taken(graph: fx.Graph, value: fx.Node, chain: Sequence[fx.Node]) -> fx.Node:
    """A view of a view of a value."""
    for node in chain:
        value = graph.node_copy(node, partial(_always, value))
    return value


def _always(value: fx.Node, _: fx.Node) -> fx.Node:
    return value


def _arguments(region: Region) -> set[fx.Node]:
    return {each for node in region.nodes for each in node.all_input_nodes}
