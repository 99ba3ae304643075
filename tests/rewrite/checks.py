"""Checks of rules: text before, text after, and the same numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from dataclasses import replace as changed

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph, Node
from weft.ir.text import parse, show
from weft.ir.types import TensorType
from weft.ir.verify import verify
from weft.ops.evaluate import call_of, evaluate
from weft.ops.table import OPS
from weft.rewrite.engine import Log, rewrite
from weft.rewrite.recipes import simplify
from weft.rewrite.rule import Exactness, Rule

_DECLARED = re.compile(r"const %([\w.]+): (\w+)\[([\d,]*)\]\s*\n")


def infer(node: Node, graph: Graph) -> tuple[TensorType, ...]:
    """What the op table says of a node's outputs."""
    return tuple(OPS[node.op].infer(call_of(node, graph.types)))


def random_array(type: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Numbers around zero; positive ones too near to it are left out."""
    if type.dtype is DType.BOOL:
        return rng.integers(0, 2, type.dims).astype(np.bool_)
    if type.dtype.is_integer:
        return rng.integers(0, 5, type.dims).astype(type.dtype.numpy)
    return rng.uniform(0.25, 2, type.dims).astype(type.dtype.numpy) * np.asarray(
        rng.choice([-1, 1], type.dims), type.dtype.numpy
    )


def graph_of(text: str, **arrays: np.ndarray) -> Graph:
    """A graph of the op table; constants without elements get random, positive ones."""
    rng = np.random.default_rng(1)
    text = text if text.lstrip().startswith("graph") else f"graph g{text}"
    constants = dict(arrays)
    for name, dtype, dims in _DECLARED.findall(text):
        shape = tuple(int(dim) for dim in dims.split(",") if dim)
        type = TensorType(DType(dtype), shape)
        constants.setdefault(name, np.abs(random_array(type, rng)))
    graph = parse(text, lambda op: OPS[op].attributes, constants)
    verify(graph, infer)
    return graph


def _without_implied(node: Node, types: Mapping[str, TensorType]) -> Node:
    """The node without attributes that it would have if they were not given."""
    op, call = OPS[node.op], call_of(node, types)
    defaults = {each.name: each.default for each in fields(node.attributes)}
    for name in op.implied:
        if defaults[name] is not MISSING:
            bare = changed(call.attributes, **{name: defaults[name]})
            if op.resolved(changed(call, attributes=bare)) == op.resolved(call):
                call = changed(call, attributes=bare)
    return changed(node, attributes=call.attributes)


def nodes_of(graph: Graph) -> list[str]:
    """The nodes as text without names, origins and attributes that need not be given."""
    graph = changed(graph, nodes=tuple(_without_implied(n, graph.types) for n in graph.nodes))
    lines = show(graph).splitlines()[1:-1]
    kept = [line for line in lines if not line.lstrip().startswith(("const ", "history "))]
    return [" ".join(line.split("  # ")[0].split()) for line in kept]


def outputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """The outputs for random inputs, a symbolic batch being 3."""
    rng = np.random.default_rng(seed)
    inputs: dict[str, np.ndarray] = {}
    for name in graph.inputs:
        type = graph.types[name]
        dims = tuple(dim if isinstance(dim, int) else 3 for dim in type.shape)
        inputs[name] = random_array(TensorType(type.dtype, dims), rng)
    return evaluate(graph, inputs, OPS)


def assert_same(before: Graph, after: Graph, exactness: Exactness) -> None:
    """Equal outputs, as far as a label promises."""
    assert after.inputs == before.inputs
    assert after.outputs == before.outputs
    for seed in range(3):
        expected, found = outputs_of(before, seed), outputs_of(after, seed)
        for name, array in expected.items():
            assert found[name].dtype == array.dtype
            assert found[name].shape == array.shape
            if exactness is Exactness.BIT_EXACT:
                np.testing.assert_array_equal(found[name], array)
            else:
                span = max(1.0, float(np.abs(array).max(initial=0)))
                np.testing.assert_allclose(found[name] / span, array / span, atol=2e-6)


def check(
    rules: Sequence[Rule],
    before: str,
    after: str,
    fired: Mapping[str, int],
    **arrays: np.ndarray,
) -> tuple[Graph, Log]:
    """Apply rules alone; the nodes, the rules that fired and the numbers are as they must be."""
    graph = graph_of(before, **arrays)
    done, log = rewrite(graph, rules, allow=Exactness.APPROXIMATE)
    verify(done, infer)
    wanted = [" ".join(line.split()) for line in after.strip().splitlines()]
    assert nodes_of(done) == wanted, "\n".join(nodes_of(done))
    assert log.counts() == dict(fired), log.counts()
    assert_same(graph, done, log.exactness)
    return done, log


def check_refused(
    rules: Sequence[Rule], before: str, reasons: Sequence[str], **arrays: np.ndarray
) -> None:
    """Apply rules alone; nothing changes, for these reasons."""
    graph = graph_of(before, **arrays)
    done, log = rewrite(graph, rules, allow=Exactness.APPROXIMATE)
    assert done is graph
    found = [str(each) for each in log.refused]
    assert found == list(reasons), "\n".join(found)


def simplified(text: str, **arrays: np.ndarray) -> tuple[Graph, Log]:
    """The whole pipeline, with sound types and equal numbers after it."""
    graph = graph_of(text, **arrays)
    done, log = simplify(graph)
    verify(done, infer)
    assert_same(graph, done, log.exactness)
    return done, log
