"""Samples of gather, one-hot and writing into a cache."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.indexing import (
    GatherAttributes,
    GatherNDAttributes,
    OneHotAttributes,
    TensorScatterAttributes,
)

CONCRETE = "Set the shape of the input with `--input name=shape`"
ROWS = np.array([[0, -1], [2, 1]])

SAMPLES = [
    Sample("Gather", ("f32[3,4]", ROWS), GatherAttributes()),
    Sample("Gather", ("f32[2,3,4]", ROWS.astype(np.int32)), GatherAttributes(-2)),
    Sample("Gather", ("u8[5]", np.array(-2)), GatherAttributes()),
    Sample("GatherElements", ("f32[3,2]", ROWS), GatherAttributes(0)),
    Sample("GatherElements", ("f32[3,4]", ROWS.astype(np.int32)), GatherAttributes(-1)),
    Sample("GatherND", ("f32[3,4]", ROWS), GatherNDAttributes()),
    Sample("GatherND", ("f32[3,4,2]", ROWS), GatherNDAttributes()),
    Sample("GatherND", ("f32[2,3,4]", ROWS[:, :1]), GatherNDAttributes(1)),
    Sample("GatherND", ("f32[2,2,3,4]", ROWS[:, :, None]), GatherNDAttributes(2)),
    Sample(
        "GatherND",
        (np.array([[0, 1], [2, 3]]), np.array([[0, 0], [1, 1]])),
        GatherNDAttributes(),
        expected=([0, 3],),
    ),
    Sample(
        "OneHot",
        (np.array([1, -1, 5, 0]), np.array([2.0, 5.0], np.float32)),
        OneHotAttributes(3),
        expected=([[2, 5, 2], [2, 2, 5], [2, 2, 2], [5, 2, 2]],),
    ),
    Sample("OneHot", (ROWS.astype(np.float32), "i32[2]"), OneHotAttributes(4, 1)),
    Sample(
        "TensorScatter",
        ("f32[2,3,5,2]", "f32[2,3,2,2]", np.array([1, 3])),
        TensorScatterAttributes(),
    ),
    Sample(
        "TensorScatter",
        ("f32[2,5,2]", "f32[2,3,2]", np.array([4, 0])),
        TensorScatterAttributes(1, "circular"),
    ),
    Sample("TensorScatter", ("f32[2,5,2]", "f32[2,3,2]"), TensorScatterAttributes(1)),
]
BAD: list[Bad] = [
    Bad(
        "Gather",
        ("f32[3]", "f32[2]"),
        "gather: input 1 must be i32 or i64; got f32[2] (node bad)",
        GatherAttributes(),
    ),
    Bad(
        "Gather",
        ("f32[3]", "i64[2]"),
        "gather: axis must be within [-1, 0]; got 1 (node bad)",
        GatherAttributes(1),
    ),
    Bad(
        "Gather",
        ("f32[N,3]", "i64[2]"),
        f"gather: the batch must be concrete here; got f32[N,3], i64[2] (node bad). {CONCRETE}",
        GatherAttributes(0),
    ),
    Bad(
        "GatherElements",
        ("f32[3,2]", "i64[2]"),
        "gatherelements: data and indices must have one rank; got f32[3,2], i64[2] (node bad)",
        GatherAttributes(0),
    ),
    Bad(
        "GatherElements",
        ("f32[3,2]", "i64[2,3]"),
        "gatherelements: indices must not be longer than data along axis 1; "
        "got f32[3,2], i64[2,3] (node bad)",
        GatherAttributes(0),
    ),
    Bad(
        "GatherND",
        ("f32[3,2]", "i64[2,3]"),
        "gathernd: the last dimension of indices must be within [1, 2]; "
        "got f32[3,2], i64[2,3] (node bad)",
        GatherNDAttributes(),
    ),
    Bad(
        "GatherND",
        ("f32[3,2]", "i64[2,1]"),
        "gathernd: data and indices must agree in the first 1 dimensions; "
        "got f32[3,2], i64[2,1] (node bad)",
        GatherNDAttributes(1),
    ),
    Bad(
        "GatherND",
        ("f32[3,2]", "i64[2,1]"),
        "gathernd: batch_dims must be 0 or more and less than the ranks of data and indices; "
        "got f32[3,2], i64[2,1], batch_dims 2 (node bad)",
        GatherNDAttributes(2),
    ),
    Bad(
        "OneHot",
        ("i64[3]", "f32[3]"),
        "onehot: values must be two elements, off and on; got i64[3], f32[3] (node bad)",
        OneHotAttributes(3),
    ),
    Bad(
        "OneHot",
        ("i64[3]", "f32[2]"),
        "onehot: depth must be at least 1; got 0 (node bad)",
        OneHotAttributes(0),
    ),
    Bad(
        "TensorScatter",
        ("f32[2,3]", "f32[2,4]"),
        "tensorscatter: the update must not be longer than the cache; "
        "got f32[2,3], f32[2,4] (node bad)",
        TensorScatterAttributes(1),
    ),
    Bad(
        "TensorScatter",
        ("f32[2,3]", "f32[2,4]"),
        "tensorscatter: axis must not be the batch; got 0 (node bad)",
        TensorScatterAttributes(),
    ),
    Bad(
        "TensorScatter",
        ("f32[2,3]", "f32[2,4]"),
        "tensorscatter: mode must be linear or circular; got 'ring' (node bad)",
        TensorScatterAttributes(1, "ring"),
    ),
]
TYPES: list[Typed] = [
    Typed("Gather", ("f32[9,3]", "i64[N,5]"), ("f32[N,5,3]",), GatherAttributes(0)),
    Typed("Gather", ("f32[N,9,3]", "i64[5]"), ("f32[N,5,3]",), GatherAttributes(1)),
    Typed("Gather", ("f32[N,9,3]", "i64[]"), ("f32[N,3]",), GatherAttributes(1)),
    Typed("GatherElements", ("f32[N,9]", "i64[N,5]"), ("f32[N,5]",), GatherAttributes(1)),
    Typed("GatherND", ("f32[N,9]", "i64[N,1]"), ("f32[N]",), GatherNDAttributes(1)),
    Typed("OneHot", ("i64[N,9]", "f32[2]"), ("f32[N,9,4]",), OneHotAttributes(4)),
    Typed(
        "TensorScatter",
        ("f32[N,8,2]", "f32[N,1,2]", "i64[N]"),
        ("f32[N,8,2]",),
        TensorScatterAttributes(),
    ),
]
