"""A small graph for every recipe, and what is made of it: shared weights, more readers, ReLU6."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed

from tests.rewrite.checks import graph_of
from weft.dtypes import DType
from weft.ir.graph import NO_ATTRIBUTES, Graph, Node
from weft.ir.naming import making, reading
from weft.ir.order import topological
from weft.ops.arithmetic import ClipAttributes
from weft.ops.cast import CastAttributes

Values = Mapping[str, object]


@dataclass(frozen=True)
class Case:
    """A graph on which a recipe has something to do.

    Attributes:
        text: of the graph.
        values: of the recipe's parameters.
        stays: variants of the graph that the recipe must leave as they are, or refuse.
    """

    text: str
    values: Values = field(default_factory=dict[str, object])
    stays: tuple[str, ...] = ()


CONV = """(%x: f32[2,3,5,6]) -> (%y) {
  const %w: f32[4,3,3,3]
  const %b: f32[4]
  const %v: f32[6,4,1,1]
  %c: f32[2,4,5,6] = Conv(%x, %w, %b) {pads=(1,1,1,1)}
  %r: f32[2,4,5,6] = Relu(%c)
  %y: f32[2,6,5,6] = Conv(%r, %v)
}"""
DENSE = """(%x: f32[5,6]) -> (%y) {
  const %w: f32[6,8]
  const %v: f32[8,4]
  %m: f32[5,8] = MatMul(%x, %w)
  %r: f32[5,8] = Relu(%m)
  %y: f32[5,4] = MatMul(%r, %v)
}"""
NORM = """(%x: f32[2,3,5,6]) -> (%y) {
  const %w: f32[4,3,3,3]
  const %s: f32[4]
  const %b: f32[4]
  const %m: f32[4]
  const %v: f32[4]
  %c: f32[2,4,3,4] = Conv(%x, %w)
  %n: f32[2,4,3,4] = BatchNormalization(%c, %s, %b, %m, %v)
  %y: f32[2,4,3,4] = Neg(%n)
}"""
BEHIND = ("consumed", "outputs")
"""Where what a layer makes is needed as it was, nothing behind it can go into it."""

CASES: Mapping[str, Case] = {
    "simplify": Case(NORM),
    "fuse-batch-norm": Case(NORM, stays=BEHIND),
    "fuse-matmul-add": Case(
        """(%x: f32[5,6]) -> (%y) {
          const %w: f32[6,8]
          const %b: f32[8]
          %m: f32[5,8] = MatMul(%x, %w)
          %y: f32[5,8] = Add(%m, %b)
        }""",
        stays=BEHIND,
    ),
    "remove-flatten": Case(
        """(%x: f32[2,3,5,6]) -> (%y) {
          %g: f32[2,3,1,1] = GlobalAveragePool(%x)
          %y: f32[2,3] = Flatten(%g)
        }""",
        stays=BEHIND,
    ),
    "remove-dropout": Case(
        """(%x: f32[2,3]) -> (%y) {
          %d: f32[2,3] = Dropout(%x)
          %r: f32[2,3] = Sigmoid(%d)
          %y: f32[2,3] = Dropout(%r)
        }"""
    ),
    "remove-identity": Case(
        """(%x: f32[2,3]) -> (%y) {
          %d: f32[2,3] = Identity(%x)
          %r: f32[2,3] = Sigmoid(%d)
          %y: f32[2,3] = Identity(%r)
        }""",
        stays=("outputs",),
    ),
    "remove-no-ops": Case(
        """(%x: f32[2,3]) -> (%y) {
          const %one: f32[] = [1.0]
          const %zero: f32[3] = [0.0, 0.0, 0.0]
          %d: f32[2,3] = Reshape(%x) {shape=(2,3)}
          %m: f32[2,3] = Mul(%d, %one)
          %r: f32[2,3] = Sigmoid(%m)
          %y: f32[2,3] = Add(%r, %zero)
        }"""
    ),
    "fold-constants": Case(
        """(%x: f32[2,3]) -> (%y) {
          const %p: f32[2,3]
          const %q: f32[2,3]
          %s: f32[2,3] = Mul(%p, %q)
          %t: f32[2,3] = Neg(%s)
          %y: f32[2,3] = Add(%x, %t)
        }"""
    ),
    "share-constants": Case(
        """(%x: f32[2,3]) -> (%y) {
          const %p: f32[3] = [1.0, 2.0, 3.0]
          const %q: f32[3] = [1.0, 2.0, 3.0]
          %s: f32[2,3] = Mul(%x, %p)
          %y: f32[2,3] = Add(%s, %q)
        }"""
    ),
    "share-nodes": Case(
        """(%x: f32[2,3]) -> (%y) {
          const %w: f32[3,4]
          %p: f32[2,4] = MatMul(%x, %w)
          %q: f32[2,4] = MatMul(%x, %w)
          %r: f32[2,4] = Sigmoid(%q)
          %y: f32[2,4] = Mul(%p, %r)
        }"""
    ),
    "remove-unused": Case(
        """(%x: f32[2,3]) -> (%y) {
          const %w: f32[3,4]
          %p: f32[2,4] = MatMul(%x, %w)
          %y: f32[2,3] = Relu(%x)
        }""",
        stays=BEHIND,
    ),
    "expand-composites": Case(
        """(%x: f32[2,3,8]) -> (%y) {
          const %s: f32[8]
          const %b: f32[8]
          %n: f32[2,3,8] = LayerNormalization(%x, %s, %b) {axis=-1}
          %g: f32[2,3,8] = Gelu(%n)
          %y: f32[2,3,8] = Softmax(%g) {axis=-1}
        }"""
    ),
    "form-composites": Case(
        """(%x: f32[2,3,8]) -> (%y) {
          %s: f32[2,3,8] = Sigmoid(%x)
          %y: f32[2,3,8] = Mul(%s, %x)
        }"""
    ),
    "tile-conv": Case(CONV, {"axis": "2", "sizes": (1, 3, 1)}),
    "tile-matmul": Case(DENSE, {"axis": "columns", "size": 3}),
    "tile-chain": Case(
        CONV, {"first": "c", "last": "y", "axes": (2, 3), "parts": (2, 3)}, stays=BEHIND
    ),
    "conv-to-matmul": Case(CONV),
    "explicit-transposes": Case(
        """(%x: f32[5,6]) -> (%y) {
          const %w: f32[8,6]
          const %b: f32[8]
          %g: f32[5,8] = Gemm(%x, %w, %b) {transB=1}
          %r: f32[5,8] = Relu(%g)
          %y: f32[8,8] = Gemm(%r, %g) {transA=1}
        }"""
    ),
    "explicit-casts": Case(
        """(%x: f16[2,3,5,6]) -> (%y) {
          const %w: f16[4,3,3,3]
          %c: f16[2,4,3,4] = Conv(%x, %w)
          %y: f16[2,4,3,4] = Sigmoid(%c)
        }"""
    ),
    "explicit-quantizers": Case(
        """(%x: u8[2,3,5,6]) -> (%y) {
          const %xs: f32[] = [0.0625]
          const %xz: u8[] = [128]
          const %ws: f32[] = [0.25]
          const %wz: i8[] = [0]
          const %w: i8[4,3,3,3]
          const %ys: f32[] = [0.5]
          %q: u8[2,4,3,4] = QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %xz)
          %y: f32[2,4,3,4] = DequantizeLinear(%q, %ys, %xz)
        }"""
    ),
    "channels-last": Case(CONV),
    "channels-first": Case(
        """(%x: f32[2,5,6,3]) -> (%y) {
          const %w: f32[4,3,3,3]
          const %v: f32[6,4,1,1]
          %c: f32[2,3,4,4] = ConvChannelsLast(%x, %w)
          %r: f32[2,3,4,4] = Relu(%c)
          %y: f32[2,3,4,6] = ConvChannelsLast(%r, %v)
        }"""
    ),
    "adapt-types": Case(CONV, {"dtypes": ("f64",)}),
    "bfloat16": Case(CONV),
    "float16": Case(CONV),
    "integers": Case(
        """(%x: u8[2,3,5,6]) -> (%y) {
          const %xs: f32[] = [0.0625]
          const %ws: f32[] = [0.25]
          const %bs: f32[] = [0.015625]
          const %ys: f32[] = [0.5]
          const %w: i8[4,3,3,3]
          const %b: i32[4]
          %d: f32[2,3,5,6] = DequantizeLinear(%x, %xs)
          %v: f32[4,3,3,3] = DequantizeLinear(%w, %ws)
          %a: f32[4] = DequantizeLinear(%b, %bs)
          %c: f32[2,4,3,4] = Conv(%d, %v, %a)
          %r: f32[2,4,3,4] = Relu(%c)
          %y: u8[2,4,3,4] = QuantizeLinear(%r, %ys)
        }""",
        stays=BEHIND,
    ),
    "quantized-form": Case(
        """(%x: u8[2,3,5,6]) -> (%y) {
          const %xs: f32[] = [0.0625]
          const %ws: f32[] = [0.25]
          const %w: i8[4,3,3,3]
          const %b: f32[4]
          %d: f32[2,3,5,6] = DequantizeLinear(%x, %xs)
          %v: f32[4,3,3,3] = DequantizeLinear(%w, %ws)
          %c: f32[2,4,3,4] = Conv(%d, %v, %b)
          %y: f32[2,4,3,4] = Relu(%c)
        }"""
    ),
    "constant-channels": Case(
        """(%x: i8[1,2,4,4]) -> (%y) {
          const %s: f32[] = [0.0625]
          const %z: i8[] = [-128]
          const %n: i8[] = [0]
          const %w: i8[4,2,1,1]
          const %b: i32[4] = [0, -1073741824, 5, -9000000]
          const %v: i8[2,4,3,3]
          %c: i8[1,4,4,4] = QLinearConv(%x, %s, %z, %w, %s, %n, %s, %z, %b)
          %y: i8[1,2,4,4] = QLinearConv(%c, %s, %z, %v, %s, %n, %s, %z) {pads=(1,1,1,1)}
        }""",
        {"multiple": 1},
        stays=BEHIND,
    ),
    "prune": Case(CONV, {"ratio": 0.5}, stays=BEHIND),
    "low-rank": Case(CONV, {"rank": 2, "always": True}),
    "palette": Case(DENSE, {"k": 4, "keep": True}),
    "sparsify": Case(CONV),
    "sparsify-n-m": Case(DENSE),
    "fault-weights": Case(CONV, {"count": 20, "bits": (20, 21, 22)}),
    "noise-weights": Case(DENSE),
    "fault-activations": Case(CONV, {"count": 20, "bits": (20, 21, 22)}),
    "noise-activations": Case(DENSE),
}
"""A case for each recipe, by its name."""


# --- variants ---------------------------------------------------------------------------------


def plain(graph: Graph) -> Graph:
    """The graph as it is."""
    return graph


def shared(graph: Graph) -> Graph:
    """The graph twice, for an input each, with the same constants."""
    values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs)]
    names = {value: f"{value}_again" for value in values}
    again = [
        changed(making(reading(node, names), names), name=f"{node.name}_again")
        for node in graph.nodes
    ]
    return changed(
        graph,
        inputs=(*graph.inputs, *(names[value] for value in graph.inputs)),
        outputs=(*graph.outputs, *(names[value] for value in graph.outputs)),
        nodes=(*graph.nodes, *again),
        types={**graph.types, **{names[value]: graph.types[value] for value in values}},
    )


def consumed(graph: Graph) -> Graph:
    """Everything within the graph is read once more."""
    found = graph
    for value in _inner(graph):
        is_float = graph.types[value].dtype.is_float
        op, attributes = ("Neg", NO_ATTRIBUTES) if is_float else ("Cast", CastAttributes(DType.F32))
        other = f"{value}_other"
        type = graph.types[value] if is_float else changed(graph.types[value], dtype=DType.F32)
        found = changed(
            found,
            outputs=(*found.outputs, other),
            nodes=(*found.nodes, Node(other, op, (value,), (other,), attributes)),
            types={**found.types, other: type},
        )
    return found


def outputs(graph: Graph) -> Graph:
    """Everything within the graph is an output, too."""
    return changed(graph, outputs=(*graph.outputs, *_inner(graph)))


def relu6(graph: Graph) -> Graph:
    """A ReLU6 behind every floating-point input and before every output."""
    six = ClipAttributes(min=0.0, max=6.0)
    after = {v: f"{v}_six" for v in graph.inputs if graph.types[v].dtype.is_float}
    before = {v: f"{v}_any" for v in graph.outputs if graph.types[v].dtype.is_float}
    nodes = [making(reading(node, {**after, **before}), before) for node in graph.nodes]
    ends = [*after.items(), *((inner, outer) for outer, inner in before.items())]
    clips = [Node(f"{y}_clip", "Clip", (x,), (y,), six) for x, y in ends]
    added = {name: graph.types[value] for value, name in (*after.items(), *before.items())}
    return changed(graph, nodes=topological([*nodes, *clips]), types={**graph.types, **added})


def _inner(graph: Graph) -> list[str]:
    made = [value for node in graph.nodes for value in node.outputs if value]
    return [value for value in made if value not in graph.outputs]


VARIANTS: Mapping[str, Callable[[Graph], Graph]] = {
    each.__name__: each for each in (plain, shared, consumed, outputs, relu6)
}


def graph_for(name: str, variant: str) -> Graph:
    """The graph of a recipe's case, or a variant of it."""
    graph = graph_of(CASES[name].text)
    names = {node.name: node.outputs[0] for node in graph.nodes}
    named = [changed(node, name=names[node.name]) for node in graph.nodes]
    return VARIANTS[variant](changed(graph, nodes=tuple(named)))
