"""Samples of the products of quantized tensors."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.dtypes import DType
from weft.ops.convolution import ConvAttributes

# Requantization rounds f32 products; these samples stay off the halves between two steps.


def one(dtype: str, value: float) -> np.ndarray:
    return np.array(value, DType(dtype).numpy)


def whole(text: str) -> np.ndarray:
    most = 3000 if text.startswith("i16") else 127
    return random(text, 0 if text[0] == "u" else -most - 1, most)


def scales(text: str) -> np.ndarray:
    return random(text, 0.01, 0.1)


def quantized_matmul(a: str, b: str, lines: tuple[str, str], y: str) -> Sample:
    """Scales and zero points of the factors have the given shapes."""
    rows, columns = lines
    return Sample(
        "QLinearMatMul",
        (
            whole(a),
            scales(f"f32{rows}"),
            random(f"{a.split('[')[0]}{rows}", 0, 9),
            whole(b),
            scales(f"f32{columns}"),
            random(f"{b.split('[')[0]}{columns}", 0, 9),
            one("f32", 0.8),
            one(y, 3),
        ),
    )


def quantized_conv(
    x: str, w: str, channels: str, attributes: ConvAttributes, bias: bool = False
) -> Sample:
    return Sample(
        "QLinearConv",
        (
            whole(x),
            one("f32", 0.03),
            one(x.split("[")[0], 5),
            whole(w),
            scales(f"f32{channels}"),
            random(f"{w.split('[')[0]}{channels}", -3, 3),
            one("f32", 0.9),
            one(x.split("[")[0], 2),
            *([random("i32[4]", -999, 999)] if bias else []),
        ),
        attributes,
    )


PLAIN = ConvAttributes()
PADDED = ConvAttributes((3, 3), (2, 1), (1, 1), (1, 0, 1, 2))
SAMPLES = [
    Sample("MatMulInteger", ("u8[4,3]", "u8[3,2]", one("u8", 12), one("u8", 0))),
    Sample("MatMulInteger", (whole("i8[4,3]"), whole("u8[3,2]"))),
    Sample("MatMulInteger", ("u8[4,3]", "i8[3,2]", "u8[4]", "i8[2]")),
    Sample("MatMulInteger", ("u8[2,4,3]", "i8[3,2]", "u8[2,4,1]", "i8[1,2]")),
    Sample("MatMulInteger", ("u8[3]", "i8[3]", one("u8", 1), None)),
    Sample("MatMulInteger", ("u8[2,1,2,3]", "i8[4,3,2]", None, one("i8", -2))),
    Sample(
        "MatMulInteger",
        (
            np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8),
            np.array([[1, 4], [2, 5], [3, 6]], np.uint8),
            one("u8", 12),
            one("u8", 0),
        ),
        expected=([[-38, -83], [-44, -98], [-50, -113], [-56, -128]],),
    ),
    quantized_matmul("u8[4,3]", "u8[3,2]", ("[]", "[]"), "u8"),
    quantized_matmul("i8[4,3]", "i8[3,2]", ("[1]", "[1]"), "i8"),
    quantized_matmul("u8[4,3]", "i8[3,2]", ("[4]", "[2]"), "u8"),
    quantized_matmul("i8[2,4,3]", "i8[2,3,2]", ("[2,4,1]", "[2,1,2]"), "i8"),
    Sample("ConvInteger", ("u8[1,1,3,3]", "u8[1,1,2,2]", one("u8", 1), None), PLAIN),
    Sample(
        "ConvInteger",
        (whole("u8[2,4,5,5]"), whole("i8[4,2,3,3]"), one("u8", 9)),
        ConvAttributes((3, 3), (2, 1), (1, 1), (1, 0, 1, 2), 2),
    ),
    Sample("ConvInteger", ("i8[1,2,6]", "i8[4,2,3]", one("i8", 1), "i8[4]"), PLAIN),
    # Few products are added in 32 bits, many in 64.
    quantized_conv("i16[1,3,5,5]", "i8[4,3,3,3]", "[4]", PADDED, bias=True),
    quantized_conv("i16[1,30,4,3]", "i8[4,30,3,3]", "[4]", PLAIN, bias=True),
    quantized_conv("u8[1,3,5,5]", "i8[4,3,3,3]", "[]", PADDED),
    quantized_conv("i8[2,3,5,5]", "i8[4,3,3,3]", "[4]", PADDED, bias=True),
    quantized_conv("i8[1,4,5,5]", "i8[4,1,3,3]", "[4]", ConvAttributes(groups=4), bias=True),
]
CONV = ("u8[1,3,5,5]", "f32[]", "u8[]", "i8[4,3,3,3]", "f32[4]", "i8[4]", "f32[]", "u8[]")
BAD = [
    Bad(
        "MatMulInteger",
        ("u8[4,3]", "i16[3,2]"),
        "matmulinteger: input 1 must be of i8 or u8; got i16[3,2] (node bad)",
    ),
    Bad(
        "MatMulInteger",
        ("u8[4,3]", "i8[3,2]", "i8[]"),
        "matmulinteger: input 2, a zero point, must have the element type of input 0; "
        "got u8[4,3], i8[3,2], i8[] (node bad)",
    ),
    Bad(
        "MatMulInteger",
        ("u8[4,3]", "i8[3,2]", "u8[3]"),
        "matmulinteger: input 2 must be one number or one for each of 4 rows; got u8[3] (node bad)",
    ),
    Bad(
        "MatMulInteger",
        ("u8[4,3]", "i8[3,2]", "", "i8[3]"),
        "matmulinteger: input 3 must be one number or one for each of 2 columns; got i8[3] "
        "(node bad)",
    ),
    Bad(
        "QLinearMatMul",
        ("u8[4,3]", "f32[]", "u8[]", "i8[3,2]", "f32[]", "i8[]", "f32[4]", "u8[]"),
        "qlinearmatmul: input 6 must be one number; got f32[4] (node bad)",
    ),
    Bad(
        "ConvInteger",
        ("u8[1,3,5,5]", "i8[4,2,3,3]"),
        "convinteger: weight has 2 input channels per group, input has 3 and groups=1; "
        "got x u8[1,3,5,5], w i8[4,2,3,3] (node bad)",
        PLAIN,
    ),
    Bad(
        "QLinearConv",
        (*CONV[:4], "f32[3]", *CONV[5:]),
        "qlinearconv: input 4 must be one number or one for each of 4 channels; got f32[3] "
        "(node bad)",
        PLAIN,
    ),
    Bad(
        "QLinearConv",
        (*CONV, "i32[3]"),
        "qlinearconv: bias must be i32[4]; got b i32[3] (node bad)",
        PLAIN,
    ),
]
TYPES = [
    Typed("MatMulInteger", ("u8[N,3]", "i8[3,2]", "u8[]"), ("i32[N,2]",)),
    Typed("QLinearConv", ("u8[N,3,5,5]", *CONV[1:]), ("u8[N,4,3,3]",), PLAIN),
    Typed("ConvInteger", ("u8[N,3,5,5]", "i8[4,3,3,3]"), ("i32[N,4,3,3]",), PLAIN),
]
