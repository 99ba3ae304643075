"""Conversions between numbers and integers that stand for them."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Emit, Kind, litert


@litert("QUANTIZE", kind=Kind.RAW)
def quantize(g: Emit, x: Tensor) -> Tensor:
    meaning = g.taken[0].quantization if g.taken[0] is not None else None
    if x.dtype.is_integer and meaning is not None:
        x = g.dequantized(x, meaning)
    if g.result.quantization is None:
        g.refuse("its output must have a scale")
    return g.quantized(x, g.result)


@litert("DEQUANTIZE", kind=Kind.RAW)
def dequantize(g: Emit, x: Tensor) -> Tensor:
    array = g.array(x)
    if x.dtype.is_float and array is not None:
        return g.constant(array.astype(g.result_dtype.numpy))
    if x.dtype.is_float:
        return g.cast(x, g.result_dtype)
    meaning = g.taken[0].quantization if g.taken[0] is not None else None
    if meaning is None:
        g.refuse("its input must have a scale")
    return g.cast(g.dequantized(x, meaning), g.result_dtype)


@litert("FAKE_QUANT")
def fake_quant(
    g: Emit, x: Tensor, *, min: float, max: float, num_bits: int, narrow_range: bool = False
) -> Tensor:
    if not (min <= 0 <= max and min < max and 2 <= num_bits <= 16):
        g.refuse(f"a range {min:g} to {max:g} in {num_bits} bits is not supported")
    low, high = int(narrow_range), (1 << num_bits) - 1
    scale = np.float32((np.float32(max) - np.float32(min)) / np.float32(high - low))
    zero = np.clip(np.floor(low - min / scale + 0.5), low, high)
    ends = [float(np.float32((each - zero) * scale)) for each in (low, high)]
    held = g("Clip", x, min=ends[0], max=ends[1])
    steps = g(
        "Mul", g("Sub", held, g.number(ends[0], DType.F32)), g.number(float(1 / scale), DType.F32)
    )
    # Halves go up here, not to the even number.
    whole = g("Floor", g("Add", steps, g.number(0.5, DType.F32)))
    return g("Add", g.scaled(whole, float(scale)), g.number(ends[0], DType.F32))
