"""Every sample of every op, planned for machines of several widths and interpreted."""

from __future__ import annotations

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from tests.ops.samples import Sample
from tests.ops.test_oracle import SAMPLES
from tests.plan.planned import assert_planned
from tests.turns import in_turn
from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.expand import expand
from weft.ops.record import Extern
from weft.ops.table import OPS

MACHINES = ("generic", "x86-sse2", "x86-avx512")


def graph_of(sample: Sample, constant: frozenset[int] = frozenset()) -> tuple[Graph, dict]:
    """A graph of one node; inputs at the places in ``constant`` are constants."""
    builder = GraphBuilder(OPS)
    inputs: dict[str, np.ndarray] = {}
    names: list[str] = []
    for place, array in enumerate(sample.arrays):
        if array is None:
            names.append("")
        elif place in constant:
            names.append(builder.constant(array, f"c{place}"))
        else:
            name = builder.input(f"x{place}", TensorType(DType.of(array.dtype), array.shape))
            inputs[name] = array
            names.append(name)
    outputs = builder.nodes_of(sample.op, names, sample.attributes, outputs=sample.outputs)
    return builder.graph(outputs), inputs


def interpretable(sample: Sample) -> bool:
    """Whether no part of the op is C."""
    graph = expand(graph_of(sample)[0], OPS)
    return not any(isinstance(OPS[node.op].compute, Extern) for node in graph.nodes)


def on_machines(samples: list[Sample]) -> list[ParameterSet]:
    return in_turn([(sample,) for sample in samples], MACHINES, [str(each) for each in samples])


LOOPED = [sample for sample in SAMPLES if interpretable(sample)]


@pytest.mark.parametrize(("sample", "machine"), on_machines(LOOPED))
def test_planned_sample(sample: Sample, machine: str) -> None:
    graph, inputs = graph_of(sample)
    assert_planned(graph, inputs, machine, max(sample.tolerance, 1e-5))


WEIGHTED = [
    sample
    for sample in LOOPED
    if sample.op in {"Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "QLinearConv"}
]


@pytest.mark.parametrize(("sample", "machine"), on_machines(WEIGHTED))
def test_planned_sample_with_constant_weights(sample: Sample, machine: str) -> None:
    graph, inputs = graph_of(sample, frozenset(range(1, len(sample.inputs))))
    assert_planned(graph, inputs, machine, max(sample.tolerance, 1e-5))
