"""Recipes that store values in half precision and compute in single precision.

A stored value is ``Cast(to=bfloat16)``, and whatever reads it reads ``Cast(to=float32)`` of that;
weights are constants of bfloat16 with a Cast behind them.  Layers stay layers of float32: sums,
biases, residuals and activations of one fused group are not rounded, only what it stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from functools import partial
from typing import Literal

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.errors import UserError, nearest_or_all
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node, Origin
from weft.ir.unknown import is_known
from weft.match.compile import compile_rule
from weft.match.matcher import matches_at
from weft.match.view import GraphView
from weft.ops.axis_relations import is_elementwise, moves
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.evaluate import call_of
from weft.ops.quantizable import takes_weight
from weft.ops.record import Control, Extern
from weft.ops.table import OPS
from weft.records import dataclass
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness

HALVES = {each.full_name: each for each in (DType.BF16, DType.F16)}
"""The types that values may be stored in, by name."""


_ATTENTION = "weights = Softmax(scores) [users=1]\ny = MatMul(weights, values)"


@dataclass(frozen=True)
class HalfPrecisionParameters:
    """Of ``bfloat16`` and ``float16``."""

    keep: tuple[str, ...] = parameter(
        "layers that stay in float32: names of nodes, or of layers that they were made of", ()
    )
    values: Literal["all", "weights", "activations"] = parameter(
        "what is rounded: weights of convolutions and matrix products, values between layers, "
        "or both",
        "all",
    )


# --- which values are stored ------------------------------------------------------------------


@dataclass(frozen=True)
class HalfSites:
    """Which values of a graph are stored between its layers, and which constants are weights.

    Attributes:
        graph: a simplified graph.
        kept: names of the nodes that stay in float32.
    """

    graph: Graph
    kept: frozenset[str]

    @cached_property
    def position(self) -> dict[str, int]:
        """Where each node stands, by its name."""
        return {node.name: place for place, node in enumerate(self.graph.nodes)}

    @cached_property
    def elementwise(self) -> frozenset[str]:
        """Names of nodes that compute point by point."""
        nodes, types = self.graph.nodes, self.graph.types
        found = {node.name for node in nodes if is_elementwise(call_of(node, types))}
        return frozenset(found - self.moving)

    @cached_property
    def moving(self) -> frozenset[str]:
        """Names of nodes that only move elements."""
        return frozenset(node.name for node in self.graph.nodes if self._moves(node))

    def _moves(self, node: Node) -> bool:
        graph = self.graph
        known = [place for place, v in enumerate(node.inputs) if v in graph.constants]
        if isinstance(OPS[node.op].compute, Extern | Control):
            return False
        return node.op == "Concat" or moves(call_of(node, graph.types), known)

    @cached_property
    def attention(self) -> frozenset[str]:
        """Scores and weights of attention, which one kernel computes and never stores."""
        view, program = GraphView(self.graph), compile_rule(_ATTENTION)
        return frozenset(
            match[name]
            for node in self.graph.nodes
            for match in matches_at(program, node, view)
            for name in ("scores", "weights")
        )

    def rides(self, value: str) -> Node | None:
        """The one node that computes on with a value before anything is stored."""
        graph = self.graph
        users = graph.users[value]
        if len(users) != 1 or value in graph.outputs or users[0].name not in self.elementwise:
            return None
        (user,) = users
        return user if graph.types[value].shape == graph.types[user.outputs[0]].shape else None

    @cached_property
    def anchors(self) -> dict[str, int]:
        """By value, where the layer stands whose sums it is computed from unrounded; -1 if none."""
        found: dict[str, int] = {}
        for node in self.graph.nodes:
            place = self.position[node.name]
            if node.name in self.elementwise:
                place = max((found.get(v, -1) for v in node.reads if self.rides(v)), default=-1)
            elif node.name in self.moving:
                place = -1
            found.update((value, place) for value in node.outputs if value)
        return found

    def layer_of(self, value: str) -> Node:
        """The layer whose sums a value is computed from unrounded, or the node that makes it."""
        place = self.anchors[value]
        return self.graph.nodes[place] if place >= 0 else self.graph.producers[value]

    def is_stored(self, value: str) -> bool:
        """Whether a computed value is rounded."""
        graph = self.graph
        maker = graph.producers[value]
        users = graph.users[value]
        if value in self.attention:
            return False
        if graph.types[value].dtype is not DType.F32 or self.is_given(value) or not users:
            return False
        if {maker.name, self.layer_of(value).name} & self.kept or isinstance(
            OPS[maker.op].compute, Extern | Control
        ):
            return False
        if all(isinstance(OPS[user.op].compute, Extern | Control) for user in users):
            return False
        user = self.rides(value)
        if user is None:
            return self._is_worth(value)
        # Of several layers whose sums meet, the last one goes on with them.
        anchor = self.anchors[value]
        return any(self.anchors.get(v, -1) > anchor >= 0 for v in user.reads if self.rides(v))

    def is_given(self, value: str) -> bool:
        """Whether a value is an output, or elements of one and nothing else."""
        users = self.graph.users[value]
        return value in self.graph.outputs or all(
            user.name in self.moving and all(map(self.is_given, filter(None, user.outputs)))
            for user in users
        )

    def _is_worth(self, value: str) -> bool:
        """Whether it is more than a few numbers that a larger value is multiplied by or so."""
        graph = self.graph
        return any(
            user.name not in self.elementwise
            or graph.types[user.outputs[0]].shape == graph.types[value].shape
            for user in graph.users[value]
        )

    def feeds_product(self, value: str) -> bool:
        """Whether a product that is not kept reads a value, maybe moved."""
        return any(
            value in user.inputs[:2] and user.name not in self.kept
            if takes_weight(user.op)
            else user.name in self.moving and any(map(self.feeds_product, user.outputs))
            for user in self.graph.users[value]
        )

    def is_weight(self, node: Node, place: int) -> bool:
        """Whether an input is a constant factor of a layer that is not kept."""
        value = node.inputs[place]
        return (
            value in self.graph.constants
            and takes_weight(node.op)
            and place < 2
            and len(self.graph.types[value].shape) > 1
            and self.graph.types[value].dtype is DType.F32
            and node.name not in self.kept
        )


# --- casts --------------------------------------------------------------------------------------


class _Narrowing:
    """Builds the graph anew, node by node."""

    def __init__(
        self, graph: Graph, given: HalfPrecisionParameters, kept: frozenset[str], dtype: DType
    ) -> None:
        self.graph, self.given, self.kept, self.dtype = graph, given, kept, dtype
        self.sites = HalfSites(graph, kept)
        self.builder = GraphBuilder(OPS, graph.name, [node.name for node in graph.nodes])
        self.narrow: dict[str, str] = {}
        """By value of float32 its twin in half precision."""
        self.wide: dict[str, str] = {}
        """By value what stands for it where float32 is read."""
        for value, type in graph.types.items():
            self.builder.declare(value, type, graph.constants.get(value))

    def run(self) -> Graph:
        graph, builder = self.graph, self.builder
        self._round_inputs()
        for node in graph.nodes:
            self._add(node)
        if not self.narrow:
            return graph
        made = {value for node in builder.nodes for value in node.outputs}
        alive = {*graph.inputs, *builder.constants, *made}
        done = changed(
            graph,
            nodes=tuple(builder.nodes),
            types={value: type for value, type in builder.types.items() if value in alive},
            constants=builder.constants,
        )
        return changed(prune(done), history=graph.history)

    def _round_inputs(self) -> None:
        if self.given.values == "weights":
            return
        for value in self.graph.inputs:
            if self.graph.types[value].dtype is DType.F32 and self.sites.feeds_product(value):
                self.narrow[value] = self._cast(value, self.dtype, f"{value}_narrow")

    def _cast(self, value: str, to: DType, wish: str) -> str:
        return self.builder.op("Cast", value, attributes=CastAttributes(to), output=wish)

    def _add(self, node: Node) -> None:
        builder = self.builder
        builder.origin = node.origin if node.origin.sources else Origin((node.name,))
        if node.name in self.sites.moving and self._move(node):
            return
        inputs = tuple(self._read(node, place) for place in range(len(node.inputs)))
        builder.nodes.append(changed(node, inputs=inputs))
        if self.given.values != "weights":
            for value in filter(None, node.outputs):
                if self.sites.is_stored(value):
                    self.narrow[value] = self._cast(value, self.dtype, f"{value}_narrow")

    def _move(self, node: Node) -> bool:
        """A node that moves values in half precision moves their halves."""
        builder, types, constants = self.builder, self.graph.types, self.graph.constants
        floats = [v for v in node.reads if types[v].dtype is DType.F32 and v not in constants]
        if not floats or any(value not in self.narrow for value in floats):
            return False
        inputs = [self.narrow.get(v) or self._constant(v) if v else "" for v in node.inputs]
        wishes = [f"{value}_narrow" if value else "" for value in node.outputs]
        made = builder.nodes_of(node.op, inputs, node.attributes, outputs=wishes)
        builder.nodes[-1] = changed(builder.nodes[-1], name=node.name)
        for value, twin in zip(node.outputs, made, strict=True):
            if value in self.graph.outputs:
                name, wide = builder.fresh(f"{value}_wide"), CastAttributes(DType.F32)
                builder.nodes.append(Node(name, "Cast", (twin,), (value,), wide, builder.origin))
            if value:
                self.narrow[value] = twin
        return True

    def _constant(self, value: str) -> str:
        """A constant of float32 in half precision; others as they are."""
        if self.graph.types[value].dtype is not DType.F32:
            return value
        if value not in self.narrow:
            array, wish = self.graph.constants[value], f"{value}_narrow"
            if is_known(array):
                with np.errstate(over="ignore"):  # float16 ends early: infinity
                    self.narrow[value] = self.builder.constant(array.astype(self.dtype.numpy), wish)
            else:
                self.narrow[value] = self._cast(value, self.dtype, wish)
        return self.narrow[value]

    def _read(self, node: Node, place: int) -> str:
        """What a node reads in place of one of its inputs."""
        value = node.inputs[place]
        if self.given.values != "activations" and self.sites.is_weight(node, place):
            self._constant(value)
        elif value not in self.narrow or value in self.graph.constants:
            return value
        if value not in self.wide:
            self.wide[value] = self._cast(self.narrow[value], DType.F32, f"{value}_wide")
        return self.wide[value]


class _Moving(_Narrowing):
    """Moves halves where what was read as float32 is moved; rounds nothing."""

    def _round_inputs(self) -> None:
        pass

    def _add(self, node: Node) -> None:
        types = self.graph.types
        self.builder.origin = node.origin
        if node.name in self.sites.moving and self._move(node):
            return
        inputs = tuple(self._read(node, place) for place in range(len(node.inputs)))
        self.builder.nodes.append(changed(node, inputs=inputs))
        if node.op == "Cast":
            (value,), (read,) = node.outputs, node.inputs
            if (types[read].dtype, types[value].dtype) == (self.dtype, DType.F32):
                self.narrow[value], self.wide[value] = read, value


def kept_nodes(graph: Graph, names: Sequence[str]) -> frozenset[str]:
    """The nodes that are named, or made of what is named."""
    found = {
        node.name
        for node in graph.nodes
        if node.name in names or any(each in names for each in node.origin.sources)
    }
    known = dict.fromkeys(
        each for node in graph.nodes for each in (node.name, *node.origin.sources)
    )
    for name in names:
        if name not in known:
            rule = "a layer to keep in float32 must be one of the graph's nodes"
            raise UserError(rule, got=name, fix=nearest_or_all(name, known))
    return frozenset(found)


def _apply(dtype: DType, graph: Graph, given: HalfPrecisionParameters) -> Graph:
    return _Narrowing(graph, given, kept_nodes(graph, given.keep), dtype).run()


def narrowed(graph: Graph, precision: str, keep: Sequence[str] = ()) -> Graph:
    """The graph with its stored values and weights in a precision.

    Args:
        graph: a simplified graph.
        precision: ``float32``, ``bfloat16`` or ``float16``.
        keep: layers that stay in float32.

    Raises:
        UserError: there is no layer of a name.
    """
    if precision == DType.F32.full_name:
        return graph
    return _apply(HALVES[precision], graph, HalfPrecisionParameters(tuple(keep)))


def moving_halves(graph: Graph, precision: str) -> Graph:
    """The graph with what moves elements before they are read as float32, not behind.

    So it must be again once composite ops are expanded, which move what they read.
    """
    if precision == DType.F32.full_name:
        return graph
    given = HalfPrecisionParameters(values="activations")
    return _Moving(graph, given, frozenset(), HALVES[precision]).run()


_DOC = (
    "Values between layers, and the weights of convolutions and matrix products, are stored in "
    "{0} and read as float32; layers compute in float32 and round what they store, to nearest, "
    "ties to even. What only moves elements moves {0}. Inputs and outputs of the graph keep their "
    "types; bodies of control flow, and what C bodies compute, stay in float32."
)

RECIPES: tuple[Recipe, ...] = tuple(
    Recipe(
        name,
        _DOC.format(name),
        Exactness.APPROXIMATE,
        partial(_apply, dtype),
        HalfPrecisionParameters,
    )
    for name, dtype in HALVES.items()
)
