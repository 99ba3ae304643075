"""Samples of resize, upsample and resampling by tables."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.interpolation import COORDINATES, NEAREST, ResizeAttributes
from weft.ops.resampling import ResampleAttributes, UpsampleAttributes

CONCRETE = "Set the shape of the input with `--input name=shape`"
CROP = "tf_crop_and_resize"
SQUARE = np.array([[[[1.0, 2.0], [3.0, 4.0]]]], np.float32)


def resize(*scales: float, **rest: object) -> ResizeAttributes:
    return ResizeAttributes(scales=scales, **rest)


def sized(*sizes: int, **rest: object) -> ResizeAttributes:
    return ResizeAttributes(sizes=sizes, **rest)


SAMPLES = [
    Sample(
        "Resize",
        (SQUARE,),
        resize(1, 1, 2, 3),
        expected=([[[[1, 1, 1, 2, 2, 2]] * 2 + [[3, 3, 3, 4, 4, 4]] * 2]],),
    ),
    Sample(
        "Resize",
        (SQUARE,),
        resize(1, 1, 1, 2, mode="linear"),
        tolerance=1e-6,
        expected=([[[[1, 1.25, 1.75, 2], [3, 3.25, 3.75, 4]]]],),
    ),
    *(
        Sample(
            "Resize",
            ("f32[5,7]",),
            sized(8, 4, coordinate_transformation_mode=coordinate, nearest_mode=nearest),
        )
        for coordinate, nearest in product(COORDINATES, NEAREST)
        if coordinate != CROP
    ),
    *(
        Sample(
            "Resize",
            ("f32[2,5,7]",),
            resize(
                1.7,
                0.6,
                axes=(-2, 2),
                mode=mode,
                coordinate_transformation_mode=coordinate,
                antialias=antialias,
                exclude_outside=exclude,
            ),
            tolerance=1e-5,
        )
        for mode, coordinate, antialias, exclude in product(
            ("linear", "cubic"), ("half_pixel", "align_corners"), (0, 1), (0, 1)
        )
    ),
    # As PyTorch and onnxruntime have them.  With align_corners the ends meet, whatever the scale.
    Sample(
        "Resize",
        (np.arange(5, dtype=np.float32),),
        resize(0.7, mode="linear", coordinate_transformation_mode="align_corners"),
        expected=([0, 2, 4],),
    ),
    Sample(
        "Resize",
        (np.arange(7, dtype=np.float32) ** 3,),
        resize(0.7, mode="cubic", coordinate_transformation_mode="align_corners"),
        tolerance=1e-6,
        expected=([0, 8, 64, 216],),
    ),
    Sample(
        "Resize",
        (np.arange(10, dtype=np.float32),),
        resize(0.55, mode="linear", roi=(0.1, 0.8), coordinate_transformation_mode=CROP),
        tolerance=1e-6,
        expected=([0.9, 2.475, 4.05, 5.625, 7.2],),
    ),
    Sample(
        "Resize",
        (np.arange(10, dtype=np.float32),),
        resize(0.35, mode="linear", roi=(0.1, 0.8), coordinate_transformation_mode=CROP, axes=(0,)),
        tolerance=1e-6,
        expected=([0.9, 4.05, 7.2],),
    ),
    # 3 / 0.6 is 5 in single precision, and 4.9999998 in double.
    Sample(
        "Resize",
        (np.arange(10, dtype=np.float32),),
        resize(
            float(np.float32(0.6)),
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        expected=([0, 1, 3, 5, 6, 8],),
    ),
    Sample(
        "Resize",
        (np.arange(6, dtype=np.float32),),
        resize(0.2, mode="cubic", coordinate_transformation_mode="pytorch_half_pixel"),
        expected=([0],),
    ),
    Sample("Resize", ("u8[4,4]",), sized(7, 3, mode="cubic"), tolerance=1e-6),
    Sample("Resize", ("f16[4,4]",), sized(7, 3, mode="linear"), tolerance=1e-3),
    Sample("Resize", ("f32[4,6]",), sized(8, 8, keep_aspect_ratio_policy="not_larger")),
    Sample("Resize", ("f32[4,6]",), sized(8, 8, keep_aspect_ratio_policy="not_smaller")),
    Sample("Resize", ("f32[4,6]",), resize(1, 1)),
    *(
        Sample(
            "Resize",
            ("f32[1,6,7]",),
            sized(
                1,
                5,
                4,
                mode=mode,
                roi=(0, 0.4, 0.6, 1, 1.2, 0.3),
                coordinate_transformation_mode=CROP,
                extrapolation_value=10.0,
            ),
            tolerance=1e-5,
        )
        for mode in ("nearest", "linear")
    ),
    Sample("Upsample", ("f32[1,2,3,4]",), UpsampleAttributes((1, 1, 2, 3))),
    Sample(
        "Upsample", ("f32[1,2,3,4]",), UpsampleAttributes((1, 1, 2, 3), "linear"), tolerance=1e-6
    ),
    Sample(
        "Resample",
        ("f32[2,4,3]", np.array([[0, 3], [1, 1]], np.int32), "f32[2,2]"),
        ResampleAttributes(-2),
        tolerance=1e-6,
    ),
]
BAD: list[Bad] = [
    Bad(
        "Resize",
        ("f32[2,3]",),
        "resize: either scales or sizes must name 2 numbers; "
        "got scales (2.0,), sizes None (node bad)",
        resize(2.0),
    ),
    Bad(
        "Resize",
        ("f32[2,3]",),
        "resize: mode must be one of nearest, linear, cubic; got 'area' (node bad)",
        resize(2, 2, mode="area"),
    ),
    Bad(
        "Resize",
        ("f32[2,3]",),
        "resize: scales and sizes must be positive numbers; got [0, 1] (node bad)",
        sized(0, 1),
    ),
    Bad(
        "Resize",
        ("f32[2,0]",),
        "resize: there is nothing to resize; got f32[2,0] (node bad)",
        resize(1, 2),
    ),
    Bad(
        "Resize",
        ("f32[2,3]",),
        "resize: roi must name 4 numbers; got [0.0, 1.0] (node bad)",
        resize(1, 2, roi=(0.0, 1.0), coordinate_transformation_mode=CROP),
    ),
    Bad(
        "Resize",
        ("f32[N,3]",),
        f"resize: the batch must be concrete here; got f32[N,3] (node bad). {CONCRETE}",
        sized(2, 3),
    ),
    Bad(
        "Resample",
        ("f32[2,3]", "i64[4,2]", "f32[4,2]"),
        "resample: places (i32) and weights must be matrices of one shape; "
        "got f32[2,3], i64[4,2], f32[4,2] (node bad)",
        ResampleAttributes(0),
    ),
    Bad(
        "Resample",
        ("i32[2,3]", "i32[4,2]", "i32[4,2]"),
        "resample: the input and the weights must be of one floating-point type; "
        "got i32[2,3], i32[4,2], i32[4,2] (node bad)",
        ResampleAttributes(0),
    ),
]
TYPES: list[Typed] = [
    Typed("Resize", ("f32[N,3,4,4]",), ("f32[N,3,8,8]",), resize(1, 1, 2, 2)),
    Typed("Resize", ("f32[N,3,4,4]",), ("f32[N,3,7,7]",), sized(7, 7, axes=(2, 3))),
    Typed("Resize", ("f32[10]",), ("f32[7]",), resize(0.7)),
    Typed("Upsample", ("f32[N,3,4,4]",), ("f32[N,3,8,8]",), UpsampleAttributes((1, 1, 2, 2))),
]
