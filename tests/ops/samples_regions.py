"""Samples of pooling over regions of interest."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.regions import MaxRoiPoolAttributes, RoiAlignAttributes

ROIS = np.array(
    [[0, 0, 9, 9], [1.3, 2.1, 4.8, 6.2], [-3, 4, 20, 5], [5, 5, 5, 5], [8, 8, 2, 2]], np.float32
)
BATCH = np.array([0, 1, 1, 0, 1])
WITH_BATCH = np.concatenate([BATCH[:, None], ROIS], 1).astype(np.float32)
SQUARE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
WHOLE = np.array([[0, 0, 0, 3, 3]], np.float32)

SAMPLES = [
    *(
        Sample(
            "RoiAlign",
            ("f32[2,3,7,8]", ROIS, BATCH),
            RoiAlignAttributes(mode, 3, 2, ratio, 0.75, coordinates),
            tolerance=1e-5,
        )
        for mode, ratio, coordinates in product(
            ("avg", "max"), (0, 2), ("half_pixel", "output_half_pixel")
        )
    ),
    Sample(
        "RoiAlign",
        ("f64[2,3,7,8]", ROIS.astype(np.float64), BATCH.astype(np.int32)),
        RoiAlignAttributes(output_height=2, output_width=2),
        tolerance=1e-12,
    ),
    Sample("MaxRoiPool", ("f32[2,3,7,8]", WITH_BATCH), MaxRoiPoolAttributes((3, 2), 0.75)),
    Sample("MaxRoiPool", ("f32[2,1,7,8]", WITH_BATCH), MaxRoiPoolAttributes((5, 4))),
    Sample(
        "MaxRoiPool",
        (SQUARE, WHOLE),
        MaxRoiPoolAttributes((2, 2)),
        expected=([[[[5, 7], [13, 15]]]],),
    ),
]
BAD: list[Bad] = [
    Bad(
        "RoiAlign",
        ("f16[1,1,4,4]", "f16[2,4]", "i64[2]"),
        "roialign: the input must be f32 or f64; got f16[1,1,4,4], f16[2,4], i64[2] (node bad)",
        RoiAlignAttributes(),
    ),
    Bad(
        "RoiAlign",
        ("f32[1,1,0,4]", "f32[2,4]", "i64[2]"),
        "roialign: there is nothing to pool; got f32[1,1,0,4], f32[2,4], i64[2] (node bad)",
        RoiAlignAttributes(),
    ),
    Bad(
        "RoiAlign",
        ("f32[1,1,4,4]", "f32[2,5]", "i64[2]"),
        "roialign: rois must be [regions,4] of the input's type, batch_indices [regions]; "
        "got f32[1,1,4,4], f32[2,5], i64[2] (node bad)",
        RoiAlignAttributes(),
    ),
    Bad(
        "RoiAlign",
        ("f32[1,1,4,4]", "f32[2,4]", "i64[2]"),
        "roialign: mode must be avg or max and coordinate_transformation_mode half_pixel or "
        "output_half_pixel; got 'sum' and 'half_pixel' (node bad)",
        RoiAlignAttributes("sum"),
    ),
    Bad(
        "RoiAlign",
        ("f32[1,1,4,4]", "f32[2,4]", "i64[2]"),
        "roialign: output_height and output_width must be at least 1; got 0 and 1 (node bad)",
        RoiAlignAttributes(output_height=0),
    ),
    Bad(
        "MaxRoiPool",
        ("f32[1,1,4,4]", "f32[2,4]"),
        "maxroipool: rois must be [regions,5] of the input's type: batch, x, y, x, y; "
        "got f32[1,1,4,4], f32[2,4] (node bad)",
        MaxRoiPoolAttributes((2, 2)),
    ),
    Bad(
        "MaxRoiPool",
        ("f32[1,1,4,4]", "f32[2,5]"),
        "maxroipool: pooled_shape must be two positive numbers; got [2] (node bad)",
        MaxRoiPoolAttributes((2,)),
    ),
]
TYPES: list[Typed] = []
