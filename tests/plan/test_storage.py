"""Storage: views that cost nothing, layouts, and copies where they pay."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.nets import Net
from weft.loops.nodes import Const
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.group import form
from weft.plan.program import Region
from weft.plan.storage import Storage, assign, order_of, packed, reshaped, row_major
from weft.plan.tensors import only_used, own_outputs, tensor_program


def storage_of(net: Net, *outputs: str) -> Storage:
    graph = own_outputs(only_used(expand(net.graph(*outputs), OPS)))
    program = tensor_program(graph, OPS)
    return assign(program, form(program))


# --- strides --------------------------------------------------------------------------------


def test_row_major_is_numpys():
    assert row_major((2, 3, 5)) == (15, 5, 1)
    assert row_major(()) == ()


shapes = st.lists(st.integers(1, 4), max_size=4)


@given(st.data(), shapes)
def test_packed_lies_in_the_order(data, dims):
    order = data.draw(st.permutations(range(len(dims))))
    strides = packed(dims, order)
    array = np.zeros([dims[axis] for axis in order], np.int8).transpose(np.argsort(order))
    assert array.shape == tuple(dims)
    # NumPy's stride of a dimension of one element is arbitrary.
    assert all(d == 1 or a == b for d, a, b in zip(dims, strides, array.strides, strict=True))
    again = packed(dims, order_of(strides, dims))
    assert all(d == 1 or a == b for d, a, b in zip(dims, strides, again, strict=True))


@st.composite
def strided(draw: st.DrawFn) -> tuple[np.ndarray, list[int]]:
    """A strided array of distinct numbers, and another shape of as many elements."""
    dims = draw(shapes)
    gaps = [draw(st.sampled_from([1, 1, 2])) for _ in dims]
    memory = np.arange(prod(dims) * prod(gaps))
    array = memory.reshape([d * gap for d, gap in zip(dims, gaps, strict=True)])
    array = array[tuple(slice(None, None, gap) for gap in gaps)]
    array = array.transpose(draw(st.permutations(range(len(dims)))))
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.integers(1, 3)), *array.shape))
    left, target = array.size, list[int]()
    while left > 1 and len(target) < 4:
        target.append(draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
        left //= target[-1]
    return array, [*target, left]


@given(strided())
def test_reshaped_views_what_numpy_views(case):
    array, target = case
    steps = [stride // array.itemsize for stride in array.strides]
    found = reshaped(array.shape, steps, target)
    try:
        wanted = np.reshape(array, target, copy=False)
    except ValueError:
        wanted = None
    assert (found is None) == (wanted is None)
    if found is not None:
        bytes = [step * array.itemsize for step in found]
        read = np.lib.stride_tricks.as_strided(array, target, bytes)
        assert (read == array.reshape(target)).all()


def test_reshaped_of_nothing_is_anything():
    assert reshaped((0, 3), (3, 1), (3, 0)) == (0, 1)
    assert reshaped((), (), (1, 1)) == (1, 1)


# --- views ----------------------------------------------------------------------------------


def test_movement_is_a_view():
    net = Net()
    x = net.op("Tanh", net.input(4, 6))
    turned = net.op("Transpose", x, perm=(1, 0))
    part = net.op("Slice", turned, starts=(1,), ends=(6,), axes=(0,), steps=(2,))
    wide = net.op("Expand", net.op("Unsqueeze", part, axes=(1,)), shape=(3, 5, 4))
    first, second = net.several("Split", [x], 2, axis=1, split=(2, 4))
    # Contractions read their operands from memory.
    users = [net.op("MatMul", part, net.op("MatMul", first, second)) for _ in range(0)]
    found = storage_of(
        net, *(net.op("Reshape", v, shape=(-1,)) for v in (wide, first, second)), *users
    )
    assert (found.views[wide].root, found.views[wide].offset) == (x, 1)
    assert found.views[wide].strides == (2, 0, 6)
    assert (found.views[first].root, found.views[first].offset) == (x, 0)
    assert (found.views[second].root, found.views[second].offset) == (x, 2)
