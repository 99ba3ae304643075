"""Tasks for generators, and kernels run next to the plain nest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TypeVar

import numpy as np

from tests.plan.nets import Net
from weft.ir.types import TensorType
from weft.kernels import nest
from weft.kernels.alternatives import Alternative
from weft.kernels.contraction import contraction_of
from weft.kernels.elementwise import rows
from weft.kernels.generator import Propose
from weft.kernels.prepare import prepare
from weft.kernels.products import tiled
from weft.kernels.products.tile_form import TileForm, usual_form
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.interpret import run
from weft.loops.nodes import Kernel
from weft.loops.verify import verify
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.fusion import Group, form
from weft.plan.implementation import Constants, Encoded, FilterTransform, Implementation
from weft.plan.make import make
from weft.plan.storage import assign
from weft.plan.strides import StridedView
from weft.plan.tensors import only_used, own_outputs, tensor_program
from weft.rewrite.recipes import tidy
from weft.targets.find import target

T = TypeVar("T")


def offers(propose: Propose, task: Task) -> tuple[Alternative, ...]:
    """The alternatives of a generator; none where it refuses."""
    found = propose(task)
    return () if isinstance(found, Refusal) else found


def refusal(propose: Propose, task: Task) -> str:
    """Why a generator offers nothing; empty if it offers something."""
    found = propose(task)
    return found.reason if isinstance(found, Refusal) else ""


def found_by(analysis: Callable[[Task], T | Refusal], task: Task) -> T | None:
    """What an analysis finds of a task; ``None`` where it refuses."""
    result = analysis(task)
    return None if isinstance(result, Refusal) else result


def tasks_of(net: Net, *outputs: str, machine: str = "x86-avx2") -> list[Task]:
    """The tasks of a net's groups, in order."""
    graph = own_outputs(only_used(expand(net.graph(*outputs), OPS)))
    program = tensor_program(graph, OPS)
    storage = assign(program, form(program))
    return [
        prepare("k", step, storage.views, storage.types, graph.constants, target(machine))
        for step in storage.steps
        if isinstance(step, Group)
    ]


def all_tasks_of(
    net: Net, *outputs: str, machine: str = "x86-avx2", tidied: bool = False
) -> list[Task]:
    """The tasks of a net's groups and of the bodies of its scans.

    Unless the net is ``tidied``, loops are given their constants from outside.
    """
    found: list[Task] = []

    def implement(
        name: str,
        group: Group,
        views: Mapping[str, StridedView],
        types: Mapping[str, TensorType],
        constants: Constants,
    ) -> Implementation:
        task = prepare(name, group, views, types, constants, target(machine))
        found.append(task)
        return nest.generate(task)

    graph = expand(net.graph(*outputs), OPS)
    make(tidy(graph) if tidied else graph, OPS, implement)
    return found


def memory_of(task: Task) -> dict[str, np.ndarray]:
    """What is known of every input and else random memory, by the graph's names."""
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for value, buffer in zip(task.values, task.inputs, strict=True):
        reach = (extent - 1 for extent in buffer.shape)
        size = 1 + sum(a * step for a, step in zip(reach, buffer.steps, strict=True))
        found[value] = random.standard_normal(size).astype(buffer.dtype.numpy)
        if buffer.name in task.arrays:
            found[value] = task.arrays[buffer.name].ravel()
    return found


def tiled_kernel(task: Task, form: TileForm | None = None) -> Implementation | None:
    """The kernel of register tiles, cut as usual if it is not said how; none where refused."""
    parts = contraction_of(task)
    if isinstance(parts, Refusal) or not tiled.applies(parts):
        return None
    return tiled.write(parts, form or usual_form(parts))


def rows_kernel(task: Task) -> Implementation | None:
    """The kernel of reductions along rows; none where refused."""
    return next((each.make() for each in offers(rows.propose, task)), None)


def arrays_of(made: Implementation, memory: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What an implementation reads, packed."""
    found: list[np.ndarray] = []
    for operand in made.operands:
        array = memory[operand.value]
        if operand.packing is not None:
            packing = operand.packing
            wrapped = isinstance(packing, FilterTransform | Encoded)
            inner = packing.packing if wrapped else packing
            groups = packing.groups if isinstance(packing, FilterTransform) else 1
            assert array.size == groups * prod(inner.shape)
            array = packing.apply(array)
        found.append(array)
    return found


def computed(task: Task, made: Implementation, memory: dict[str, np.ndarray]) -> np.ndarray:
    """What an implementation writes, over poison."""
    verify(made.kernel)
    *inputs, output = made.kernel.params
    packed = arrays_of(made, memory)
    arrays = {buffer.name: array for buffer, array in zip(inputs, packed, strict=True)}
    reach = sum((e - 1) * step for e, step in zip(output.shape, output.steps, strict=True))
    arrays[output.name] = np.full(1 + reach, 77, output.dtype.numpy)
    run(made.kernel, arrays)
    return arrays[output.name]


def assert_as_nest(task: Task, made: Implementation) -> None:
    """The implementation writes what the plain loops write, and nothing else."""
    memory = memory_of(task)
    wanted = _nest(task, memory)
    np.testing.assert_allclose(computed(task, made, memory), wanted, rtol=1e-4, atol=1e-4)


_LAST: list[tuple[Kernel, dict[str, np.ndarray], np.ndarray]] = []
"""The plain loops that ran last, and what they read and wrote: tests compare several
implementations of a task with them, and interpreting them takes the most time."""


def _nest(task: Task, memory: dict[str, np.ndarray]) -> np.ndarray:
    made = nest.generate(task)
    for kernel, read, written in _LAST:
        if kernel == made.kernel and _equal(read, memory):
            return written
    _LAST[:] = [(made.kernel, memory, computed(task, made, memory))]
    return _LAST[0][2]


def _equal(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name])
        for name in left
    )
