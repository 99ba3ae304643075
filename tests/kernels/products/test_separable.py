"""Products with small matrices along two axes are one kernel, with windows in registers."""

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.tasks import assert_as_nest, offers, refusal, tasks_of
from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels.products import separable
from weft.kernels.selection import implementer
from weft.kernels.task import Task
from weft.loops.nodes import Load, Local
from weft.loops.statements import all_exprs, walk_stmts
from weft.loops.walk import walk
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.make import make
from weft.targets.find import target

MATRIX = np.array([[2, 0, 0], [1, 1, 1], [-1 / 3, 1 / 3, -1 / 3], [0, 0, 1]])


def transform(
    net: Net,
    filters: int,
    channels: int,
    order: tuple[int, ...] = (2, 3, 1, 0),
    matrix: np.ndarray = MATRIX,
) -> str:
    """A filter's transform in double precision."""
    rows = net.builder.constant(matrix, "rows")
    columns = net.builder.constant(matrix.T.copy(), "columns")
    wide = net.op("Cast", net.input(filters, channels, 3, 3), to=DType.F64)
    points = net.op("MatMul", net.op("MatMul", rows, wide), columns)
    return net.op("Transpose", net.op("Cast", points, to=DType.F32), perm=order)


def transformed(
    filters: int, channels: int, order: tuple[int, ...] = (2, 3, 1, 0), machine: str = "x86-avx512"
) -> list[Task]:
    """The tasks of a filter's transform."""
    net = Net()
    return tasks_of(net, transform(net, filters, channels, order), machine=machine)


@pytest.mark.parametrize(
    ("filters", "channels", "machine"),
    [
        (32, 18, "x86-avx512"),
        (20, 9, "x86-avx2"),
        (3, 2, "x86-avx2"),
        (4, 5, "generic"),
        (4, 3, "cortex-m4"),
    ],
)
def test_one_kernel_computes_what_the_definition_says(
    filters: int, channels: int, machine: str
) -> None:
    (task,) = transformed(filters, channels, machine=machine)
    (offered,) = offers(separable.propose, task)
    made = offered.make()
    assert made is not None
    assert_as_nest(task, made)
    # The matrices are literals: only the filter is read.
    read = {n.buffer for n in walk(*all_exprs(made.kernel.body)) if isinstance(n, Load)}
    assert len(made.operands) == 1
    assert not read & task.arrays.keys()


def test_axes_of_extent_1_and_tables_of_places() -> None:
    """A matrix of one row, as of a resize to one element: a table has the places that it weighs."""
    net = Net()
    x = net.input(2, 1, 1, 2, 3)
    resized = net.op("Resize", x, mode="cubic", scales=(0.75, 3.0, 1.0, 0.6, 1.0))
    _, task = tasks_of(net, resized)
    (offered,) = offers(separable.propose, task)
    made = offered.make()
    assert made is not None
    assert_as_nest(task, made)


def test_windows_that_lie_across_are_turned_into_a_panel() -> None:
    (task,) = transformed(32, 18)
    (offered,) = offers(separable.propose, task)
    made = offered.make()
    assert made is not None
    panels = [
        stmt.buffer.shape
        for stmt in walk_stmts(made.kernel.body)
        if isinstance(stmt, Local) and stmt.buffer.name == "panel"
    ]
    assert panels == [(16 * 9, 32), (2 * 9, 32)]


def test_transforms_by_equal_matrices_share_a_kernel() -> None:
    """As the groups of a convolution do: to make a kernel takes longer than to run it."""
    net = Net()
    matrices = MATRIX, MATRIX.copy(), 2 * MATRIX
    outputs = [transform(net, 8, 16, matrix=matrix) for matrix in matrices]
    plan = make(expand(net.graph(*outputs), OPS), OPS, implementer(target("x86-avx2")))
    made = [step.implementation for step in plan.steps if step.implementation]
    first, second, other = (each.kernel for each in made if each.scheme == "separable")
    assert first.body is second.body
    assert first.body != other.body


def test_points_along_the_vectors_are_left_to_contractions() -> None:
    tasks = transformed(4, 5, order=(1, 0, 2, 3))
    assert len(tasks) > 1
    assert all(refusal(separable.propose, task) for task in tasks)


def test_reasons() -> None:
    (task,) = transformed(32, 2)
    assert refusal(separable.propose, replace(task, constants=frozenset())) == (
        "a factor is no constant"
    )
    assert refusal(separable.propose, replace(task, arrays={})) == "a matrix is not known yet"
