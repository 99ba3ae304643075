"""Storage: views that cost nothing, layouts, and copies where they pay."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.nets import Net
from weft.loops.nodes import Const
from weft.loops.shapes import row_major
from weft.loops.walk import walk
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.fusion import Group, form
from weft.plan.program import Region
from weft.plan.storage import Storage, assign
from weft.plan.strides import StridedView, order_of, packed, reshaped
from weft.plan.tensors import Opaque, only_used, own_outputs, tensor_program


def storage_of(net: Net, *outputs: str) -> Storage:
    graph = own_outputs(only_used(expand(net.graph(*outputs), OPS)))
    program = tensor_program(graph, OPS)
    return assign(program, form(program))


# --- strides --------------------------------------------------------------------------------


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


def used(net: Net, *values: str) -> list[str]:
    """Users of values in several groups, so that the values stand alone."""
    return [net.op(op, value) for value in values for op in ("Exp", "Neg")]


def test_movement_is_a_view():
    net = Net()
    x = net.op("Tanh", net.input(4, 6))
    turned = net.op("Transpose", x, perm=(1, 0))
    part = net.op("Slice", turned, starts=(1,), ends=(6,), axes=(0,), steps=(2,))
    wide = net.op("Expand", net.op("Unsqueeze", part, axes=(1,)), shape=(3, 5, 4))
    first, second = net.several("Split", [x], 2, axis=1, split=(2, 4))
    found = storage_of(net, *used(net, turned, part, wide, first, second)).views
    assert found[turned] == StridedView(x, 0, (1, 6))
    assert found[part] == StridedView(x, 1, (2, 6))
    assert found[wide] == StridedView(x, 1, (2, 0, 6))
    assert found[first] == StridedView(x, 0, (6, 1))
    assert found[second] == StridedView(x, 2, (6, 1))


def test_what_walks_backwards_is_copied():
    net = Net()
    x = net.op("Tanh", net.input(6))
    back = net.op("Slice", x, starts=(-1,), ends=(-7,), axes=(0,), steps=(-1,))
    assert storage_of(net, *used(net, back)).views[back] == StridedView(back, 0, (1,))


def test_a_reshape_is_a_view_where_memory_allows():
    net = Net()
    x = net.op("Tanh", net.input(4, 6))
    flat = net.op("Reshape", x, shape=(2, 12))
    turned = net.op("Transpose", x, perm=(1, 0))
    mixed = net.op("Reshape", turned, shape=(2, 12))
    found = storage_of(net, *used(net, flat, turned, mixed)).views
    assert found[flat] == StridedView(x, 0, (12, 1))
    assert found[mixed] == StridedView(mixed, 0, (12, 1))


def test_views_of_inputs_and_constants_cost_nothing():
    net = Net()
    x, constant = net.input(4, 6), net.constant(4, 6)
    values = [net.op("Transpose", each, perm=(1, 0)) for each in (x, constant)]
    found = storage_of(net, *used(net, *values))
    assert [found.views[value].root for value in values] == [x, constant]
    assert found.roots[x].region is Region.INPUT
    assert found.roots[constant].region is Region.WEIGHTS
    assert len(found.steps) == 4


def test_parts_are_windows_of_the_whole():
    net = Net()
    x = net.input(1, 4, 3, 3)
    left, right = net.conv(x, 2), net.conv(x, 3)
    whole = net.op("Concat", left, right, axis=1)
    found = storage_of(net, net.conv(whole, 2)).views
    assert found[whole] == StridedView(whole, 0, (45, 1, 15, 5))
    assert found[left] == StridedView(whole, 0, (45, 1, 15, 5))
    assert found[right] == StridedView(whole, 2, (45, 1, 15, 5))


def test_windows_of_windows_of_a_whole():
    net = Net()
    parts = [net.op("Tanh", net.input(2, 3)) for _ in range(3)]
    pair = net.op("Concat", *parts[1:], axis=1)
    whole = net.op("Concat", *parts, axis=1)
    found = storage_of(net, *used(net, pair, whole)).views
    assert found[pair] == StridedView(whole, 3, (9, 1))
    assert found[parts[2]] == StridedView(whole, 6, (9, 1))


# --- outputs --------------------------------------------------------------------------------


def test_outputs_have_memory_of_their_own_as_the_caller_sees_them():
    net = Net()
    made = net.op("Tanh", net.input(4, 6))
    outputs = [
        made,
        net.op("Transpose", made, perm=(1, 0)),
        net.op("Reshape", made, shape=(24,)),
        net.op("Concat", made, made, axis=0),
    ]
    found = storage_of(net, *outputs)
    for value in outputs:
        assert found.roots[value].region is Region.OUTPUT
        assert found.views[value] == StridedView(value, 0, row_major(found.types[value].dims))


def test_an_image_for_the_caller_is_written_channels_last_first():
    net = Net()
    made = net.conv(net.input(1, 3, 5, 5), 4)
    found = storage_of(net, made)
    hidden = f"{made}_channels_last"
    assert found.views[hidden].strides == (100, 1, 20, 4)
    assert found.views[made].strides == (100, 25, 5, 1)
    assert [step.value for step in found.steps] == [hidden, made]
    pooled = net.op("GlobalAveragePool", made)
    assert [step.value for step in storage_of(net, pooled).steps] == [made, pooled]


# --- layouts --------------------------------------------------------------------------------


def test_images_lie_channels_last_through_what_keeps_their_axes():
    net = Net()
    x = net.op("Tanh", net.input(1, 3, 5, 5))
    conv = net.conv(net.op("Abs", x), 4)
    pooled = net.op("MaxPool", conv, kernel=(2, 2))
    found = storage_of(net, net.op("GlobalAveragePool", net.op("Neg", pooled)), *used(net, x)).views
    assert order_of(found[x].strides, (2, 3, 5, 5)) == (0, 2, 3, 1)
    assert order_of(found[conv].strides, (2, 4, 5, 5)) == (0, 2, 3, 1)
    assert order_of(found[pooled].strides, (2, 4, 4, 4)) == (0, 2, 3, 1)


def test_elementwise_results_lie_as_their_operand():
    net = Net()
    x = net.op("Tanh", net.input(4, 6))
    turned = net.op("Transpose", x, perm=(1, 0))
    made = net.op("Exp", turned)
    found = storage_of(net, *used(net, made, turned, x)).views
    assert found[turned] == StridedView(x, 0, (1, 6))
    assert found[made] == StridedView(made, 0, (1, 6))


def test_results_lie_as_the_operand_whose_axes_they_walk_in_another_order():
    net = Net()
    x = net.op("Tanh", net.input(4, 6, 8))
    made = net.op("Exp", net.op("Transpose", x, perm=(2, 0, 1)))
    wide = net.op("Resize", net.op("Tanh", net.input(4, 6)), sizes=(8, 12), mode="nearest")
    found = storage_of(net, *used(net, made, wide, x)).views
    assert found[made].strides == (1, 48, 8)
    assert found[wide].strides == (12, 1)


def test_windows_over_channels_that_lie_apart_read_one_copy():
    net = Net()
    x = net.input(1, 8, 6, 6)
    pooled = [net.op("MaxPool", x, kernel=(size, size)) for size in (2, 3)]
    found = storage_of(net, *used(net, *pooled))
    copies = [value for value in found.views if value.startswith("x_channels_last")]
    assert len(copies) == 1
    assert found.views[copies[0]].strides == (288, 1, 48, 8)
    assert [step.reads for step in found.steps[1:3]] == [(copies[0],)] * 2
    means = storage_of(net, net.op("GlobalAveragePool", x))
    assert [step.reads for step in means.steps] == [("x",)]


def test_what_is_read_where_data_say_is_read_along_channels():
    net = Net()
    x, grid = net.input(1, 8, 6, 6), net.input(1, 5, 5, 2)
    sampled = net.op("GridSample", x, grid)
    found = storage_of(net, *used(net, sampled))
    assert [step.reads for step in found.steps[:2]] == [("x",), ("x_1", "x_channels_last")]
    assert found.views["x_channels_last"].strides == (288, 1, 48, 8)
    assert found.views[sampled].strides == (200, 1, 40, 8)


def test_images_turned_for_the_caller_are_written_at_once():
    net = Net()
    x = net.op("Transpose", net.input(1, 6, 6, 8), perm=(0, 3, 1, 2))
    pooled = net.op("MaxPool", x, kernel=(2, 2))
    found = storage_of(net, net.op("Transpose", pooled, perm=(0, 2, 3, 1)))
    assert [step.reads for step in found.steps] == [("x",)]


def test_factors_lie_as_their_product_reads_them():
    net = Net()
    scores = "bqd,bkd->bqk"
    query, key = net.op("Tanh", net.input(2, 3, 8)), net.op("Tanh", net.input(2, 5, 8))
    found = storage_of(net, net.op("Einsum", query, key, equation=scores)).views
    assert found[query].strides == (24, 8, 1)
    assert found[key].strides == (40, 1, 5)


def test_a_factor_that_would_be_read_with_gaps_is_copied():
    net = Net()
    x = net.op("Tanh", net.input(4, 6))
    fast = net.op("Slice", net.input(6, 9), starts=(0,), ends=(5,), axes=(1,))
    slow = net.op("Transpose", net.input(5, 6), perm=(1, 0))
    found = storage_of(net, net.op("MatMul", x, fast), net.op("MatMul", x, slow)).views
    assert found[fast] == StridedView("x_1", 0, (9, 1))
    assert found[slow] == StridedView(slow, 0, (5, 1))


def test_c_bodies_read_packed_operands():
    net = Net()
    x = net.op("Tanh", net.input(4, 6))
    turned = net.op("Transpose", x, perm=(1, 0))
    sums = [net.op("CumSum", each, axis=0) for each in (x, turned)]
    steps = [step for step in storage_of(net, *sums).steps if isinstance(step, Opaque)]
    assert [step.node.inputs for step in steps] == [(x,), (f"{turned}_packed",)]


def test_values_without_elements_are_not_computed():
    net = Net()
    x, empty = net.input(2, 3), net.input(0, 3)
    whole = net.op("Concat", net.op("Tanh", empty), net.op("Neg", x), axis=0)
    assert [step.value for step in storage_of(net, whole).steps] == ["neg_out"]


def test_constants_of_one_element_are_in_the_code():
    net = Net()
    made = net.op("Mul", net.input(3), net.constant(1))
    (step,) = storage_of(net, made).steps
    assert isinstance(step, Group)
    assert step.reads == ("x",)
    assert any(isinstance(node, Const) for node in walk(step.compute.value))


def test_heads_lie_where_a_reshape_joins_them():
    net = Net()
    mixed = net.op("MatMul", net.input(1, 3, 7, 5), net.input(1, 3, 5, 4))
    turned = net.op("Transpose", mixed, perm=(0, 2, 1, 3))
    joined = net.op("Reshape", turned, shape=(7, 12))
    storage = storage_of(net, net.op("MatMul", joined, net.constant(12, 6)))
    assert storage.views[mixed].strides[1:] == (4, 12, 1)
    assert storage.views[joined] == StridedView(mixed, 0, (12, 1))
    assert len(storage.steps) == 2


def test_heads_that_are_read_twice_lie_as_they_are():
    net = Net()
    mixed = net.op("MatMul", net.input(1, 3, 7, 5), net.input(1, 3, 5, 4))
    turned = net.op("Transpose", mixed, perm=(0, 2, 1, 3))
    joined = net.op("Reshape", turned, shape=(7, 12))
    other = net.op("ReduceMax", mixed, axes=(3,))
    storage = storage_of(net, net.op("MatMul", joined, net.constant(12, 6)), other)
    assert storage.views[mixed].strides[1:] == (28, 4, 1)


def test_values_of_which_an_image_takes_a_small_part_lie_as_they_are():
    net = Net()
    x = net.op("Tanh", net.input(1, 7, 6))
    first = net.op("Slice", x, starts=(0,), ends=(1,), axes=(1,))
    halves = net.op("Tanh", net.input(1, 8, 6))
    parts = [net.op("Slice", halves, starts=(n,), ends=(n + 4,), axes=(1,)) for n in (0, 4)]
    outputs = [net.conv(each, 3, 1) for each in (first, *parts)]
    found = storage_of(net, *outputs, *used(net, x, halves)).views
    assert order_of(found[x].strides, (2, 7, 6)) == (0, 1, 2)
    assert order_of(found[halves].strides, (2, 8, 6)) == (0, 2, 1)


def test_products_lie_as_their_factors_let_vectors_be_read():
    net = Net()
    turned = net.op("Transpose", net.input(6, 5), perm=(1, 0))
    wide = net.input(5, 8)
    # Beside a value that lies transposed: one whose factor lies so, too, and one that does not.
    same = net.op("Add", turned, net.dense(turned, 6))
    other = net.op("Add", turned, net.dense(wide, 6))
    found = storage_of(net, *used(net, same, other)).views
    assert found[turned].strides == (1, 5)
    assert found[same].strides == (1, 5)
    assert found[other].strides == (6, 1)
