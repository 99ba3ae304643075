"""Samples of concat, split, slice, compress, reverse sequence, trilu."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.slicing import (
    CompressAttributes,
    ConcatAttributes,
    ReverseSequenceAttributes,
    SliceAttributes,
    SplitAttributes,
    TriluAttributes,
)

CONCRETE = "Set the shape of the input with `--input name=shape`"
FAR = 2**63 - 1

SAMPLES = [
    Sample("Concat", ("f32[2,3]", "f32[2,1]", "f32[2,4]"), ConcatAttributes(1)),
    Sample("Concat", ("i8[2,3]", "i8[1,3]"), ConcatAttributes(-2)),
    Sample("Concat", ("f32[2,3]",), ConcatAttributes(0)),
    Sample("Concat", ("f32[1,2]", "f32[0,2]", "f32[2,2]"), ConcatAttributes(0)),
    Sample("Split", ("f32[2,6]",), SplitAttributes(1), outputs=3),
    Sample("Split", ("f32[2,7]",), SplitAttributes(-1, num_outputs=3), outputs=3),
    Sample("Split", ("f32[6]",), SplitAttributes(0, (2, 4)), outputs=2),
    Sample("Slice", ("f32[5,6]",), SliceAttributes((1, -4), (4, FAR))),
    Sample("Slice", ("f32[5,6]",), SliceAttributes((0, -1), (3, -FAR), (0, 1), (2, -2))),
    Sample("Slice", ("f32[5,6]",), SliceAttributes((100,), (0,), (-1,), (-1,))),
    Sample("Slice", ("f32[5,6]",), SliceAttributes((-100,), (2,), (0,))),
    # Backwards from before the first element, ONNX starts at the first.
    Sample(
        "Slice",
        (np.arange(5, dtype=np.float32),),
        SliceAttributes((-7,), (-FAR,), (0,), (-1,)),
        expected=([0],),
    ),
    Sample("Slice", ("f32[0]",), SliceAttributes((-7,), (-FAR,), (0,), (-2,))),
    Sample(
        "Slice",
        (np.arange(10),),
        SliceAttributes((7,), (-11,), (0,), (-3,)),
        expected=([7, 4, 1],),
    ),
    Sample("Compress", ("f32[3,2]",), CompressAttributes((False, True, True), 0)),
    Sample("Compress", ("f32[3,2]",), CompressAttributes((False, True), -1)),
    Sample("Compress", ("f32[3,2]",), CompressAttributes((False, True, False, True))),
    Sample(
        "ReverseSequence",
        ("f32[4,3,2]", np.array([1, 4, 2])),
        ReverseSequenceAttributes(1, 0),
    ),
    Sample("ReverseSequence", ("f32[3,4]", np.array([0, 4, 3])), ReverseSequenceAttributes(0, 1)),
    Sample("Trilu", ("f32[4,5]",), TriluAttributes(1)),
    Sample("Trilu", ("i64[2,4,3]",), TriluAttributes(0, 1)),
    Sample("Trilu", ("bool[4,4]",), TriluAttributes(1, -2)),
    Sample("Trilu", ("f32[2,4]",), TriluAttributes(1, 7)),
]
BAD: list[Bad] = [
    Bad(
        "Concat",
        ("f32[2,3]", "f32[1,3]"),
        "concat: the inputs must agree in all but axis 1; got f32[2,3], f32[1,3] (node bad)",
        ConcatAttributes(1),
    ),
    Bad(
        "Concat",
        ("f32[2,3]", "f32[1,3]"),
        "concat: axis must be within [-2, 1]; got 2 (node bad)",
        ConcatAttributes(2),
    ),
    Bad(
        "Concat",
        ("f32[N,3]", "f32[N,3]"),
        f"concat: the batch must be concrete here; got f32[N,3], f32[N,3] (node bad). {CONCRETE}",
        ConcatAttributes(0),
    ),
    Bad(
        "Split",
        ("f32[6]",),
        "split: the lengths must be 0 or more and sum to 6; got [2, 3] (node bad)",
        SplitAttributes(0, (2, 3)),
        outputs=2,
    ),
    Bad(
        "Split",
        ("f32[6]",),
        "split: num_outputs must be at least 1; got 0 (node bad)",
        SplitAttributes(0, num_outputs=0),
    ),
    Bad(
        "Slice",
        ("f32[6]",),
        "slice: starts, ends, axes and steps must be of one length, and no step 0; "
        "got [0], [3], [0], [0] (node bad)",
        SliceAttributes((0,), (3,), (0,), (0,)),
    ),
    Bad(
        "Slice",
        ("f32[N,6]",),
        f"slice: the batch must be concrete here; got f32[N,6] (node bad). {CONCRETE}",
        SliceAttributes((1,), (FAR,), (0,)),
    ),
    Bad(
        "Compress",
        ("f32[2]",),
        "compress: at most 2 conditions; got 3 (node bad)",
        CompressAttributes((True, True, False)),
    ),
    Bad(
        "ReverseSequence",
        ("f32[2,3]", "i64[3]"),
        "reversesequence: sequence_lens must name a length for each entry of the batch; "
        "got f32[2,3], i64[3] (node bad)",
        ReverseSequenceAttributes(0, 1),
    ),
    Bad(
        "ReverseSequence",
        ("f32[2,3]", "i64[3]"),
        "reversesequence: batch_axis and time_axis must be 0 and 1 in either order, of an "
        "input of rank 2 or more; got 0 and 2, f32[2,3] (node bad)",
        ReverseSequenceAttributes(0, 2),
    ),
    Bad(
        "Trilu",
        ("f32[3]",),
        "trilu: the input must have rank 2 or more; got f32[3] (node bad)",
        TriluAttributes(),
    ),
]
TYPES: list[Typed] = [
    Typed("Concat", ("f32[N,3]", "f32[N,4]"), ("f32[N,7]",), ConcatAttributes(1)),
    Typed("Split", ("f32[N,7]",), ("f32[N,4]", "f32[N,3]"), SplitAttributes(1)),
    Typed("Slice", ("f32[N,7]",), ("f32[N,2]",), SliceAttributes((0, 5), (FAR, FAR))),
    Typed("Slice", ("f32[4,7]",), ("f32[4,0]",), SliceAttributes((5,), (5,), (1,))),
    Typed("Compress", ("f32[N,2]",), ("f32[N,1]",), CompressAttributes((False, True), 1)),
    Typed("Trilu", ("f32[N,4,4]",), ("f32[N,4,4]",), TriluAttributes()),
]
