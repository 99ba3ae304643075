"""Fourier transforms, and operators that take the complex numbers that they give.

Complex numbers are pairs along a last axis of length 2, which LiteRT's shapes do not have.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontends.emit import Tensor
from weft.frontends.litert.record import Complex, Emit, complex_row, litert
from weft.frontends.litert.shape import axes_to_squeeze, place_of_new_axis, sizes_of

# --- transforms and parts ---------------------------------------------------------------------


@litert("RFFT2D")
def rfft2d(g: Emit, x: Tensor, fft_length: Tensor) -> Complex:
    lengths = g.ints(fft_length, "the lengths")
    if x.rank < 2 or len(lengths) != 2 or min(lengths) < 1 or not x.dtype.is_float:
        g.refuse(f"two lengths of at least 1 must fit {x.type}; got {list(lengths)}")
    more = [length - size for length, size in zip(lengths, x.shape[-2:], strict=True)]
    if any(more):
        x = g("Pad", x, pads=(*(0,) * (2 * x.rank - 2), *more))
    made = g("DFT", g.reshape(x, (*x.shape, 1)), axis=-2, onesided=1)
    return Complex(made if lengths[0] == 1 else g("DFT", made, axis=-3))


def _parts(g: Emit, x: Complex) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts."""
    pairs, shape = x.pairs, x.shape
    real, imaginary = (g.slice(pairs, len(shape), which, which + 1) for which in (0, 1))
    return g.reshape(real, shape), g.reshape(imaginary, shape)


@complex_row("COMPLEX_ABS")
def complex_abs(g: Emit, x: Complex) -> Tensor:
    squares = g("Mul", x.pairs, x.pairs)
    return g("Sqrt", g("ReduceSum", squares, axes=(len(x.shape),), keepdims=0))


@complex_row("REAL")
def real(g: Emit, x: Complex) -> Tensor:
    return _parts(g, x)[0]


@complex_row("IMAG")
def imag(g: Emit, x: Complex) -> Tensor:
    return _parts(g, x)[1]


# --- other shapes -----------------------------------------------------------------------------


@complex_row("RESHAPE")
def reshape(
    g: Emit, x: Complex, shape: Tensor | None = None, *, new_shape: Sequence[int] = ()
) -> Complex:
    return Complex(g.reshape(x.pairs, (*sizes_of(g, x.shape, shape, new_shape), 2)))


@complex_row("SQUEEZE")
def squeeze(g: Emit, x: Complex, *, squeeze_dims: Sequence[int] = ()) -> Complex:
    axes = axes_to_squeeze(g, x.shape, squeeze_dims)
    kept = [size for axis, size in enumerate(x.shape) if axis not in axes]
    return Complex(g.reshape(x.pairs, (*kept, 2)))


@complex_row("EXPAND_DIMS")
def expand_dims(g: Emit, x: Complex, axis: Tensor) -> Complex:
    at = place_of_new_axis(g, x.shape, axis)
    return Complex(g.reshape(x.pairs, (*x.shape[:at], 1, *x.shape[at:], 2)))
