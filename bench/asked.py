"""Realistic queries about three families of networks, each beside a count without the language.

The counts walk over nodes and edges in plain Python, and say how many matches there must be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.ir.graph import Graph, Node
from weft.match.conditions import Predicate, Subject


@dataclass(frozen=True)
class Walk:
    """Nodes and edges of a graph, for counting."""

    graph: Graph

    def of(self, *ops: str) -> list[Node]:
        """The nodes of some ops."""
        return [node for node in self.graph.nodes if node.op in ops]

    def after(self, node: Node, *ops: str) -> list[Node]:
        """The nodes of some ops, or of any, that read what a node makes."""
        found = {user.name: user for value in node.outputs for user in self.graph.users[value]}
        return [user for user in found.values() if not ops or user.op in ops]

    def before(self, node: Node, *ops: str) -> list[Node]:
        """The nodes of some ops, or of any, that make what a node reads."""
        makers = [self.graph.producers.get(value) for value in dict.fromkeys(node.inputs)]
        return [maker for maker in makers if maker and (not ops or maker.op in ops)]

    def ends(self, node: Node, ops: Sequence[str]) -> list[Node]:
        """Where the ways end that lead from a node through one of each op in turn."""
        ends = [node]
        for op in ops:
            ends = [each for end in ends for each in self.after(end, op)]
        return ends

    def runs(self, *ops: str) -> int:
        """How many ways there are through one of each op in turn."""
        return sum(len(self.ends(node, ops[1:])) for node in self.of(ops[0]))

    def reach(self, node: Node) -> dict[str, Node]:
        """All nodes that a node leads to."""
        found: dict[str, Node] = {}
        pending = self.after(node)
        while pending:
            each = pending.pop()
            if each.name not in found:
                found[each.name] = each
                pending += self.after(each)
        return found

    def convolutions(self, size: int, stride: int = 0) -> list[Node]:
        """Convolutions with a square window, and with a stride."""
        shape = {node.name: self.graph.types[node.inputs[1]].shape for node in self.of("Conv")}
        found = [node for node in self.of("Conv") if shape[node.name][2:] == (size, size)]
        return [node for node in found if stride in (0, node.attributes.strides[0])]


@dataclass(frozen=True)
class Asked:
    """A query, and how many matches it must have.

    Attributes:
        text: the query.
        count: counts them without it.
        predicates: of the query.
    """

    text: str
    count: Callable[[Walk], int]
    predicates: Mapping[str, Predicate] = field(default_factory=dict[str, Predicate])


def weighs(subject: Subject, least: int) -> bool:
    """Whether the weight of a convolution has so many elements."""
    return subject.node is not None and subject.view.types[subject.node.inputs[1]].size >= least


def _heavy(walk: Walk) -> int:
    convs = [c for c in walk.of("Conv") if walk.graph.types[c.inputs[1]].size >= 500]
    return sum(len(walk.ends(each, ("BatchNormalization", "Add"))) for each in convs)


def _identities(walk: Walk) -> int:
    return sum(len(walk.before(each, "Relu")) for each in walk.of("Add"))


def _projections(walk: Walk) -> int:
    joins = [walk.before(each, "BatchNormalization") for each in walk.of("Add")]
    return sum(len(each) * (len(each) - 1) for each in joins)


def _shared(walk: Walk) -> int:
    read = [walk.after(each) for each in walk.graph.nodes if walk.after(each, "Conv")]
    return sum(each.op != "Conv" for users in read if len(users) > 1 for each in users)


def _stem(walk: Walk) -> int:
    """Pools that one to five nodes lead to from an input, by the first of them."""
    found = 0
    for first in [user for value in walk.graph.inputs for user in walk.graph.users[value]]:
        reached = {first.name: first}
        for _ in range(4):
            reached |= {each.name: each for n in reached.values() for each in walk.after(n)}
        found += len({p.name for n in reached.values() for p in walk.after(n, "MaxPool")})
    return found


def _classified(walk: Walk) -> int:
    return sum(
        any(each.op == "Gemm" for each in walk.reach(conv).values()) for conv in walk.of("Conv")
    )


RESNET = (
    Asked(
        "Conv -> BatchNormalization -> Relu", lambda w: w.runs("Conv", "BatchNormalization", "Relu")
    ),
    Asked(
        "Conv[kernel=(1,1), strides=(1,1)] -> BatchNormalization -> (Relu | Clip[min=0, max=6])",
        lambda w: sum(len(w.ends(c, ("BatchNormalization", "Relu"))) for c in w.convolutions(1, 1)),
    ),
    Asked(
        "(Conv -> BatchNormalization -> Relu?){3}",
        lambda w: w.runs(*("Conv", "BatchNormalization", "Relu") * 2, "Conv", "BatchNormalization"),
    ),
    Asked(
        "def layer = Conv -> BatchNormalization -> Relu?\nx: Relu -> layer+ -> a: Add; x -> a",
        _identities,
    ),
    Asked("a: BatchNormalization -> s: Add; b: BatchNormalization -> s; a != b", _projections),
    Asked("*[users>=2] -> (?= Conv) -> !Conv", _shared),
    Asked("input -> *{1,5} -> MaxPool", _stem),
    Asked(
        "y = Conv(_, const w[shape=(_,_,3,3)]) [strides=(2,2)]\n"
        "y -> BatchNormalization -> Relu -> Conv[kernel=(1,1)]",
        lambda w: sum(
            len(w.ends(c, ("BatchNormalization", "Relu", "Conv"))) for c in w.convolutions(3, 2)
        ),
    ),
    Asked("Conv -> ** -> Gemm -> output", _classified),
    Asked("Conv[weighs(500)] -> BatchNormalization -> Add", _heavy, {"weighs": weighs}),
)
"""About residual networks of bottlenecks, batch norms left in."""

_LAYER = ("BatchNormalization", "Relu", "Conv")


def _last_joins(walk: Walk) -> int:
    reached = [walk.reach(each).values() for each in walk.of("Concat")]
    return sum(all(each.op != "Concat" for each in nodes) for nodes in reached)


def _kept(walk: Walk) -> int:
    """Pools whose outputs begin a block and are still read by its last join."""
    found = 0
    for pool in walk.of("MaxPool", "AveragePool"):
        joins = walk.after(pool, "Concat")
        last = [each for each in joins if walk.ends(each, (*_LAYER, "AveragePool"))]
        found += len(last) * sum(len(each.inputs) == 1 for each in joins)
    return found


def _only(walk: Walk) -> int:
    pools = [walk.after(each, "Concat") for each in walk.of("MaxPool", "AveragePool")]
    return sum(len(each.inputs) == 1 for joins in pools for each in joins)


DENSENET = (
    Asked("(BatchNormalization -> Relu -> Conv){2}", lambda w: w.runs(*_LAYER, *_LAYER)),
    Asked("Concat -> BatchNormalization -> Relu -> Conv", lambda w: w.runs("Concat", *_LAYER)),
    Asked(
        "def layer = BatchNormalization -> Relu -> Conv\nConcat -> layer -> layer -> Concat",
        lambda w: w.runs("Concat", *_LAYER, *_LAYER, "Concat"),
    ),
    Asked(
        "Concat -> BatchNormalization -> Relu -> Conv -> AveragePool[kernel=(2,2)]",
        lambda w: w.runs("Concat", *_LAYER, "AveragePool"),
    ),
    Asked(
        "y = Conv(_, const w[shape=(_,_,3,3)]); y -> Concat -> BatchNormalization",
        lambda w: sum(len(w.ends(c, ("Concat", "BatchNormalization"))) for c in w.convolutions(3)),
    ),
    Asked("Concat -> (?! ** -> Concat) -> ** -> output", _last_joins),
    Asked("(MaxPool | AveragePool) -> Concat[inputs=1]", _only),
    Asked("input -> *{1,5} -> MaxPool", _stem),
    Asked(
        "p: *[family=pooling] -> Concat[inputs=1] -> ** -> d: Concat; p -> d\n"
        "d -> BatchNormalization -> Relu -> Conv -> AveragePool",
        _kept,
    ),
    Asked("Conv -> ** -> Gemm -> output", _classified),
)
"""About networks of dense blocks, batch norms left in."""

_SHAPING = ("Reshape", "Transpose", "Unsqueeze", "Squeeze")


def _with_constant(walk: Walk, op: str) -> list[Node]:
    return [e for e in walk.of(op) if any(v in walk.graph.constants for v in e.inputs)]


def _biased(walk: Walk) -> int:
    return sum(len(walk.before(each, "MatMul")) for each in _with_constant(walk, "Add"))


def _gelus(walk: Walk) -> int:
    ends = [(a, walk.ends(a, ("Div", "Erf", "Add", "Mul"))) for a in walk.of("Add")]
    return sum(a.outputs[0] in each.inputs for a, found in ends for each in found)


def _residuals(walk: Walk) -> int:
    biased = {each.name for each in _with_constant(walk, "Add") if walk.before(each, "MatMul")}
    sums = [(each, walk.after(each, "LayerNormalization")) for each in walk.of("Add")]
    return sum(
        len(norms) * sum(each.name in biased for each in walk.before(add)) for add, norms in sums
    )


def _heads(walk: Walk) -> int:
    """Shares of a projection that reach the scores past nothing but other shapes."""
    found = 0
    for share in [each for s in walk.of("Squeeze") for each in walk.after(s, "Gather")]:
        shaped = {share.name: share}
        for _ in range(9):
            shaped |= {e.name: e for n in shaped.values() for e in walk.after(n, *_SHAPING)}
        ends = [e for n in shaped.values() if n is not share for e in walk.after(n, "Mul")]
        found += sum(len(walk.ends(each, ("MatMul", "Softmax"))) for each in ends)
    return found


TRANSFORMER = (
    Asked("MatMul -> Add{_, const}", _biased),
    Asked("a: Add -> Div[const] -> Erf -> Add[const] -> m: Mul; a -> m", _gelus),
    Asked("MatMul -> Softmax -> MatMul", lambda w: w.runs("MatMul", "Softmax", "MatMul")),
    Asked(
        "q: * -[a]-> m: MatMul -> Softmax; k: * -[b]-> m",
        lambda w: w.runs("MatMul", "Softmax"),
    ),
    Asked(
        "x: LayerNormalization -> ** -> a: Add; x -> a",
        lambda w: w.runs("LayerNormalization", "Add"),
    ),
    Asked("s = Add{_, Add{MatMul, const}}; s -> LayerNormalization", _residuals),
    Asked(
        "(Reshape | Transpose | Unsqueeze | Squeeze){2,}",
        lambda w: sum(bool(w.after(each, *_SHAPING)) for each in w.of(*_SHAPING)),
    ),
    Asked("Squeeze -> Gather -> (Reshape | Transpose)+ -> Mul -> MatMul -> Softmax", _heads),
    Asked(
        "(?<= LayerNormalization) -> MatMul -> (?! Softmax) -> *",
        lambda w: sum(
            len(w.after(each)) * (not w.after(each, "Softmax"))
            for each in w.of("MatMul")
            if w.before(each, "LayerNormalization")
        ),
    ),
    Asked(
        "input -> ** -> output",
        lambda w: sum(len(w.graph.users[value]) for value in w.graph.inputs),
    ),
)
"""About encoders of transformers, as PyTorch exports them."""
