"""Packings: recorded on arrays without elements they are what they do to arrays."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.ir.unknown import Unknown, as_array
from weft.ops.evaluate import evaluate
from weft.ops.recorded import graph_of
from weft.ops.table import OPS
from weft.plan.implementation import Blocking, FilterTransform, Packing, QuarterSums

SIZES = st.integers(1, 5)


@st.composite
def packings(draw: st.DrawFn, shape: tuple[int, ...] = ()) -> Packing:
    shape = shape or tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    order = tuple(draw(st.permutations([each for each in range(len(shape)) if each != axis])))
    start = draw(st.integers(0, shape[axis] - 1))
    depth = draw(st.integers(1, shape[order[-1]]))
    blocks, width = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    return Packing(shape, axis, order, start, blocks, width, depth)


@st.composite
def transforms(draw: st.DrawFn) -> FilterTransform:
    shape = (draw(SIZES), draw(SIZES), 3, 3)
    rows = st.lists(st.sampled_from([0.0, 1.0, -0.5, 0.25]), min_size=3, max_size=3)
    matrix = tuple(tuple(draw(rows)) for _ in range(draw(st.integers(2, 4))))
    start = draw(st.integers(0, shape[0] - 1))
    blocks, width = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    order = (2, *draw(st.permutations((1, 3))))
    beside = draw(st.sampled_from([each for each in (1, 2) if len(matrix) % each == 0]))
    place = (start, blocks, width)
    packing = Packing(shape, 0, (2, 3, 1), *place)
    return draw(
        st.sampled_from(
            [
                FilterTransform(packing, matrix),
                FilterTransform(packing, matrix, groups=draw(st.integers(2, 3))),
                FilterTransform(Packing((*shape[:2], 3), 0, (2, 1), *place), matrix),
                FilterTransform(replace(packing, order=order), matrix, False, beside),
            ]
        )
    )


@st.composite
def blockings(draw: st.DrawFn) -> Blocking:
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=3)))
    axes = tuple(draw(st.permutations(range(len(shape)))))
    moved = tuple(shape[axis] for axis in axes)
    order = tuple(draw(st.permutations(range(len(shape)))))
    cut = st.tuples(st.integers(0, len(shape) - 1), st.integers(1, 3))
    return Blocking(shape, axes, moved, order, tuple(draw(st.lists(cut, max_size=3))))


@st.composite
def quarter_sums(draw: st.DrawFn) -> QuarterSums:
    width, axis = draw(st.integers(1, 3)), draw(st.integers(0, 1))
    shape = [2 * draw(SIZES), 2 * draw(SIZES)]
    shape[axis] = 2 * width * draw(SIZES)
    rows = st.tuples(*(st.sampled_from([0.0, 1.0, -1.0]) for _ in range(4)))
    sums = tuple(draw(st.lists(rows, min_size=1, max_size=7)))
    return QuarterSums((shape[0], shape[1]), axis, width, sums)


@given(st.one_of(packings(), transforms(), blockings(), quarter_sums()))
def test_a_recorded_packing_makes_the_same_bits(packing: Any) -> None:
    inner = packing.packing if isinstance(packing, FilterTransform) else packing
    shape = inner.seen if isinstance(inner, Blocking) else inner.shape
    if isinstance(packing, FilterTransform):
        shape = (packing.groups, *shape)
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    wanted = packing.apply(array.reshape(-1))
    recorded = packing.apply(as_array(Unknown(array.dtype, (array.size,), "w")))
    assert (recorded.dtype, recorded.shape) == (wanted.dtype, wanted.shape)
    (made,) = evaluate(
        graph_of({"packed": recorded}, "pack"), {"w": array.reshape(-1)}, OPS
    ).values()
    np.testing.assert_array_equal(made, wanted)


def test_groups_are_packed_one_after_another():
    matrix = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.0, 0.0, 1.0))
    each = FilterTransform(Packing((5, 2, 3, 3), 0, (2, 3, 1), 1, 2, 3), matrix)
    filters = np.random.default_rng(0).standard_normal((3, 5, 2, 3, 3)).astype(np.float32)
    packed = replace(each, groups=3).apply(filters)
    assert packed.shape == (3 * 2, 9, 2, 3)
    for group, part in enumerate(filters):
        np.testing.assert_array_equal(packed[2 * group : 2 * group + 2], each.apply(part))


def test_filters_are_transformed_without_arrays_of_all_their_intermediates():
    matrix = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
    transform = FilterTransform(Packing((256, 64, 3, 3), 0, (2, 3, 1), 0, 16, 16), matrix)
    filters = np.random.default_rng(0).standard_normal((256, 64, 3, 3)).astype(np.float32)
    tracemalloc.start()
    packed = transform.apply(filters)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * packed.nbytes  # in float64 the points alone are twice as many bytes
    wide = np.array(matrix)
    expected = wide @ filters.astype(np.float64) @ wide.T
    blocks = expected.astype(np.float32).reshape(16, 16, 64, 16).transpose(0, 3, 2, 1)
    np.testing.assert_allclose(packed, blocks.reshape(packed.shape), rtol=1e-6, atol=1e-6)
