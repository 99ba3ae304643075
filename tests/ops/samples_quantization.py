"""Samples of quantize, dequantize and dynamic quantization."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed, random
from weft.dtypes import DType
from weft.ops.quantization import DequantizeAttributes, QuantizeAttributes

CLOSE = 1e-6


def of(dtype: str, *values: float) -> np.ndarray:
    return np.array(values, DType(dtype).numpy)


def one(dtype: str, value: float) -> np.ndarray:
    return np.array(value, DType(dtype).numpy)


def scales(text: str) -> np.ndarray:
    return random(text, 0.1, 2)


QUANTIZED = ("i8", "u8", "i16", "u16")
WIDE = of("f32", -np.inf, -1000, -2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5, 1e9, np.inf)
BLOCKS = QuantizeAttributes(axis=1, block_size=3)

SAMPLES = [
    *(
        Sample("QuantizeLinear", (WIDE, one("f32", 1), one(dtype, 7)), QuantizeAttributes())
        for dtype in QUANTIZED
    ),
    Sample(
        "QuantizeLinear",
        (of("f32", 0, 2, 3, 1000, -254, -1000), one("f32", 2), one("u8", 128)),
        QuantizeAttributes(),
        expected=([128, 129, 130, 255, 1, 0],),
    ),
    Sample("QuantizeLinear", (WIDE, of("f32", 1)), QuantizeAttributes()),
    # One element is one element: onnxruntime writes biases so.
    Sample(
        "DequantizeLinear",
        (of("i32", 1, -2, 7), of("f32", 0.5), one("i32", 1)),
        DequantizeAttributes(),
        expected=([0, -1.5, 3],),
    ),
    Sample(
        "DequantizeLinear",
        (of("u8", 1, 2, 7), one("f32", 0.5), np.ones((1, 1), np.uint8)),
        DequantizeAttributes(),
        expected=([0, 0.5, 3],),
    ),
    Sample(
        "QuantizeLinear",
        (of("f32", 1, 2), of("f32", 0.5), one("i8", -1)),
        QuantizeAttributes(),
        expected=([1, 3],),
    ),
    Sample(
        "QuantizeLinear",
        (WIDE, one("f32", 1)),
        QuantizeAttributes(output_dtype=DType.I16),
        expected=([-32768, -1000, -2, -2, 0, 0, 0, 2, 2, 32767, 32767],),
    ),
    Sample(
        "QuantizeLinear",
        (of("f32", np.nan), one("f32", 1), one("i8", 3)),
        QuantizeAttributes(),
        expected=([-128],),
    ),
    *(
        Sample(
            "QuantizeLinear",
            (f"{dtype}[2,3,4]", scales(f"{dtype}[3]"), random("i8[3]", -9, 9)),
            QuantizeAttributes(axis),
        )
        for dtype in ("f32", "f16", "bf16")
        for axis in (1, -2)
    ),
    Sample(
        "QuantizeLinear",
        ("f32[2,7,3]", scales("f32[2,3,3]"), random("u8[2,3,3]", 0, 9)),
        BLOCKS,
    ),
    Sample(
        "QuantizeLinear",
        (random("i32[6]", -9999, 9999), one("f32", 37), one("i8", 0)),
        QuantizeAttributes(),
    ),
    Sample(
        "QuantizeLinear",
        ("f32[8]", one("f32", 0.1)),
        QuantizeAttributes(precision=DType.F16, output_dtype=DType.I8),
    ),
    *(
        Sample(
            "DequantizeLinear",
            (random(f"{dtype}[5]", -99, 99), one("f32", 0.3), one(dtype, 5)),
            DequantizeAttributes(),
            CLOSE,
        )
        for dtype in (*QUANTIZED, "i32")
    ),
    Sample(
        "DequantizeLinear",
        (of("u8", 0, 3, 128, 255), one("f32", 2), one("u8", 128)),
        DequantizeAttributes(),
        expected=([-256, -250, 0, 254],),
    ),
    Sample(
        "DequantizeLinear",
        (random("i8[2,3,4]", -99, 99), scales("f32[3]"), random("i8[3]", -9, 9)),
        DequantizeAttributes(),
        CLOSE,
    ),
    Sample(
        "DequantizeLinear",
        (random("u8[2,7,3]", 0, 99), scales("f16[2,3,3]"), random("u8[2,3,3]", 0, 9)),
        DequantizeAttributes(1, 3),
        1e-3,
    ),
    Sample(
        "DequantizeLinear",
        (random("i32[4]", -9999, 9999), one("f32", 0.001)),
        DequantizeAttributes(output_dtype=DType.F16),
        1e-3,
    ),
    Sample("DynamicQuantizeLinear", ("f32[3,4]",), outputs=3),
    Sample(
        "DynamicQuantizeLinear",
        (of("f32", 0, 2, -3, -2.5, 1.34, 0.5),),
        outputs=3,
        expected=([153, 255, 0, 26, 221, 179], 5 / 255, 153),
    ),
    Sample("DynamicQuantizeLinear", (of("f32", 0, 0),), outputs=3, expected=([0, 0], 1, 0)),
    Sample(
        "DynamicQuantizeLinear",
        (of("f32", -1, -2.1, -1.3, -2.5, -3.34, -4),),
        outputs=3,
        expected=([191, 121, 172, 96, 42, 0], 4 / 255, 255),
    ),
]
BAD = [
    Bad(
        "QuantizeLinear",
        ("f64[2]", "f32[]"),
        "quantizelinear: input 0 must be of f32, f16, bf16 or i32; got f64[2] (node bad)",
        QuantizeAttributes(),
    ),
    Bad(
        "QuantizeLinear",
        ("f32[2,3]", "f32[2]"),
        "quantizelinear: there must be one scale for each of 3 positions; "
        "got f32[2,3], f32[2] (node bad)",
        QuantizeAttributes(),
    ),
    Bad(
        "QuantizeLinear",
        ("f32[2,3]", "f32[]", "i8[3]"),
        "quantizelinear: the scale and the zero point must have the same shape; "
        "got f32[2,3], f32[], i8[3] (node bad)",
        QuantizeAttributes(),
    ),
    Bad(
        "QuantizeLinear",
        ("f32[2,3]", "f32[2,2]"),
        "quantizelinear: scales in blocks need a block_size, and a known extent of the axis; "
        "got f32[2,3], f32[2,2] (node bad)",
        QuantizeAttributes(),
    ),
    Bad(
        "QuantizeLinear",
        ("f32[2,7]", "f32[2,2]"),
        "quantizelinear: blocks of 3 along axis 1 need scales [2, 3]; "
        "got f32[2,7], f32[2,2] (node bad)",
        BLOCKS,
    ),
    Bad(
        "QuantizeLinear",
        ("f32[2]", "f32[]", "i8[]"),
        "quantizelinear: output_dtype u8 must be the zero point's type; "
        "got f32[2], f32[], i8[] (node bad)",
        QuantizeAttributes(output_dtype=DType.U8),
    ),
    Bad(
        "QuantizeLinear",
        ("f32[2]", "f32[]"),
        "quantizelinear: the output must be of an integer type of 8 or 16 bits; got i64 (node bad)",
        QuantizeAttributes(output_dtype=DType.I64),
    ),
    Bad(
        "DequantizeLinear",
        ("i8[2]", "f32[]", "u8[]"),
        "dequantizelinear: x and its zero point must have the same element type; "
        "got i8[2], f32[], u8[] (node bad)",
        DequantizeAttributes(),
    ),
    Bad(
        "DynamicQuantizeLinear",
        ("f16[2]",),
        "dynamicquantizelinear: x must be f32; got f16[2] (node bad)",
    ),
]
TYPES = [
    Typed("QuantizeLinear", ("f32[N,3]", "f32[3]"), ("u8[N,3]",), QuantizeAttributes()),
    Typed("DequantizeLinear", ("i8[N,3]", "f16[]", "i8[]"), ("f16[N,3]",), DequantizeAttributes()),
    Typed("DynamicQuantizeLinear", ("f32[N,3]",), ("u8[N,3]", "f32[]", "u8[]")),
]
