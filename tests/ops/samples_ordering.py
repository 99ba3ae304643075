"""Samples of transpose, expand, tile, depth to space."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ir.types import Symbol
from weft.ops.ordering import (
    BlockAttributes,
    ExpandAttributes,
    TileAttributes,
    TransposeAttributes,
)

CONCRETE = "Set the shape of the input with `--input name=shape`"
SQUARES = np.arange(8.0).reshape(1, 8, 1, 1)

SAMPLES = [
    Sample("Transpose", ("f32[2,3,4]",), TransposeAttributes()),
    Sample("Transpose", ("f32[2,3,4]",), TransposeAttributes((0, 2, 1))),
    Sample("Transpose", ("u8[2,3,4,5]",), TransposeAttributes((3, 0, 2, 1))),
    Sample("Expand", ("f32[3,1]",), ExpandAttributes((2, 1, 4))),
    Sample("Expand", ("bool[2,1]",), ExpandAttributes((3,))),
    Sample("Expand", ("f32[]",), ExpandAttributes((2, 2))),
    Sample("Tile", ("f32[2,1,3]",), TileAttributes((2, 3, 1))),
    Sample("Tile", ("i32[2]",), TileAttributes((3,))),
    Sample(
        "DepthToSpace",
        (SQUARES,),
        BlockAttributes(2),
        expected=([[[[0, 2], [4, 6]], [[1, 3], [5, 7]]]],),
    ),
    Sample(
        "DepthToSpace",
        (SQUARES,),
        BlockAttributes(2, "CRD"),
        expected=([[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],),
    ),
    Sample("DepthToSpace", ("f32[2,18,2,3]",), BlockAttributes(3)),
    Sample("SpaceToDepth", ("f32[2,3,4,6]",), BlockAttributes(2)),
    Sample("SpaceToDepth", ("f32[2,3,4,6]",), BlockAttributes(2, "CRD")),
]
BAD: list[Bad] = [
    Bad(
        "Transpose",
        ("f32[2,3]",),
        "transpose: perm must be a permutation of 0..1; got f32[2,3], perm [0, 0] (node bad)",
        TransposeAttributes((0, 0)),
    ),
    Bad(
        "Transpose",
        ("f32[N,3]",),
        f"transpose: the batch must be concrete here; got f32[N,3] (node bad). {CONCRETE}",
        TransposeAttributes((1, 0)),
    ),
    Bad(
        "Expand",
        ("f32[2,3]",),
        "expand: a dimension can be expanded only from 1, to 0 or more; "
        "got f32[2,3] to [4, 3] (node bad)",
        ExpandAttributes((4, 3)),
    ),
    Bad(
        "Tile",
        ("f32[2,3]",),
        "tile: repeats must name a count of 0 or more for each axis; "
        "got f32[2,3], repeats [2] (node bad)",
        TileAttributes((2,)),
    ),
    Bad(
        "DepthToSpace",
        ("f32[1,6,2,2]",),
        "depthtospace: the channels must be a multiple of blocksize² = 4; "
        "got f32[1,6,2,2] (node bad)",
        BlockAttributes(2),
    ),
    Bad(
        "SpaceToDepth",
        ("f32[1,6,2,3]",),
        "spacetodepth: height and width must be multiples of blocksize = 2; "
        "got f32[1,6,2,3] (node bad)",
        BlockAttributes(2),
    ),
    Bad(
        "SpaceToDepth",
        ("f32[1,6,2]",),
        "spacetodepth: input 0 must have rank 4; got f32[1,6,2] (node bad)",
        BlockAttributes(2),
    ),
    Bad(
        "SpaceToDepth",
        ("f32[1,6,2,2]",),
        "spacetodepth: blocksize must be at least 1 and mode DCR or CRD; "
        "got 0 and 'DCR' (node bad)",
        BlockAttributes(0),
    ),
]
TYPES: list[Typed] = [
    Typed("Transpose", ("f32[N,3,4]",), ("f32[N,4,3]",), TransposeAttributes((0, 2, 1))),
    Typed("Expand", ("f32[N,1]",), ("f32[N,5]",), ExpandAttributes((1, 5))),
    Typed("Expand", ("f32[1,5]",), ("f32[2,0,5]",), ExpandAttributes((2, 0, 1))),
    Typed("Expand", ("f32[1,5]",), ("f32[N,5]",), ExpandAttributes((Symbol("N"), 5))),
    Typed("Tile", ("f32[N,2]",), ("f32[N,6]",), TileAttributes((1, 3))),
    Typed("DepthToSpace", ("f32[N,8,2,3]",), ("f32[N,2,4,6]",), BlockAttributes(2)),
    Typed("SpaceToDepth", ("f32[N,2,4,6]",), ("f32[N,8,2,3]",), BlockAttributes(2)),
]
