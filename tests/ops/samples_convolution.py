"""Samples of the convolutions."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.convolution import ConvAttributes, ConvTransposeAttributes

CLOSE = 1e-5
ONES = np.ones((1, 1, 3, 3), np.float32)


def conv(*inputs: np.ndarray | str, tolerance: float = CLOSE, **attributes: object) -> Sample:
    return Sample("Conv", inputs, ConvAttributes(**attributes), tolerance)


def transposed(*inputs: np.ndarray | str, tolerance: float = CLOSE, **attributes: object) -> Sample:
    return Sample("ConvTranspose", inputs, ConvTransposeAttributes(**attributes), tolerance)


SAMPLES = [
    Sample(
        "Conv",
        (np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3), ONES),
        ConvAttributes(pads=(1, 1, 1, 1)),
        expected=([[[[8, 15, 12], [21, 36, 27], [20, 33, 24]]]],),
    ),
    conv("f32[2,3,7,6]", "f32[4,3,3,2]", "f32[4]"),
    conv("f32[2,3,7,6]", "f32[4,3,3,2]", kernel=(3, 2), strides=(2, 1), pads=(1, 0, 0, 2)),
    conv("f32[1,3,9,8]", "f32[2,3,3,3]", dilations=(2, 3), pads=(2, 3, 2, 3)),
    conv("f32[1,6,5,5]", "f32[4,3,3,3]", "f32[4]", groups=2, pads=(1, 1, 1, 1)),
    conv("f32[1,4,5,5]", "f32[4,1,3,3]", "f32[4]", groups=4, pads=(1, 1, 1, 1)),
    conv("f32[1,3,5,5]", "f32[6,1,3,3]", groups=3, strides=(2, 2)),
    conv("f32[1,4,5,5]", "f32[3,4,1,1]", "f32[3]"),
    conv("f32[1,3,9]", "f32[2,3,3]", "f32[2]", strides=(2,), pads=(1, 1)),
    conv("f32[1,2,4,5,3]", "f32[3,2,2,3,2]", "f32[3]", pads=(1, 0, 1, 0, 1, 0)),
    conv("f32[1,2,6,6]", "f32[3,2,3,3]", pads=(-1, 0, 1, -1)),
    conv("f16[1,3,5,5]", "f16[4,3,3,3]", "f16[4]", tolerance=2e-3),
    conv("bf16[1,3,5,5]", "bf16[4,3,3,3]", "bf16[4]", tolerance=2e-2),
    conv("f64[1,3,5,5]", "f64[4,3,3,3]", "f64[4]", tolerance=1e-12),
    Sample(
        "ConvTranspose",
        (np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3), ONES),
        ConvTransposeAttributes(),
        expected=(
            [
                [
                    [
                        [0, 1, 3, 3, 2],
                        [3, 8, 15, 12, 7],
                        [9, 21, 36, 27, 15],
                        [9, 20, 33, 24, 13],
                        [6, 13, 21, 15, 8],
                    ]
                ]
            ],
        ),
    ),
    transposed("f32[2,3,4,5]", "f32[3,2,3,3]", "f32[2]", strides=(2, 3), pads=(1, 0, 1, 2)),
    transposed("f32[1,3,4,4]", "f32[3,2,3,2]", strides=(2, 2), output_padding=(1, 1)),
    transposed("f32[1,3,4,4]", "f32[3,2,2,2]", strides=(2, 2)),
    transposed("f32[1,3,4,4]", "f32[3,2,1,1]", strides=(2, 2), output_padding=(1, 0)),
    transposed("f32[1,3,3,3]", "f32[3,2,2,2]", dilations=(2, 2)),
    transposed("f32[1,3,3,3]", "f32[3,2,3,3]", dilations=(3, 2), strides=(2, 2), pads=(1, 1, 0, 2)),
    transposed("f32[1,4,3,3]", "f32[4,2,3,3]", "f32[4]", groups=2, pads=(1, 1, 1, 1)),
    transposed("f32[1,3,3]", "f32[3,2,3]", strides=(2,), pads=(-1, -2)),
    transposed("f32[1,2,3,2,3]", "f32[2,2,3,2,2]", strides=(2, 1, 2)),
    transposed("f16[1,3,3,3]", "f16[3,2,3,3]", "f16[2]", tolerance=2e-3),
]
BAD: list[Bad] = [
    Bad(
        "Conv",
        ("f32[1,4,8,8]", "f32[8,3,3,3]"),
        "conv: weight has 3 input channels per group, input has 4 and groups=1; "
        "got x f32[1,4,8,8], w f32[8,3,3,3] (node bad)",
        ConvAttributes(),
    ),
    Bad(
        "Conv",
        ("f32[1,4,8,8]", "f32[3,2,3,3]"),
        "conv: groups=2 must divide the 3 output channels; "
        "got x f32[1,4,8,8], w f32[3,2,3,3] (node bad)",
        ConvAttributes(groups=2),
    ),
    Bad(
        "Conv",
        ("f32[1,4,2,8]", "f32[3,4,3,3]"),
        "conv: window of [3, 3] does not fit into the padded input; "
        "got x f32[1,4,2,8], pads [0, 0, 0, 0] (node bad)",
        ConvAttributes(),
    ),
    Bad(
        "Conv",
        ("f32[1,4,8,8]", "f32[3,4,3,3]", "f32[4]"),
        "conv: bias must be f32[3]; got b f32[4] (node bad)",
        ConvAttributes(),
    ),
    Bad(
        "Conv",
        ("f32[1,4,8,8]", "f32[3,4,3,3]"),
        "conv: kernel is [5, 5], weight has [3, 3]; got x f32[1,4,8,8], w f32[3,4,3,3] (node bad)",
        ConvAttributes(kernel=(5, 5)),
    ),
    Bad(
        "Conv",
        ("f32[1,4,8,8]", "f32[3,4,3,3]"),
        "conv: strides must have 2 numbers for a kernel of 2 axes; "
        "got strides [1], kernel [3, 3] (node bad)",
        ConvAttributes(strides=(1,)),
    ),
    Bad(
        "Conv",
        ("f32[1,4,8,8]", "f32[3,4,3,3]"),
        "conv: strides must be at least 1; got strides [0, 1] (node bad)",
        ConvAttributes(strides=(0, 1)),
    ),
    Bad(
        "Conv",
        ("f32[1,4,8,8]", "f64[3,4,3,3]"),
        "conv: inputs must have one element type; got x f32[1,4,8,8], w f64[3,4,3,3] (node bad)",
        ConvAttributes(),
    ),
    Bad(
        "ConvTranspose",
        ("f32[1,4,8,8]", "f32[3,4,3,3]"),
        "convtranspose: weight has 3 input channels, input has 4; "
        "got x f32[1,4,8,8], w f32[3,4,3,3] (node bad)",
        ConvTransposeAttributes(),
    ),
]
TYPES: list[Typed] = [
    Typed("Conv", ("f32[N,3,8,8]", "f32[4,3,3,3]"), ("f32[N,4,6,6]",), ConvAttributes()),
    Typed(
        "ConvTranspose",
        ("f32[N,3,8,8]", "f32[3,4,2,2]"),
        ("f32[N,4,16,16]",),
        ConvTransposeAttributes(strides=(2, 2)),
    ),
]
