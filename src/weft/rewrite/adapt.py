"""Adapt a graph to the element types that a backend has: casts around what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from dataclasses import replace as changed
from typing import Any

from weft.dtypes import DType
from weft.errors import UserError, nearest_or_all
from weft.ir.edit import replace_all
from weft.ir.graph import Graph, Node
from weft.ir.substitute import Replacement
from weft.ir.verify import bodies
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.table import OPS
from weft.records import dataclass
from weft.rewrite.cleanups import everywhere
from weft.rewrite.engine import rewrite
from weft.rewrite.identities import EXACTLY_HELD
from weft.rewrite.places import instead
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.recipes import CLEAN
from weft.rewrite.rule import Exactness, Rule

_NAME = "adapt-types"
CONVERSIONS = frozenset(
    {"Cast", "BitCast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
)
"""Ops whose purpose is to go from one type to another."""


def in_types(graph: Graph, node: Node, types: Mapping[DType, DType], rule: str) -> Replacement:
    """A node computed in other types, between casts; constants are cast now.

    Args:
        graph: the graph.
        node: that is replaced.
        types: what stands for which type.
        rule: what the new nodes are said to be made by.

    Raises:
        UserError: the op does not take the other types.
    """

    def build(builder: GraphBuilder) -> Sequence[str]:
        inputs = [_cast(builder, value, types) if value else "" for value in node.inputs]
        wishes = [f"{value}_wide" if value else "" for value in node.outputs]
        attributes = _attributes(node.attributes, types)
        made = builder.nodes_of(node.op, inputs, attributes, outputs=wishes, name=node.name)
        return [
            _back(builder, value, graph.types[outer].dtype) if outer else ""
            for value, outer in zip(made, node.outputs, strict=True)
        ]

    return instead(graph, [node], rule, build)


def _cast(builder: GraphBuilder, value: str, types: Mapping[DType, DType]) -> str:
    to = types.get(builder.types[value].dtype)
    if to is None:
        return value
    array = builder.constants.get(value)
    if array is not None:
        return builder.constant(array.astype(to.numpy), value)
    return builder.op("Cast", value, attributes=CastAttributes(to))


def _attributes(attributes: Any, types: Mapping[DType, DType]) -> Any:
    """Attributes that name a type, with the one that stands for it."""
    found = {each.name: getattr(attributes, each.name) for each in fields(attributes)}
    other = {
        name: types[value]
        for name, value in found.items()
        if isinstance(value, DType) and value in types
    }
    return changed(attributes, **other) if other else attributes


def _back(builder: GraphBuilder, value: str, dtype: DType) -> str:
    if builder.types[value].dtype is dtype:
        return value
    return builder.op("Cast", value, attributes=CastAttributes(dtype))


# --- the recipe -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AdaptTypesParameters:
    """Of ``adapt-types``."""

    dtypes: tuple[str, ...] = parameter(
        "types that the backend computes in; kinds of which none is named (floats, integers) stay"
    )
    ops: tuple[str, ...] = parameter("ops that this is said of; all if not given", ())
    lossy: bool = parameter("types that hold less may stand for what is lacking", False)
    between: bool = parameter("round to the original types between adapted layers", True)


def _dtypes(given: AdaptTypesParameters) -> tuple[DType, ...]:
    known = {each.value: each for each in DType}
    for name in given.dtypes:
        if name not in known:
            raise UserError("unknown type", got=name, fix=nearest_or_all(name, known))
    for op in given.ops:
        if op not in OPS:
            raise UserError(f"{op} is not an op of Weft", fix=nearest_or_all(op, OPS))
    return tuple(known[name] for name in given.dtypes)


def _stand_ins(given: AdaptTypesParameters) -> Mapping[DType, DType]:
    """For each type that the backend lacks what stands for it, as far as there is anything."""
    allowed = _dtypes(given)
    found: dict[DType, DType] = {}
    for dtype in DType:
        alike = [each for each in allowed if each.is_float == dtype.is_float]
        if dtype in allowed or dtype is DType.BOOL or not alike:
            continue
        holding = [each for each in alike if each in EXACTLY_HELD.get(dtype, ())]
        if holding:
            found[dtype] = min(holding, key=lambda each: each.bytes)
        elif given.lossy:
            found[dtype] = max(alike, key=lambda each: each.bytes)
    return found


def _adapt(graph: Graph, given: AdaptTypesParameters) -> Graph:
    types = _stand_ins(given)
    allowed = _dtypes(given)

    def change(each: Graph) -> Graph:
        found: list[Replacement] = []
        for node in each.nodes:
            lacking = _lacking(each, node, given, allowed)
            for dtype in lacking:
                if dtype not in types:
                    raise UserError(
                        f"{_NAME}: no type of the backend holds every {dtype.value}",
                        got=f"{', '.join(given.dtypes)} (node {node.name})",
                        fix="Give lossy=yes to use one that does not.",
                    )
            if lacking:
                found.append(in_types(each, node, types, _NAME))
        if not found:
            return each
        done = replace_all(each, found)
        return done if given.between else rewrite(done, (_UNROUNDED, *CLEAN))[0]

    return everywhere(graph, change)


def _lacking(
    graph: Graph, node: Node, given: AdaptTypesParameters, allowed: Sequence[DType]
) -> list[DType]:
    """The types that a node uses and the backend lacks."""
    if node.op in CONVERSIONS or (given.ops and node.op not in given.ops) or any(bodies(node)):
        return []
    kinds = {each.is_float for each in allowed}
    used = dict.fromkeys(graph.types[v].dtype for v in (*node.inputs, *node.outputs) if v)
    return [
        dtype
        for dtype in used
        if dtype not in allowed and dtype is not DType.BOOL and dtype.is_float in kinds
    ]


def _not_made_here(match: Match) -> str | None:
    cast = match.node("c")
    if _NAME not in cast.origin.rules or match.type("x") != match.type("y"):
        return ""
    return None


_UNROUNDED = Rule(
    name="keep-wide",
    before="c = Cast(x)\ny = Cast(c)",
    where=_not_made_here,
    after=lambda match, _: match["x"],
    exactness=Exactness.REASSOCIATING,
    doc="What goes from one adapted layer to the next is not rounded between.",
)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        _NAME,
        "Nodes of element types that a backend lacks compute in types that it has, between "
        "casts; constants are cast now, and the graph's inputs and outputs keep their types. "
        "The smallest type that holds every value stands for the one that is lacking; with "
        "`lossy`, the largest of its kind where none does.",
        Exactness.APPROXIMATE,
        _adapt,
        AdaptTypesParameters,
        promise=lambda given: Exactness.APPROXIMATE if given.lossy else Exactness.REASSOCIATING,
    ),
)
