"""Take positions out of a graph, or multiply them by zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from weft.cached import cached_property
from weft.compress.families import Analysis
from weft.errors import InternalError, UserError
from weft.ir.edit import prune, read_only
from weft.ir.graph import Graph, Node, Origin, noted
from weft.ir.naming import fresh, type_of
from weft.ir.order import topological
from weft.ir.types import Symbol, TensorType
from weft.ops.axis_relations import groups
from weft.ops.channels_last import channel_axis
from weft.ops.evaluate import call_of
from weft.ops.slicing import slice_ranges, split_lengths
from weft.ops.support import axis_of
from weft.ops.table import OPS
from weft.records import dataclass


@dataclass(frozen=True)
class Removal:
    """Slots that go.

    Attributes:
        analysis: of the graph.
        gone: the labels that stand for them.
    """

    analysis: Analysis
    gone: frozenset[int]

    @cached_property
    def stays(self) -> np.ndarray:
        """For every label whether its positions stay."""
        return ~np.isin(self.analysis.roots, list(self.gone))

    def keep(self, labels: np.ndarray) -> np.ndarray:
        """Which positions stay."""
        return self.stays[labels]

    def kept(self, value: str) -> list[np.ndarray | None]:
        """Which positions of a value stay, by axis; ``None`` for all of them."""
        labelling = self.analysis.labelling
        if value in labelling.graph.constants:
            known = labelling.constants.get(value, {})
            rank = len(labelling.graph.types[value].shape)
            axes = [known.get(axis) for axis in range(rank)]
        else:
            axes = labelling.values[value]
        return [None if labels is None else self.keep(labels) for labels in axes]

    def shape(self, value: str) -> tuple[int | Symbol, ...]:
        """The shape of a value afterwards."""
        dims = self.analysis.graph.types[value].shape
        return tuple(
            dim if keep is None else int(keep.sum())
            for dim, keep in zip(dims, self.kept(value), strict=True)
        )


def leave_some(analysis: Analysis, gone: set[int], worth: Mapping[int, float]) -> None:
    """Let no axis become empty: put back what is worth most where one would.

    Args:
        analysis: of the graph.
        gone: labels of slots that go; changed.
        worth: of each of them.
    """
    labelling = analysis.labelling
    values = [labels for axes in labelling.values.values() for labels in axes]
    values += [labels for axes in labelling.constants.values() for labels in axes.values()]
    unique = {id(labels): labels for labels in values if labels is not None and len(labels)}
    for labels in unique.values():
        roots = set(analysis.roots[labels].tolist())
        if roots <= gone:
            gone.discard(max(sorted(roots), key=lambda root: worth[root]))


# --- taking out -----------------------------------------------------------------------------


def shrunk(removal: Removal) -> Graph:
    """The graph without the positions: smaller weights, attributes that fit, new types."""
    graph = removal.analysis.graph
    extra: dict[str, np.ndarray] = {}
    nodes = [_fitted(removal, node, extra) for node in graph.nodes]
    constants = {name: _without(removal, name) for name in graph.constants}
    constants.update({name: read_only(array) for name, array in extra.items()})
    types = {value: graph.types[value] for value in graph.inputs}
    types.update({name: type_of(array, name) for name, array in constants.items()})
    for node in nodes:
        types.update(_inferred(removal, node, types))
    small = changed(graph, nodes=tuple(nodes), constants=constants, types=types)
    return prune(_shared_again(small, removal))


def _without(removal: Removal, name: str) -> np.ndarray:
    array = whole = removal.analysis.graph.constants[name]
    for axis, keep in enumerate(removal.kept(name)):
        if keep is not None and not keep.all():
            array = np.compress(keep, array, axis)
    return whole if array is whole else read_only(np.ascontiguousarray(array))


def _inferred(
    removal: Removal, node: Node, types: Mapping[str, TensorType]
) -> dict[str, TensorType]:
    try:
        made = OPS[node.op].infer(call_of(node, types))
    except UserError as error:
        raise InternalError(
            f"pruning left {node.op} {node.name} without a type: {error}"
        ) from error
    found = {value: type for value, type in zip(node.outputs, made, strict=False) if value}
    for value, type in found.items():
        if type.shape != removal.shape(value):
            raise InternalError(
                f"pruning makes {value} {type}, its labels say {removal.shape(value)}"
            )
    return found


def _shared_again(graph: Graph, removal: Removal) -> Graph:
    """Constants that were copied and stayed as they were are one again."""
    before = removal.analysis.graph.constants
    back = {
        copy: name
        for copy, name in removal.analysis.copies.items()
        if graph.constants[copy] is before[copy] and graph.constants[name] is before[name]
    }
    nodes = tuple(
        changed(node, inputs=tuple(back.get(value, value) for value in node.inputs))
        for node in graph.nodes
    )
    return changed(graph, nodes=nodes)


# --- attributes that say sizes ----------------------------------------------------------------

Fit: TypeAlias = Callable[[Removal, Node, dict[str, np.ndarray]], Node]


def _fitted(removal: Removal, node: Node, extra: dict[str, np.ndarray]) -> Node:
    fit = _FITS.get(node.op)
    node = _groups(removal, node)
    return node if fit is None else fit(removal, node, extra)


def _with(node: Node, **attributes: Any) -> Node:
    return changed(node, attributes=changed(node.attributes, **attributes))


def _length(removal: Removal, value: str, axis: int) -> int:
    dim = removal.shape(value)[axis]
    if isinstance(dim, Symbol):
        raise InternalError(f"axis {axis} of {value} has no known length")
    return dim


def _groups(removal: Removal, node: Node) -> Node:
    """As many groups as there are channels for, if they are not smaller now."""
    if getattr(node.attributes, "groups", 1) == 1:
        return node
    types = removal.analysis.graph.types
    call = call_of(node, types)
    found, axis = groups(call), channel_axis(call)
    channels, before = _length(removal, node.inputs[0], axis), types[node.inputs[0]].shape[axis]
    assert isinstance(before, int)
    if found is not None and found.inside:
        position, inner = found.inside[0]
        return _with(node, groups=channels // _length(removal, node.inputs[position], inner))
    return _with(node, groups=channels * node.attributes.groups // before)


def _reshape(removal: Removal, node: Node, _: dict[str, np.ndarray]) -> Node:
    shape = removal.shape(node.outputs[0])
    # A zero copies the batch, which is the only axis of unknown length.
    wanted = tuple(0 if isinstance(dim, Symbol) else dim for dim in shape)
    same = shape == removal.analysis.graph.types[node.outputs[0]].shape
    return node if same else _with(node, shape=wanted, allowzero=0)


def _split(removal: Removal, node: Node, _: dict[str, np.ndarray]) -> Node:
    axis, lengths = split_lengths(call_of(node, removal.analysis.graph.types))
    keep = removal.kept(node.inputs[0])[axis]
    assert keep is not None
    parts = np.split(keep, np.cumsum(lengths)[:-1])
    return _with(node, split=tuple(int(part.sum()) for part in parts), num_outputs=None)


def _slice(removal: Removal, node: Node, _: dict[str, np.ndarray]) -> Node:
    """The same elements as before: those of each step, wherever they are now."""
    keeps = removal.kept(node.inputs[0])
    ranges = slice_ranges(call_of(node, removal.analysis.graph.types))
    changes = {axis: keep for axis, keep in enumerate(keeps) if keep is not None and not keep.all()}
    if not changes:
        return node
    starts, ends, axes, steps = _whole_slice(node, len(keeps))
    for axis, keep in changes.items():
        start, step, length = ranges[axis]
        assert isinstance(length, int)
        places = start + step * np.arange(length)
        now = (np.cumsum(keep) - 1)[places[keep[places]]].tolist()
        starts[axis], ends[axis], steps[axis] = _arithmetic(node, now)
    order = sorted(axes)
    return _with(
        node,
        starts=tuple(starts[axis] for axis in order),
        ends=tuple(ends[axis] for axis in order),
        axes=tuple(order),
        steps=tuple(steps[axis] for axis in order),
    )


def _whole_slice(
    node: Node, rank: int
) -> tuple[dict[int, int], dict[int, int], set[int], dict[int, int]]:
    asked = node.attributes
    count = len(asked.starts)
    axes = [axis % rank for axis in (range(count) if asked.axes is None else asked.axes)]
    steps = asked.steps or (1,) * count
    return (
        dict(zip(axes, asked.starts, strict=True)),
        dict(zip(axes, asked.ends, strict=True)),
        set(axes),
        dict(zip(axes, steps, strict=True)),
    )


def _arithmetic(node: Node, places: list[int]) -> tuple[int, int, int]:
    """Start, end and step of a slice that picks these places."""
    if not places:
        return 0, 0, 1
    step = places[1] - places[0] if len(places) > 1 else 1
    if any(right - left != step for left, right in pairwise(places)):
        raise UserError(
            "prune: a slice with steps must pick evenly from what stays",
            got=f"{places[:8]}",
            where=f"node {node.name}",
            fix="Protect the layers before it with `protect`.",
        )
    end = places[-1] + (1 if step > 0 else -1)
    # Before the first place there is no number that does not count from the end.
    return places[0], end if end >= 0 else -(2**31), step


def _gather(removal: Removal, node: Node, extra: dict[str, np.ndarray]) -> Node:
    graph = removal.analysis.graph
    axis = axis_of(
        call_of(node, graph.types), node.attributes.axis, len(graph.types[node.inputs[0]].shape)
    )
    keep = removal.kept(node.inputs[0])[axis]
    indices = graph.constants.get(node.inputs[1])
    if keep is None or keep.all() or indices is None:
        return node
    # A scalar index pins its axis, so these are a row of numbers.
    now = (np.cumsum(keep) - 1)[indices[keep[indices]]].astype(indices.dtype)
    name = fresh(f"{node.inputs[1]}_kept", {**graph.types, **extra})
    extra[name] = now
    return changed(node, inputs=(node.inputs[0], name))


def _expand(removal: Removal, node: Node, _: dict[str, np.ndarray]) -> Node:
    source = removal.shape(node.inputs[0])
    made = removal.shape(node.outputs[0])
    wanted = list(made)
    for axis, dim in enumerate(source):
        place = len(made) - len(source) + axis
        wanted[place] = 1 if dim == made[place] else made[place]
    return _with(node, shape=tuple(wanted))


def _resize(removal: Removal, node: Node, _: dict[str, np.ndarray]) -> Node:
    a = node.attributes
    if a.sizes is None:
        return node
    made = removal.shape(node.outputs[0])
    axes = range(len(made)) if a.axes is None else a.axes
    sizes = tuple(
        dim if isinstance(dim := made[axis], int) else size
        for axis, size in zip(axes, a.sizes, strict=True)
    )
    return _with(node, sizes=sizes)


def _heads(removal: Removal, node: Node, _: dict[str, np.ndarray]) -> Node:
    graph, a = removal.analysis.graph, node.attributes
    if len(graph.types[node.inputs[0]].shape) == 4:
        return node

    def now(value: str, count: int) -> int:
        return count * _length(removal, value, 2) // graph.types[value].dims[2]

    return _with(
        node,
        q_num_heads=now(node.inputs[0], a.q_num_heads),
        kv_num_heads=now(node.inputs[1], a.kv_num_heads),
    )


def _hidden(removal: Removal, node: Node, _: dict[str, np.ndarray]) -> Node:
    if not node.attributes.hidden_size:
        return node
    return _with(node, hidden_size=_length(removal, node.inputs[2], 2))


_FITS: Mapping[str, Fit] = {
    "Reshape": _reshape,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Expand": _expand,
    "Resize": _resize,
    "Attention": _heads,
    "LSTM": _hidden,
    "GRU": _hidden,
    "RNN": _hidden,
}


# --- multiplying by zero ------------------------------------------------------------------------


def masked(removal: Removal) -> Graph:
    """The graph in its old size, in which layers that sum find zeros where positions went.

    Up to rounding it computes what the smaller graph does: a check, and what is trained further.
    """
    graph = removal.analysis.graph
    nodes = {node.name: node for node in graph.nodes}
    constants, types = dict(graph.constants), dict(graph.types)
    count = 0
    for cut in removal.analysis.labelling.slots.cuts:
        keep = removal.keep(cut.labels)
        if keep.all():
            continue
        node = nodes[cut.node]
        value = node.inputs[cut.position]
        if not types[value].dtype.is_float:
            raise UserError(
                "prune: masked multiplies by zero, which integers with a zero point are not",
                got=f"{value}: {types[value]}",
                where=f"node {node.name}",
                fix="Leave out masked, or protect the layers before it with `protect`.",
            )
        mask, output = fresh(f"{value}_mask", types), fresh(f"{value}_masked", types)
        shape = [1] * len(types[value].shape)
        shape[cut.axis] = len(keep)
        constants[mask] = read_only(keep.reshape(shape).astype(types[value].dtype.numpy))
        types[mask] = type_of(constants[mask], mask)
        types[output] = types[value]
        name = fresh(f"{cut.node}_mask_{cut.position}", nodes)
        inputs = list(node.inputs)
        inputs[cut.position] = output
        nodes[cut.node] = changed(node, inputs=tuple(inputs))
        nodes[name] = Node(name, "Mul", (value, mask), (output,), origin=Origin((), ("prune",)))
        count += 1
    done = changed(graph, nodes=topological(list(nodes.values())), constants=constants, types=types)
    return noted(done, "mask", f"{count} inputs of layers")
