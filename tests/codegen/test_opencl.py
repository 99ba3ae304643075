"""Every op whose definition is loops agrees with its reference on an OpenCL device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen import opencl
from tests.kernels.test_samples import LOOPED, graph_of
from tests.ops.samples import Sample
from tests.ops.test_oracle import MODULES, assert_close
from tests.turns import a_few, thorough
from weft.ir.graph import Graph
from weft.kernels.selection import implementer
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.make import make
from weft.plan.program import Program
from weft.plan.to_program import lower
from weft.targets.find import target

ITEMS = 8
_OF = 6
"""Without the thorough tests, one sample in so many is run, ..."""
OPTIMIZED = {"linear", "reduction"}
"""... and the device's compiler optimizes these families only."""
# Work-items cost next to nothing: every parallel loop becomes work-items.
_GENERIC = target("generic")
MACHINE = replace(_GENERIC, costs=replace(_GENERIC.costs, part=1.0))


def program_of(graph: Graph) -> Program:
    implement = implementer(MACHINE, threads=ITEMS)
    plan = make(expand(graph, OPS), OPS, implement, ITEMS)
    return lower(replace(plan, target=MACHINE))


_LOOPED = {id(sample) for sample in LOOPED}
FAMILIES: dict[str, list[Sample]] = {
    module.__name__.rpartition("samples_")[2]: [s for s in module.SAMPLES if id(s) in _LOOPED]
    for module in MODULES
}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl.Device:
    return opencl.open_device(tmp_path_factory.mktemp("pocl"))


@pytest.mark.parametrize("name", a_few([name for name, samples in FAMILIES.items() if samples], 17))
def test_samples(name: str, device: opencl.Device) -> None:
    samples = FAMILIES[name][:: 1 if thorough(name) else _OF]
    drawn = [graph_of(sample) for sample in samples]
    programs = [program_of(graph) for graph, _ in drawn]
    optimized = thorough(name) or name in OPTIMIZED
    results = opencl.run(device, programs, [inputs for _, inputs in drawn], optimized)
    for sample, (graph, inputs), found in zip(samples, drawn, results, strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, inputs, OPS)
        for name in graph.outputs:
            near = replace(sample, tolerance=max(sample.tolerance, 1e-5))
            assert_close(near, found[name], wanted[name])
