"""Contrib ops with block-quantized weights of 2, 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from weft.frontends.onnx.microsoft.body import Body, Writer

_FP4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""Values of the FP4 and NF4 codes (``quant_type`` 0 and 1); codes 8 to 15 of FP4 are the negated
codes 0 to 7.  Source: T. Dettmers et al., QLoRA, arXiv:2305.14314, and bitsandbytes."""


def _bits(body: Body) -> int:
    """How many bits a number has."""
    bits = body.given.get("bits", 4)
    if bits not in (2, 4, 8):
        raise body.refuse(f"with bits = {bits}")
    return bits


def _unpacked(body: Body, x: str, bits: int) -> str:
    """Unpacks bytes along the last axis, low bits first."""
    if bits == 8:
        return x
    mask = body.array(np.array(2**bits - 1, np.uint8))
    parts = list[str]()
    for at in range(0, 8, bits):
        shift = body.array(np.array(at, np.uint8))
        moved = body.op("BitShift", x, shift, direction="RIGHT") if at else x
        parts.append(body.axes(body.op("BitwiseAnd", moved, mask), -1))
    stacked = body.op("Concat", *parts, axis=-1)
    # The last two axes become one.
    shape = body.op("Concat", body.op("Shape", x, end=-1), body.constant(-1), axis=0)
    return body.op("Reshape", stacked, shape)


def _matmul(body: Body) -> None:
    columns, rows, size = (body.given[name] for name in ("N", "K", "block_size"))
    bits, blocks = _bits(body), -(-rows // size)
    body.without(g_idx=4)
    weights = _known_weights(body, (rows, columns), size, bits)
    if not weights:
        weights = _computed_weights(body, (rows, columns, blocks), size, bits)
    product = body.op("MatMul", body.taken(0), weights, output="" if body.taken(5) else "out0")
    if body.taken(5):
        body.op("Add", product, body.taken(5), output="out0")


def _known_weights(body: Body, shape: tuple[int, int], size: int, bits: int) -> str:
    """A standard DequantizeLinear of the unpacked constants; empty if they are not constant."""
    (rows, columns), blocks = shape, -(-shape[0] // size)
    packed, scales, zeros = body.known(1), body.known(2), body.known(3)
    if packed is None or scales is None or (body.taken(3) and zeros is None):
        return ""
    if zeros is not None and zeros.dtype != np.uint8:
        return ""
    if packed.size * 8 != columns * blocks * size * bits or scales.size != columns * blocks:
        raise body.refuse("of codes or scales that are not as many as N, K and block_size say")
    codes = _numbers(packed.reshape(columns, -1), bits)[:, :rows]
    points = np.full((columns, blocks), 2 ** (bits - 1), np.uint8)
    if zeros is not None:
        points = _numbers(zeros.reshape(columns, -1), bits)[:, :blocks]
    parts = (codes, scales.reshape(columns, blocks), points)
    names = [body.array(np.ascontiguousarray(each.T)) for each in parts]
    return body.op("DequantizeLinear", *names, axis=0, block_size=size)


def _numbers(bytes: np.ndarray, bits: int) -> np.ndarray:
    """Unpacks rows of bytes, low bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    apart = bytes[..., None] >> shifts & np.uint8(2**bits - 1)
    return apart.reshape(len(bytes), -1)


def _computed_weights(body: Body, shape: tuple[int, int, int], size: int, bits: int) -> str:
    """Weights that are dequantized at run time."""
    rows, columns, blocks = shape
    scales = body.reshaped(body.taken(2), columns, blocks, 1)
    packed = body.reshaped(body.taken(1), columns, blocks, -1)
    whole = body.op("CastLike", _unpacked(body, packed, bits), scales)
    zeros = body.scalar(2 ** (bits - 1), scales)
    if body.taken(3):
        points = body.taken(3)
        if body.kind(3) == np.uint8:
            points = _unpacked(body, body.reshaped(points, columns, -1), bits)
            points = body.op("Slice", points, *(body.constant(each) for each in (0, blocks, 1)))
        zeros = body.op("CastLike", body.reshaped(points, columns, blocks, 1), scales)
    numbers = body.op("Mul", body.op("Sub", whole, zeros), scales)
    weights = body.reshaped(numbers, columns, blocks * size)
    if rows % size:
        weights = body.op("Slice", weights, *(body.constant(each) for each in (0, rows, 1)))
    return body.op("Transpose", weights, perm=[1, 0])


def _gather(body: Body) -> None:
    """Gathers packed rows first, so that only these are dequantized."""
    data, indices, scales, zeros = (body.taken(place) for place in range(4))
    size, bits = body.given.get("block_size", 128), _bits(body)
    rank = body.rank(0)
    axis, along = (
        body.given.get(name, default) % rank
        for name, default in (("gather_axis", 0), ("quantize_axis", 1))
    )
    if axis != 0 or along != rank - 1 or body.rank(0) != 2:
        raise body.refuse("of others than rows of a matrix, quantized along these,")
    bytes = body.kind(0) == np.uint8
    default = 2 ** (bits - 1) if bytes else 0
    blocks = body.size(2, 1)
    per = 8 // bits if bytes else 1
    columns = body.size(0, 1) * per

    def taken(x: str, packed: bool) -> str:
        rows = body.op("Gather", x, indices, axis=0)
        return _unpacked(body, rows, bits) if packed and bytes else rows

    def split(x: str, *sizes: int) -> str:
        lead = body.op("Shape", indices)
        return body.op("Reshape", x, body.op("Concat", lead, body.constant(*sizes), axis=0))

    steps = body.axes(taken(scales, False), -1)
    numbers = body.op("CastLike", taken(data, True), steps)
    if columns != blocks * size:
        raise body.refuse("of rows that are no whole blocks")
    numbers = split(numbers, blocks, size)
    point = body.scalar(default, steps)
    if zeros:
        points = taken(zeros, True)
        if bytes and blocks % per:
            ends = (body.constant(each) for each in (0, blocks, -1))
            points = body.op("Slice", points, *ends)
        point = body.op("CastLike", body.axes(points, -1), steps)
    made = body.op("Mul", body.op("Sub", numbers, point), steps)
    body.op(
        "Reshape",
        made,
        body.op("Concat", body.op("Shape", indices), body.constant(columns), axis=0),
        output="out0",
    )


def _table_matmul(body: Body) -> None:
    columns, rows, size = (body.given[name] for name in ("N", "K", "block_size"))
    count = columns * rows
    if count % size:
        raise body.refuse("of weights that are no whole blocks")
    table = (*_FP4, *(-each for each in _FP4)) if body.given["quant_type"] == 0 else _NF4
    # Here the high bits come first.
    low = body.op("BitwiseAnd", body.taken(1), body.array(np.array(15, np.uint8)))
    four = body.array(np.array(4, np.uint8))
    high = body.op("BitShift", body.taken(1), four, direction="RIGHT")
    pairs = body.op("Concat", body.axes(high, -1), body.axes(low, -1), axis=-1)
    places = body.op("Cast", body.reshaped(pairs, -1, size), to=6)
    scales = body.axes(body.taken(2), -1)
    values = body.op("CastLike", body.array(np.array(table, np.float32)), scales)
    numbers = body.op("Mul", body.op("Gather", values, places), scales)
    weights = body.reshaped(numbers, columns, rows)
    if body.given.get("transB", 1):
        weights = body.op("Transpose", weights, perm=[1, 0])
    body.op("MatMul", body.taken(0), weights, output="out0")


BLOCKS: Mapping[str, Writer] = MappingProxyType(
    {"GatherBlockQuantized": _gather, "MatMulBnb4": _table_matmul, "MatMulNBits": _matmul}
)
"""The function that writes the body of a call, by op name."""
