"""Recipes that apply a few of the rules that every model goes through, or all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from math import prod
from typing import Literal

from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ir.verify import bodies
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.expand import expand
from weft.ops.linear import GemmAttributes
from weft.ops.reduction import ReduceAttributes
from weft.ops.shape import ReshapeAttributes
from weft.ops.table import OPS
from weft.records import dataclass
from weft.rewrite import batchnorm, composites, constants
from weft.rewrite.affine import per_channel
from weft.rewrite.engine import rewrite
from weft.rewrite.identities import changes_something
from weft.rewrite.recipe import Apply, Recipe, parameter
from weft.rewrite.recipes import RULES, simplify, tidy
from weft.rewrite.rule import Exactness, Rule


def everywhere(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """Change a graph and, before it, the bodies of control flow in it."""
    nodes: list[Node] = []
    for node in graph.nodes:
        done = {name: everywhere(body, change) for name, body in bodies(node)}
        if any(done[name] is not body for name, body in bodies(node)):
            node = changed(node, attributes=changed(node.attributes, **done))
        nodes.append(node)
    same = all(new is old for new, old in zip(nodes, graph.nodes, strict=True))
    return change(graph if same else changed(graph, nodes=tuple(nodes)))


def by_rules(rules: Sequence[Rule]) -> Apply:
    """A recipe's function that applies rules until none applies."""

    def apply(graph: Graph, _: object) -> Graph:
        return everywhere(graph, lambda each: rewrite(each, rules, allow=Exactness.APPROXIMATE)[0])

    return apply


# --- what hands its input on ------------------------------------------------------------------


def removal(op: str) -> Rule:
    """The rule that removes an op where it hands its input on."""
    return Rule(
        name=f"remove-{op.lower()}",
        before=f"y = {op}(x, ...)",
        where=changes_something,
        after=lambda match, _: match["x"],
        exactness=Exactness.BIT_EXACT,
        doc=f"{op} that hands its input on as it is.",
    )


def _mean(match: Match, builder: GraphBuilder) -> str:
    axes = tuple(range(2, len(match.type("x").shape)))
    return builder.op("ReduceMean", match["x"], attributes=ReduceAttributes(axes, keepdims=0))


_POOL_AND_FLATTEN = Rule(
    name="flat-global-pool",
    before="p = GlobalAveragePool(x) [users=1]\ny = Flatten(p) [axis=1]",
    where=lambda match: None if len(match.type("x").shape) > 2 else "there is nothing to pool",
    after=_mean,
    exactness=Exactness.REASSOCIATING,
    doc="The flattened mean of an image is a mean that does not keep the axes.",
)


# --- fully connected layers -------------------------------------------------------------------


def _not_stacked(match: Match) -> str | None:
    x, w = match.type("x"), match.array("w")
    if len(x.shape) < 3 or w.ndim != 2:
        return ""
    if not x.is_static:
        return "the batch is not known"
    if match.type("y") != match.type("p"):
        return "what is added broadcasts the product"
    if per_channel(match.array("k"), match.type("p"), -1) is None:
        return "what is added is not one number for each column"
    return None


def _stacked(match: Match, builder: GraphBuilder) -> str:
    dims, columns = match.type("x").dims, match.array("w").shape[1]
    rows = ReshapeAttributes((prod(dims[:-1]), dims[-1]), allowzero=1)
    flat = builder.op("Reshape", match["x"], attributes=rows)
    bias = builder.constant(match.array("k").reshape(-1), match["k"])
    product = builder.op("Gemm", flat, match["w"], bias, attributes=GemmAttributes())
    whole = ReshapeAttributes((*dims[:-1], columns), allowzero=1)
    return builder.op("Reshape", product, attributes=whole)


_STACKED = Rule(
    name="stacked-matmul-add-to-gemm",
    before="p = MatMul(x, const w) [users=1]\ny = Add{p, const k}",
    where=_not_stacked,
    after=_stacked,
    exactness=Exactness.BIT_EXACT,
    doc="Many rows times one matrix plus a constant row is one Gemm of all rows.",
)


def _named(*names: str) -> tuple[Rule, ...]:
    """Rules of the pipeline."""
    table = {rule.name: rule for rule in RULES}
    return tuple(table[name] for name in names)


# --- the whole graph --------------------------------------------------------------------------


@dataclass(frozen=True)
class SimplifyParameters:
    """Of ``simplify``."""

    allow: Literal["bit-exact", "reassociating", "approximate"] = parameter(
        "the loosest label of the rules that may be applied", "reassociating"
    )


def _expand(graph: Graph, _: object) -> Graph:
    def change(each: Graph) -> Graph:
        expanded = expand(each, OPS)
        return each if expanded is each else tidy(expanded)

    return everywhere(graph, change)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "simplify",
        "All rules that every model goes through before it is compiled.",
        Exactness.APPROXIMATE,
        lambda graph, parameters: simplify(graph, allow=Exactness(parameters.allow))[0],
        SimplifyParameters,
        promise=lambda parameters: Exactness(parameters.allow),
    ),
    Recipe(
        "fuse-batch-norm",
        "Batch normalization with constant statistics goes into the weights and bias of the "
        "convolution or matrix product before it, or after it where that does not pad. Layers "
        "whose output something else reads too, and normalization in training mode, stay.",
        Exactness.REASSOCIATING,
        by_rules(batchnorm.FOLD),
    ),
    Recipe(
        "fuse-matmul-add",
        "A matrix product and the addition of a constant become one fully connected layer "
        "(Gemm); products of more than two dimensions are seen as many rows.",
        Exactness.BIT_EXACT,
        by_rules((*_named("matmul-add-to-gemm"), _STACKED)),
    ),
    Recipe(
        "remove-flatten",
        "Flatten that changes nothing goes; beside other views it becomes one with them, and "
        "after a global mean the mean drops the axes itself. Where a fully connected layer "
        "reads an image, its Flatten stays: it moves no data.",
        Exactness.REASSOCIATING,
        by_rules((removal("Flatten"), _POOL_AND_FLATTEN, *_named("merge-views"))),
    ),
    Recipe(
        "remove-dropout",
        "Dropout goes: at inference it hands its input on.",
        Exactness.BIT_EXACT,
        by_rules((removal("Dropout"),)),
    ),
    Recipe(
        "remove-identity",
        "Identity goes, except where an input of the graph, or a constant, is its output.",
        Exactness.BIT_EXACT,
        by_rules((removal("Identity"),)),
    ),
    Recipe(
        "remove-no-ops",
        "Everything that hands its input on as it is goes: casts to the same type, reshapes to "
        "the same shape, slices of the whole, pads by nothing, products with one, sums with "
        "zero, and so on.",
        Exactness.BIT_EXACT,
        by_rules(
            _named("remove-no-op", "remove-multiply-by-one", "remove-add-zero", "merge-casts")
        ),
    ),
    Recipe(
        "fold-constants",
        "What depends on constants only is computed now, unless the result is much larger.",
        Exactness.BIT_EXACT,
        by_rules(_named("fold-constants", "fold-shape")),
    ),
    Recipe(
        "share-constants",
        "Equal constants become one.",
        Exactness.BIT_EXACT,
        lambda graph, _: everywhere(graph, constants.share_constants),
    ),
    Recipe(
        "share-nodes",
        "Nodes that compute the same from the same inputs become one.",
        Exactness.BIT_EXACT,
        by_rules(_named("share-equal-nodes")),
    ),
    Recipe(
        "remove-unused",
        "What no output depends on goes: nodes and constants.",
        Exactness.BIT_EXACT,
        lambda graph, _: everywhere(graph, prune),
    ),
    Recipe(
        "expand-composites",
        "Composite ops (softmax, normalization, GELU, LSTM, attention, ...) become the graphs "
        "of simple ops that define them.",
        Exactness.REASSOCIATING,
        _expand,
    ),
    Recipe(
        "form-composites",
        "What exporters take apart is put together again: GELU, Swish, HardSwish, layer and "
        "RMS normalization and their like.",
        Exactness.REASSOCIATING,
        by_rules(composites.RULES),
    ),
)
