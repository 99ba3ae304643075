"""Constant folding, and computing the same thing once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed

import numpy as np

from weft.dtypes import DType
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node, noted
from weft.ir.types import TensorType
from weft.ir.unknown import Recorded, Unknown, as_array, digest, is_known, same_array
from weft.loops.python_arithmetic import HALVES
from weft.match.view import Match, QueryableGraph
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import evaluate_node
from weft.ops.record import Control
from weft.ops.table import OPS
from weft.rewrite.rule import Exactness, Rule

LARGEST_FOLDED = 64 << 20
"""Largest folded constant in bytes; DequantizeLinear is bounded by its growth instead."""
ALWAYS_FOLDED = 4 << 10
"""Up to this many bytes a constant may be any times larger than what it is made from."""
LARGEST_GROWTH = 2
"""Beyond that a constant may be so many times larger than what it is made from"""
LARGEST_DEQUANTIZED = 4
"""(so many times for weights that are stored as integers and used as floats),"""
LARGEST_SHARE = 64
"""or a part of all the model's constants, this many of which are the whole."""

IMPURE = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Ops whose uses must neither be folded nor shared."""
_SHAPES = frozenset({"Shape", "Size"})


# --- folding --------------------------------------------------------------------------------


def _not_foldable(match: Match) -> str | None:
    node, constants = match.root, match.view.constants
    given = {value for value in node.inputs if value}
    if any(value not in constants for value in given):
        return ""
    if node.op in IMPURE or isinstance(OPS[node.op].compute, Control):
        return ""
    if node.op in _SHAPES and not all(is_known(constants[value]) for value in given):
        return ""  # the shape is known: ``fold-shape``
    if _is_stored_narrower(match):
        return "kernels read the constant as it is stored"
    if _numbers_a_palette(match):
        return "a palette and its numbers are smaller than what they stand for"
    made = [match.view.types[value] for value in node.outputs if value]
    if not all(type.is_static for type in made):
        return "the size of the result is not known"
    size = sum(type.bytes for type in made)
    read = sum(constants[value].nbytes for value in given)
    dequantized = node.op == "DequantizeLinear"
    if size > LARGEST_FOLDED and not dequantized:
        return f"the result would have {size} bytes, more than {LARGEST_FOLDED}"
    growth = LARGEST_DEQUANTIZED if dequantized else LARGEST_GROWTH
    # By elements too: chains that double a constant again and again would end at the limit.
    grown = sum(type.size for type in made) > sum(constants[value].size for value in given)
    if size <= ALWAYS_FOLDED or (size <= growth * read and not grown):
        return None
    if size * LARGEST_SHARE <= sum(array.nbytes for array in constants.values()):
        return None
    return f"the result would have {size} bytes, what it is made from has {read}"


def _is_stored_narrower(match: Match) -> bool:
    """Whether this dequantizes, or widens, for an op that another input is treated so for."""
    op = match.root.op
    if op != "DequantizeLinear" and not _widens(match.view, match.root):
        return False
    view, own = match.view, match.root.outputs[0]
    others = [v for user in view.readers(own) for v in user.inputs if v and v != own]
    makers = [view.producers[value] for value in others if value in view.producers]
    return any(
        maker.op == op
        and maker.inputs[0] not in view.constants
        and (op == "DequantizeLinear" or _widens(view, maker))
        for maker in makers
    )


def _widens(view: QueryableGraph, node: Node) -> bool:
    """Whether a node reads half precision as f32."""
    types = view.types
    return (
        node.op == "Cast"
        and types[node.inputs[0]].dtype in HALVES
        and types[node.outputs[0]].dtype is DType.F32
    )


def _numbers_a_palette(match: Match) -> bool:
    """Whether this widens bytes by which values are looked up in a table of fewer values."""
    node, view = match.root, match.view
    if node.op != "Cast" or view.types[node.inputs[0]].dtype is not DType.U8:
        return False
    count = view.constants[node.inputs[0]].size
    users = list(view.readers(node.outputs[0]))
    if len(users) == 1 and users[0].op == "Add":
        # Where groups have palettes of their own, numbers are counted from the group's.
        users = list(view.readers(users[0].outputs[0]))
    tables = [view.constants.get(user.inputs[0]) for user in users if user.op == "Gather"]
    return len(tables) == len(users) > 0 and all(
        # A row of a table is what one byte stands for.
        table is not None and table.ndim <= 2 and len(table) < count
        for table in tables
    )


def _fold(match: Match, builder: GraphBuilder) -> tuple[str, ...]:
    node = match.root
    operands = [match.view.constants[value] if value else None for value in node.inputs]
    if not all(map(is_known, operands)):
        return _record(match, builder, operands)
    found = evaluate_node(node, OPS[node.op], match.view.types, match.view.constants)
    # Copies: a view would keep the array alive that it was cut from.
    return tuple(
        builder.constant(np.array(found[value], order="C"), value) if value else ""
        for value in node.outputs
    )


def _record(
    match: Match, builder: GraphBuilder, operands: Sequence[np.ndarray | None]
) -> tuple[str, ...]:
    """What is computed of parameters is computed when they are given."""
    node, made = match.root, list[str]()
    origin = Recorded(node.op, tuple(operands), node.attributes, len(node.outputs))
    for place, value in enumerate(node.outputs):
        type = match.view.types.get(value)
        if type is None:
            made.append("")
            continue
        array = Unknown(type.dtype.numpy, type.dims, origin, place)
        made.append(builder.constant(as_array(array), value))
    return tuple(made)


def _fold_shape(match: Match, builder: GraphBuilder) -> str:
    node, type = match.root, match.type("x")
    # The reference asks for an array of the shape: one that takes no memory.
    standing_in = np.broadcast_to(np.zeros((), type.dtype.numpy), type.dims)
    found = evaluate_node(node, OPS[node.op], match.view.types, {node.inputs[0]: standing_in})
    return builder.constant(np.array(found[node.outputs[0]]), node.outputs[0])


# --- sharing --------------------------------------------------------------------------------


def _twin(match: Match) -> Node | None:
    """An earlier node that computes the same."""
    node, view = match.root, match.view
    given = [value for value in node.inputs if value]
    if not given or node.op in IMPURE:
        return None
    for other in view.readers(min(given, key=view.use_count)):
        if other.name == node.name:
            return None
        if (
            other.op == node.op
            and other.inputs == node.inputs
            and len(other.outputs) == len(node.outputs)
            and other.attributes == node.attributes
            and all(
                theirs or not ours for theirs, ours in zip(other.outputs, node.outputs, strict=True)
            )
        ):
            return other
    return None


def _share(match: Match, _: GraphBuilder) -> tuple[str, ...]:
    twin = _twin(match)
    return twin.outputs if twin else ()


def share_constants(graph: Graph) -> Graph:
    """Let equal constants be one; the first in order stays."""
    first: dict[tuple[TensorType, bytes], list[str]] = {}
    names: dict[str, str] = {}
    kept = set(graph.outputs)
    for name, array in graph.constants.items():
        twins = first.setdefault((graph.types[name], _sample(array)), [])
        twin = next((each for each in twins if same_array(graph.constants[each], array)), None)
        if twin is None:
            twins.append(name)
        elif name not in kept:
            names[name] = twin
    if not names:
        return graph
    nodes = tuple(
        changed(node, inputs=tuple(names.get(value, value) for value in node.inputs))
        if not names.keys().isdisjoint(node.inputs)
        else node
        for node in graph.nodes
    )
    shared = prune(changed(graph, nodes=nodes))
    return noted(changed(shared, history=graph.history), "share", f"{len(names)} constants")


def _sample(array: np.ndarray) -> bytes:
    """A few bytes that tell most arrays apart, so that few are compared whole."""
    if not is_known(array):
        return digest(array).encode()
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    places = range(0, array.size, max(1, array.size // 8))
    return b"".join(flat[place].tobytes() for place in places)


RULES: tuple[Rule, ...] = (
    Rule(
        name="fold-constants",
        before="y, ... = *(...)",
        where=_not_foldable,
        after=_fold,
        exactness=Exactness.BIT_EXACT,
        doc="What depends on constants only is computed now, unless the result is much larger.",
    ),
    Rule(
        name="fold-shape",
        before="y = Shape(x) | Size(x)",
        where=lambda match: None if match.type("x").is_static else "the shape is not known",
        after=_fold_shape,
        exactness=Exactness.BIT_EXACT,
        doc="The shape of a value of known shape is a constant.",
    ),
    Rule(
        name="share-equal-nodes",
        before="y, ... = *(...)",
        where=lambda match: None if _twin(match) else "",
        after=_share,
        exactness=Exactness.BIT_EXACT,
        doc="Two nodes with one op, equal attributes and the same inputs become one.",
    ),
)
