"""Quantization of sums of bytes without its division, where every byte gets the same result.

A residual sum is quantized by ``saturate(round(x / scale) + zero)`` with ``x`` a function of two
bytes.  Multiplying by reciprocals rounds otherwise, but all 65,536 pairs can be tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from weft.dtypes import DType
from weft.kernels.integer.folding import foldable, folded
from weft.kernels.integer.sums import BYTES
from weft.loops.nodes import Axis, Binary, Const, Expr, Load, Var
from weft.loops.walk import children, dtype_of, map_expr

_F32 = DType.F32
_NEIGHBOURS = (0, 1, -1, 2, -2)
"""Floats around a factor that are tried, by their distance."""


def multiplied(scaled: Expr, zero: int, dtype: DType) -> Expr:
    """What is rounded, as a product instead of a quotient if all bytes give the same.

    Args:
        scaled: what is rounded.
        zero: what is added to the rounded number, before it is saturated.
        dtype: the byte that it becomes.
    """
    match scaled:
        case Binary("div", dividend, Const(scale, DType.F32)) if scale > 0:
            pass
        case _:
            return scaled
    parts = list(dict.fromkeys(_bytes_of(dividend)))
    if not 1 <= len(parts) <= 2:
        return scaled
    names = {part: f"byte{place}" for place, part in enumerate(parts)}
    axes = [Axis(name, 256) for name in names.values()]
    arrays = {
        name: np.arange(256).astype(np.uint8).view(dtype_of(part).numpy)
        for part, name in names.items()
    }

    def named(node: Expr) -> Expr:
        name = names.get(node)
        return node if name is None else Load(name, (Var(name),), dtype_of(node))

    def bytes_made(x: Expr) -> np.ndarray:
        whole = np.rint(folded(map_expr(x, named), axes, arrays))
        return np.clip(whole + np.float32(zero), *dtype.limits)

    if not foldable(map_expr(scaled, named), arrays):
        return scaled
    wanted = bytes_made(scaled)
    found = (x for x in _products(dividend, scale) if np.array_equal(bytes_made(x), wanted))
    return next(found, scaled)


def _products(dividend: Expr, scale: float) -> Iterator[Expr]:
    """Products near a quotient, the cheapest first: saturation may do what a ReLU does."""
    forms = [dividend]
    match dividend:
        case Binary("max", x, Const(0, DType.F32)):
            forms.insert(0, x)
        case _:
            pass
    for form in forms:
        match form:
            case Binary("add", Binary("mul", x, Const(a)), Binary("mul", y, Const(b))):
                for left, right in product(_near(a / scale), _near(b / scale)):
                    yield Binary("add", Binary("mul", x, left), Binary("mul", y, right))
            case _:
                pass
    for form, factor in product(forms, _near(1 / scale)):
        yield Binary("mul", form, factor)


def _near(value: float) -> list[Const]:
    """The nearest float to a number, then those around it."""
    nearest, found = np.float32(value), list[Const]()
    for distance in _NEIGHBOURS:
        near = nearest
        for _ in range(abs(distance)):
            near = np.nextafter(near, np.float32(np.sign(distance) * np.inf))
        found.append(Const(float(near), _F32))
    return found


def _bytes_of(expr: Expr) -> Iterator[Expr]:
    """The bytes that an expression is a function of."""
    if dtype_of(expr) in BYTES and not isinstance(expr, Const):
        yield expr
        return
    for child in children(expr) if not isinstance(expr, Load) else ():
        yield from _bytes_of(child)
