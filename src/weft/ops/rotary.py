"""Rotary position embedding."""

from __future__ import annotations

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.accumulate import exact, floating, narrowed, widened
from weft.ops.expr import add, axes, binary, mul, select, variables
from weft.ops.record import Call, Define, Op, Param
from weft.ops.support import at_rank, integer, known, wrapped
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class RotaryEmbeddingAttributes(Attributes):
    """Of ``RotaryEmbedding``.

    Attributes:
        interleaved: 1 rotates neighbours, 0 the two halves of a head.
        num_heads: of a packed (three-dimensional) input.
        rotary_embedding_dim: how much of each head is rotated; 0 for all of it.
    """

    interleaved: int = 0
    num_heads: int = 0
    rotary_embedding_dim: int = 0


def _widths(call: Call) -> tuple[int, int]:
    """The width of a head, and how much of it is rotated."""
    x, a = call.type(0), call.attributes
    width = known(call, x.shape[-1])
    if len(x.shape) == 3:
        if a.num_heads < 1 or width % a.num_heads:
            raise call.error(f"{a.num_heads} heads must divide the width", got=f"x {x}")
        width //= a.num_heads
    rotated = a.rotary_embedding_dim or width
    if rotated % 2 or rotated > width:
        raise call.error(f"the rotated width must be even and at most {width}", got=str(rotated))
    return width, rotated


def _infer(call: Call) -> tuple[TensorType, ...]:
    x = floating(call)
    if len(x.shape) not in (3, 4):
        raise call.error("input must have 3 or 4 dimensions", got=f"x {x}")
    _, rotated = _widths(call)
    length = x.shape[-2] if len(x.shape) == 4 else x.shape[1]
    for position, name in ((1, "cos_cache"), (2, "sin_cache")):
        shape = at_rank(call, position, 2 if call.has(3) else 3).shape
        wanted = (shape[0] if call.has(3) else x.shape[0], length, rotated // 2)
        if shape != (wanted[::2] if call.has(3) else wanted):
            raise call.error(
                f"{name} must hold {rotated // 2} numbers for each position",
                got=f"x {x}, {name} {call.type(position)}",
            )
    if call.has(3) and integer(call, 3).shape != (x.shape[0], length):
        raise call.error(f"position_ids must be [{x.shape[0]},{length}]", got=str(call.type(3)))
    return (x,)


def _define(call: Call) -> tuple[Compute, ...]:
    x, interleaved = call.type(0), bool(call.attributes.interleaved)
    width, rotated = _widths(call)
    half = rotated // 2
    ranges = axes(x.dims)
    *lead, last = variables(ranges)
    batch, token = lead[0], lead[-1]
    start: Expr | int = 0
    at = last
    if len(x.dims) == 3:
        start, at = mul(binary("floordiv", last, width), width), binary("mod", last, width)
    first = binary("eq", binary("mod", at, 2), 0) if interleaved else binary("lt", at, half)
    angle = binary("floordiv", at, 2) if interleaved else binary("mod", at, half)
    step = 1 if interleaved else half
    row: tuple[Expr, ...] = (batch, token)
    if call.has(3):
        count = call.type(1).dims[0]
        row = (wrapped(call.load(3, batch, token), count),)
    # What does not rotate must still read within bounds.
    angle = binary("min", angle, half - 1)
    cosine = widened(call.load(1, *row, angle), call.type(1).dtype)
    sine = widened(call.load(2, *row, angle), call.type(2).dtype)
    own = widened(call.load(0, *lead, last), x.dtype)
    after = binary("min", add(add(start, at), step), x.dims[-1] - 1)
    before = binary("max", add(add(start, at), -step), 0)
    turned = select(
        first,
        binary(
            "sub",
            binary("mul", own, cosine),
            binary("mul", widened(call.load(0, *lead, after), x.dtype), sine),
        ),
        binary(
            "add",
            binary("mul", own, cosine),
            binary("mul", widened(call.load(0, *lead, before), x.dtype), sine),
        ),
    )
    value = turned if rotated == width else select(binary("lt", at, rotated), turned, own)
    return (Compute(ranges, narrowed(value, x.dtype)),)


def _reference(
    call: Call,
    x: np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
    positions: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    width, rotated = _widths(call)
    heads = exact(x)
    # Batch, time, heads, width.
    packed = x.ndim == 3
    heads = heads.reshape(*x.shape[:2], -1, width) if packed else np.swapaxes(heads, 1, 2)
    if positions is not None:
        cosines, sines = cosines[positions], sines[positions]
    cosine, sine = exact(cosines)[:, :, None], exact(sines)[:, :, None]
    half = rotated // 2
    interleaved = bool(call.attributes.interleaved)
    left = slice(0, rotated, 2) if interleaved else slice(0, half)
    right = slice(1, rotated, 2) if interleaved else slice(half, rotated)
    result = heads.copy()
    result[..., left] = heads[..., left] * cosine - heads[..., right] * sine
    result[..., right] = heads[..., left] * sine + heads[..., right] * cosine
    result = result.reshape(x.shape) if packed else np.swapaxes(result, 1, 2)
    return (result.astype(x.dtype),)


OPS: tuple[Op, ...] = (
    Op(
        name="RotaryEmbedding",
        inputs=(
            Param("x"),
            Param("cos_cache"),
            Param("sin_cache"),
            Param("position_ids", optional=True),
        ),
        infer=_infer,
        reference=_reference,
        compute=Define(_define),
        attributes=RotaryEmbeddingAttributes,
        implied={"rotary_embedding_dim": lambda call: _widths(call)[1]},
        doc="Rotates pairs of elements of each head by angles that depend on the position.",
    ),
)
