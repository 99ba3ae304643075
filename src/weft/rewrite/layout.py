"""Change the logical layout of images: channels after batch, or at the end.

Ops that carry a layout are exchanged for those of the other; what computes place by place, or
along axes that can be renamed, is computed in the layout in which its input is.  A value is
transposed where something needs it in the layout that it is not in: at the borders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from dataclasses import replace as changed
from typing import Any

import numpy as np

from weft.errors import UserError
from weft.ir.edit import prune
from weft.ir.graph import NO_ATTRIBUTES, Graph, Node, Origin
from weft.ir.naming import fresh, type_of
from weft.ir.unknown import contiguous, is_known
from weft.ops.axis_relations import is_elementwise
from weft.ops.channels_last import LAST, to_first, to_last
from weft.ops.evaluate import call_of
from weft.ops.ordering import TransposeAttributes
from weft.ops.table import OPS
from weft.records import dataclass
from weft.rewrite.cleanups import removal
from weft.rewrite.engine import rewrite
from weft.rewrite.places import origin_of
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness

Perm = Callable[[int], tuple[int, ...]]
_BY_LINES = ("QuantizeLinear", "DequantizeLinear", "Requantize", "RequantizeWide")
"""Ops whose further inputs are one number, or one for each position along ``axis``."""
_ALONG_ONE = ("Concat", "Softmax", "LogSoftmax", "Hardmax", "Split")
"""Ops whose attribute ``axis`` names one axis."""
_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


@dataclass(frozen=True)
class Direction:
    """From one layout to the other.

    Attributes:
        name: of the recipe.
        there: the permutation to the new layout, by rank.
        back: the permutation to the old one.
        ops: the op of the new layout for each of the old.
        suffix: of values in the new layout.
    """

    name: str
    there: Perm
    back: Perm
    ops: Mapping[str, str]
    suffix: str


def relaid(graph: Graph, direction: Direction) -> Graph:
    """The graph in the other layout; the graph itself where no op carries the old one."""
    if not any(node.op in direction.ops for node in graph.nodes):
        return graph
    work = _Work(graph, direction)
    for node in graph.nodes:
        work.place(node)
    for value in graph.outputs:
        work.old(value)
    done = changed(graph, nodes=tuple(work.nodes), types=work.types, constants=work.constants)
    return rewrite(prune(done), (removal("Identity"),))[0]


@dataclass
class _Work:
    """The new graph in the making.

    Attributes:
        made: values that exist as they were.
        moved: for a value the name that it has in the new layout.
    """

    graph: Graph
    direction: Direction
    nodes: list[Node] = field(default_factory=list[Node])
    made: set[str] = field(default_factory=set[str])
    moved: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.types = {
            value: type
            for value, type in self.graph.types.items()
            if value in self.graph.inputs or value in self.graph.constants
        }
        self.constants = dict(self.graph.constants)
        self.made.update(self.types)
        self.names = {*self.graph.types, *self.graph.by_name}

    # --- values -----------------------------------------------------------------------------

    def rank(self, value: str) -> int:
        """Of a value of the old graph."""
        return len(self.graph.types[value].shape)

    def old(self, value: str) -> str:
        """The value as it was."""
        if value and value not in self.made:
            perm = self.direction.back(self.rank(value))
            self.transpose(self.moved[value], perm, value, self.origin(value))
            self.made.add(value)
        return value

    def new(self, value: str) -> str:
        """The value in the new layout."""
        if value not in self.moved:
            perm = self.direction.there(self.rank(value))
            name = self.fresh(f"{value}_{self.direction.suffix}")
            array = self.constants.get(value)
            if array is None:
                self.transpose(value, perm, name, self.origin(value))
            else:
                self.constant(name, array.transpose(perm))
            self.moved[value] = name
        return self.moved[value]

    def fresh(self, wish: str) -> str:
        name = fresh(wish, self.names)
        self.names.add(name)
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        array = contiguous(array)
        if is_known(array):
            array.flags.writeable = False
        self.constants[name] = array
        self.types[name] = type_of(array, name)
        return name

    def origin(self, value: str) -> Origin:
        maker = self.graph.producers.get(value)
        return origin_of([maker] if maker else [], self.direction.name)

    def transpose(self, value: str, perm: tuple[int, ...], output: str, origin: Origin) -> None:
        name = self.fresh(f"{output}_transpose")
        attributes = TransposeAttributes(perm)
        self.add(Node(name, "Transpose", (value,), (output,), attributes, origin))

    def add(self, node: Node) -> None:
        types = OPS[node.op].infer(call_of(node, self.types))
        for value, type in zip(node.outputs, types, strict=False):
            if value:
                self.types[value] = type
        self.nodes.append(node)

    # --- nodes ------------------------------------------------------------------------------

    def place(self, node: Node) -> None:
        """The node in the layout that suits it."""
        if node.op in self.direction.ops and not any(node.outputs[1:]):
            inputs = [self.new(node.inputs[0]), *map(self.old, node.inputs[1:])]
            self.put(node, self.direction.ops[node.op], inputs, node.attributes)
        elif node.op == "Transpose" and self.turned(node):
            return
        elif any(value in self.moved and value not in self.made for value in node.inputs):
            found = self.followed(node)
            if found is None:
                self.stay(node)
            else:
                self.put(node, node.op, *found)
        else:
            self.stay(node)

    def put(self, node: Node, op: str, inputs: Sequence[str], attributes: Any) -> None:
        """The node with all that it makes in the new layout."""
        outputs = [
            self.fresh(f"{value}_{self.direction.suffix}") if value else ""
            for value in node.outputs
        ]
        origin = origin_of([node], self.direction.name)
        self.add(Node(node.name, op, tuple(inputs), tuple(outputs), attributes, origin))
        self.moved.update(
            (value, name) for value, name in zip(node.outputs, outputs, strict=True) if value
        )

    def stay(self, node: Node) -> None:
        """The node as it was."""
        for value in node.inputs:
            self.old(value)
        self.add(node)
        self.made.update(value for value in node.outputs if value)

    def turned(self, node: Node) -> bool:
        """A Transpose from one layout to the other is a value in its other layout."""
        (source,), (output,) = node.inputs, node.outputs
        perm = tuple(node.attributes.perm or ())
        rank = self.rank(source)
        if rank < 3:
            return False
        if perm == self.direction.back(rank):
            # What the node makes is, moved, what it reads.
            self.moved[output] = self.old(source)
            return True
        if perm == self.direction.there(rank) and source in self.moved:
            self.add(
                changed(node, op="Identity", inputs=(self.moved[source],), attributes=NO_ATTRIBUTES)
            )
            self.made.add(output)
            return True
        return False

    # --- what follows its input -----------------------------------------------------------------

    def followed(self, node: Node) -> tuple[list[str], Any] | None:
        """Inputs and attributes for the new layout, where the op can follow."""
        rank = self.rank(node.outputs[0]) if node.outputs[0] else 0
        if rank < 3:
            return None
        there = self.direction.there(rank)
        if node.op in _BY_LINES and all(self.rank(value) < 2 for value in node.inputs[1:] if value):
            axis = there.index(node.attributes.axis % rank)
            inputs = [self.new(node.inputs[0]), *map(self.old, node.inputs[1:])]
            return inputs, changed(node.attributes, axis=axis)
        if is_elementwise(call_of(node, self.graph.types)):
            inputs = [self.operand(value, rank) for value in node.inputs]
            known = [value for value in inputs if value is not None]
            if len(known) < len(inputs) or not self.follows(node, known):
                return None
            return known, node.attributes
        if node.op in _ALONG_ONE and all(self.rank(value) == rank for value in node.inputs):
            axis = there.index(node.attributes.axis % rank)
            return [self.new(v) for v in node.inputs], changed(node.attributes, axis=axis)
        if self.rank(node.inputs[0]) != rank:
            return None
        attributes = _renamed(node, there)
        if attributes is None:
            return None
        return [self.new(node.inputs[0]), *map(self.old, node.inputs[1:])], attributes

    def follows(self, node: Node, inputs: Sequence[str]) -> bool:
        """Whether an element-wise node is that in the new layout, too.

        Attributes may give a shape, which an input may have in the old layout only.
        """
        try:
            return is_elementwise(call_of(changed(node, inputs=tuple(inputs)), self.types))
        except UserError:
            return False

    def operand(self, value: str, rank: int) -> str | None:
        """An operand that is broadcast, in the new layout."""
        if not value or self.graph.types[value].shape == ():
            return self.old(value)
        if self.rank(value) == rank:
            return self.new(value)
        array = self.constants.get(value)
        if array is None:
            return None
        whole = array.reshape((1,) * (rank - array.ndim) + array.shape)
        name = self.fresh(f"{value}_{self.direction.suffix}")
        return self.constant(name, whole.transpose(self.direction.there(rank)))


def _renamed(node: Node, there: tuple[int, ...]) -> Any | None:
    """Attributes whose axes are those of the new layout, where the op is known."""
    rank, given = len(there), node.attributes
    if node.op in _REDUCTIONS and given.axes and given.keepdims:
        return changed(given, axes=tuple(sorted(there.index(axis % rank) for axis in given.axes)))
    if node.op == "Slice":
        axes = tuple(range(len(given.starts))) if given.axes is None else given.axes
        return changed(given, axes=tuple(there.index(axis % rank) for axis in axes))
    if node.op == "Pad":
        before, after = given.pads[:rank], given.pads[rank:]
        pads = (*(before[axis] for axis in there), *(after[axis] for axis in there))
        return changed(given, pads=pads)
    return None


TO_LAST = Direction("channels-last", to_last, to_first, LAST, "last")
TO_FIRST = Direction(
    "channels-first", to_first, to_last, {new: old for old, new in LAST.items()}, "first"
)


def first_of(graph: Graph, values: Iterable[str]) -> dict[str, str]:
    """The values of a graph that values of its ``relaid`` form are with the channels first."""
    ending = f"_{TO_FIRST.suffix}"
    pairs = {value: value.removesuffix(ending) for value in values if value.endswith(ending)}
    return {
        value: last
        for value, last in pairs.items()
        if value not in graph.types and last in graph.types and len(graph.types[last].shape) > 2
    }


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "channels-last",
        "Images become `[batch, height, width, channels]` (NHWC): convolutions, pools and "
        "normalizations become the ops whose channels are last, what lies between follows, and "
        "transposes stand only where a value is needed as it was: at the graph's inputs and "
        "outputs and at ops that know one layout only. Transposes from one layout to the other "
        "that were there go.",
        Exactness.BIT_EXACT,
        lambda graph, _: relaid(graph, TO_LAST),
    ),
    Recipe(
        "channels-first",
        "The way back from `channels-last`: images become `[batch, channels, height, width]` "
        "(NCHW).",
        Exactness.BIT_EXACT,
        lambda graph, _: relaid(graph, TO_FIRST),
    ),
)
