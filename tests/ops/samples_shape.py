"""Samples of views and shapes as values."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.shape import (
    FlattenAttributes,
    ReshapeAttributes,
    ShapeAttributes,
    SqueezeAttributes,
    UnsqueezeAttributes,
)

CONCRETE = "Set the shape of the input with `--input name=shape`"


def reshape(*shape: int, allowzero: int = 0) -> ReshapeAttributes:
    return ReshapeAttributes(shape, allowzero)


SAMPLES = [
    Sample("Reshape", ("f32[2,3,4]",), reshape(0, -1)),
    Sample("Reshape", ("f32[2,3,4]",), reshape(4, 6)),
    Sample("Reshape", ("f32[6,4]",), reshape(4, 6)),
    Sample("Reshape", ("i64[1,4,3,2]",), reshape(1, 4, 6)),
    Sample("Reshape", ("bool[2,12]",), reshape(2, 1, 3, 2, 2, 1)),
    Sample("Reshape", ("f32[2,6,5]",), reshape(3, 4, 5)),
    Sample("Reshape", ("f32[1,1]",), reshape()),
    Sample("Reshape", ("f32[]",), reshape(1, -1)),
    Sample(
        "Reshape",
        (np.arange(6).reshape(2, 3),),
        reshape(3, 2),
        expected=([[0, 1], [2, 3], [4, 5]],),
    ),
    Sample("Flatten", ("f32[2,3,4]",), FlattenAttributes()),
    Sample("Flatten", ("f32[2,3,4]",), FlattenAttributes(0)),
    Sample("Flatten", ("f32[2,3,4]",), FlattenAttributes(-1)),
    Sample("Flatten", ("f32[2,3,4]",), FlattenAttributes(3)),
    Sample("Squeeze", ("f32[1,3,1,2]",), SqueezeAttributes()),
    Sample("Squeeze", ("f32[1,3,1,2]",), SqueezeAttributes((-2,))),
    Sample("Unsqueeze", ("f32[3,2]",), UnsqueezeAttributes((0, -1))),
    Sample("Unsqueeze", ("f32[]",), UnsqueezeAttributes((0,))),
    Sample("Shape", ("f32[2,3,4]",), expected=([2, 3, 4],), attributes=ShapeAttributes()),
    Sample("Shape", ("f32[2,3,4]",), ShapeAttributes(-2, -1), expected=([3],)),
    Sample("Size", ("f32[2,3,4]",), expected=(24,)),
]
BAD: list[Bad] = [
    Bad(
        "Reshape",
        ("f32[2,3]",),
        "reshape: the new shape must have as many elements as the input; "
        "got f32[2,3] to [4, -1] (node bad)",
        reshape(4, -1),
    ),
    Bad(
        "Reshape",
        ("f32[2,3]",),
        "reshape: only one dimension may be -1; got [-1, -1] (node bad)",
        reshape(-1, -1),
    ),
    Bad(
        "Reshape",
        ("f32[2,3]",),
        "reshape: dimensions must be -1 or more; got [-2, 3] (node bad)",
        reshape(-2, 3),
    ),
    Bad(
        "Reshape",
        ("f32[6]",),
        "reshape: 0 in place 1 copies a dimension that the input has not; "
        "got f32[6] to [6, 0] (node bad)",
        reshape(6, 0),
    ),
    Bad(
        "Reshape",
        ("f32[N,3]",),
        f"reshape: the batch must be concrete here; got f32[N,3] (node bad). {CONCRETE}",
        reshape(3, -1),
    ),
    Bad(
        "Flatten",
        ("f32[2,3]",),
        "flatten: axis must be within [-2, 2]; got 3 (node bad)",
        FlattenAttributes(3),
    ),
    Bad(
        "Squeeze",
        ("f32[2,1]",),
        "squeeze: axis 0 must have the dimension 1; got f32[2,1] (node bad)",
        SqueezeAttributes((0,)),
    ),
    Bad(
        "Unsqueeze",
        ("f32[2]",),
        "unsqueeze: an axis may be named only once; got [0, -3] (node bad)",
        UnsqueezeAttributes((0, -3)),
    ),
    Bad(
        "Unsqueeze",
        ("f32[N,2]",),
        f"unsqueeze: the batch must be concrete here; got f32[N,2] (node bad). {CONCRETE}",
        UnsqueezeAttributes((0,)),
    ),
]
TYPES: list[Typed] = [
    Typed("Reshape", ("f32[N,8,7]",), ("f32[N,56]",), reshape(0, -1)),
    Typed("Reshape", ("f32[N,8,7]",), ("f32[N,56]",), reshape(-1, 56)),
    Typed("Reshape", ("f32[N,8,7]",), ("f32[N,4,2,7]",), reshape(0, 4, 2, 7)),
    Typed("Reshape", ("f32[0,3]",), ("f32[3,0]",), reshape(3, 0, allowzero=1)),
    Typed("Flatten", ("f32[N,8,7]",), ("f32[N,56]",), FlattenAttributes()),
    Typed("Squeeze", ("f32[N,8,1,1]",), ("f32[N,8]",), SqueezeAttributes((2, 3))),
    Typed("Squeeze", ("f32[N,8,1,1]",), ("f32[N,8]",), SqueezeAttributes()),
    Typed("Unsqueeze", ("f32[N,8]",), ("f32[N,1,8]",), UnsqueezeAttributes((1,))),
    Typed("Shape", ("f32[N,8]",), ("i64[2]",), ShapeAttributes()),
    Typed("Size", ("f32[N,8]",), ("i64[]",)),
]
