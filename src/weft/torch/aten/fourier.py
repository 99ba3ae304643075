# pyright: basic
"""Fourier transforms: the real ones and the complex ones, and those of frames of a signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from weft.frontends.emit import Tensor
from weft.torch.aten.complex_numbers import is_complex
from weft.torch.aten.record import Emit, complex_aten

_NONE, _BY_ROOT, _BY_LENGTH = range(3)
"""PyTorch's numbers for what a transform is multiplied with: 1, 1 / sqrt(n), 1 / n."""
Dims = Sequence[int] | int | None

# --- transforms -------------------------------------------------------------------------------


def _scaled(g: Emit, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else g("Mul", x, g.number(factor, x.dtype))


def _factor(lengths: Sequence[int], normalization: int, inverse: bool) -> float:
    """What the ops' transforms, of which the inverse is divided by the length, lack."""
    whole = prod(lengths) or 1
    wanted = {_NONE: 1.0, _BY_ROOT: 1 / sqrt(whole), _BY_LENGTH: 1 / whole}[normalization]
    return wanted * whole if inverse else wanted


def _along(g: Emit, x: Tensor, axes: Sequence[int], inverse: bool) -> Tensor:
    for axis in axes:
        x = g("DFT", x, axis=axis, inverse=int(inverse))
    return x


def _fitted(g: Emit, x: Tensor, axes: Sequence[int], lengths: Sequence[int | None]) -> Tensor:
    """Axes cropped or filled up with zeros."""
    more = [0] * x.rank
    for axis, length in zip(axes, lengths, strict=True):
        if length is not None and length != -1:
            more[axis] = length - x.shape[axis]
    return g("Pad", x, pads=(*(0,) * x.rank, *more)) if any(more) else x


def _of_real(g: Emit, x: Tensor, axes: Sequence[int], normalization: int, half: bool) -> Tensor:
    """``x`` has real numbers, and a last axis of length 1."""
    *others, last = axes
    made = g("DFT", x, axis=last, onesided=int(half))
    made = _along(g, made, others, False)
    lengths = [x.shape[axis] for axis in axes]
    return _scaled(g, made, _factor(lengths, normalization, False))


def _of_complex(
    g: Emit, x: Tensor, axes: Sequence[int], normalization: int, inverse: bool
) -> Tensor:
    lengths = [x.shape[axis] for axis in axes]
    return _scaled(g, _along(g, x, axes, inverse), _factor(lengths, normalization, inverse))


def _to_real(g: Emit, x: Tensor, axes: Sequence[int], normalization: int, length: int) -> Tensor:
    *others, last = axes
    made = _along(g, x, others, True)
    made = g("DFT", made, axis=last, dft_length=length, inverse=1, onesided=1)
    made = g.reshape(made, made.shape[:-1])
    lengths = [*(x.shape[axis] for axis in others), length]
    return _scaled(g, made, _factor(lengths, normalization, True))


def _wide(g: Emit, x: Tensor) -> Tensor:
    return g.reshape(x, (*x.shape, 1))


@complex_aten("_fft_r2c.default")
def fft_r2c(
    g: Emit, self: Tensor, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    axes = [each % self.rank for each in dim]
    return _of_real(g, _wide(g, self), axes, normalization, onesided)


@complex_aten("_fft_c2c.default")
def fft_c2c(g: Emit, self: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    axes = [each % (self.rank - 1) for each in dim]
    return _of_complex(g, self, axes, normalization, not forward)


@complex_aten("_fft_c2r.default")
def fft_c2r(
    g: Emit, self: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Tensor:
    axes = [each % (self.rank - 1) for each in dim]
    return _to_real(g, self, axes, normalization, last_dim_size)


# --- transforms as users call them ------------------------------------------------------------


def _normalization(g: Emit, norm: str | None, inverse: bool) -> int:
    kinds = {"forward": _BY_LENGTH, "ortho": _BY_ROOT, "backward": _NONE}
    if inverse:
        kinds |= {"forward": _NONE, "backward": _BY_LENGTH}
    return kinds[norm or "backward"]


def _axes_of(rank: int, dim: Dims, lengths: Sequence[int | None] | None) -> list[int]:
    """The axes that are transformed; all of them, or as many as there are lengths."""
    if dim is not None:
        return [each % rank for each in ([dim] if isinstance(dim, int) else dim)]
    if lengths is not None:
        return list(range(rank - len(lengths), rank))
    return list(range(rank))


def _listed(found: Any) -> list[int | None] | None:
    if found is None:
        return None
    return list(found) if isinstance(found, list | tuple) else [found]


def _transform(kind: str, inverse: bool) -> Callable[..., Tensor]:
    def row(
        g: Emit,
        self: Tensor,
        n: int | None = None,
        s: Sequence[int] | None = None,
        dim: Dims = None,
        norm: str | None = None,
    ) -> Tensor:
        complex_given = is_complex(g, "self")
        x = self if complex_given else _wide(g, g.cast(self, g.dtype))
        lengths = _listed(n if n is not None else s)
        axes = _axes_of(x.rank - 1, dim, lengths)
        lengths = lengths if lengths is not None else [None] * len(axes)
        how = _normalization(g, norm, inverse)
        if kind == "real" and inverse:
            last = lengths[-1]
            wanted = 2 * (x.shape[axes[-1]] - 1) if last in (None, -1) else last
            x = _fitted(g, x, axes[:-1], lengths[:-1])
            return _to_real(g, x, axes, how, wanted)
        x = _fitted(g, x, axes, lengths)
        if not complex_given and not inverse:
            return _of_real(g, x, axes, how, kind == "real")
        return _of_complex(g, x, axes, how, inverse)

    return row


for _name, _kind, _inverse in (
    ("fft", "complex", False), ("ifft", "complex", True),
    ("rfft", "real", False), ("irfft", "real", True),
):  # fmt: skip
    for _several in ("", "2", "n"):
        complex_aten(f"fft_{_name}{_several}.default")(_transform(_kind, _inverse))


# --- frames of a signal -----------------------------------------------------------------------


def _window(g: Emit, window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor | None:
    """The window amid zeros, as long as the transform."""
    if window is None:
        if length == n_fft:
            return None
        window = g.constant(np.ones(length, like.dtype.numpy), "window")
    before = (n_fft - length) // 2
    window = g.cast(window, like.dtype)
    return g("Pad", window, pads=(before, n_fft - length - before)) if length < n_fft else window


@complex_aten("stft.default")  # as complex numbers; as pairs it is decomposed
def stft(
    g: Emit,
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    if is_complex(g, "self") or (window is not None and is_complex(g, "window")):
        g.refuse("frames of complex signals and windows are not supported")
    if align_to_window:
        g.refuse("frames that are aligned to the window are not supported")
    x = g.reshape(self, (*self.shape[:-1], self.shape[-1], 1))
    x = x if x.rank == 3 else g.reshape(x, (1, *x.shape))
    held = _window(g, window, win_length or n_fft, n_fft, x)
    half = onesided is None or onesided
    made = g(
        "STFT",
        x,
        held,
        frame_step=hop_length or n_fft // 4,
        frame_length=n_fft,
        onesided=int(half),
    )
    made = g.transpose(made, (0, 2, 1, 3))
    made = _scaled(g, made, 1 / sqrt(n_fft) if normalized else 1)
    return made if self.rank == 2 else g.reshape(made, made.shape[1:])


@complex_aten("istft.default")
def istft(
    g: Emit,
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    step = hop_length or n_fft // 4
    if return_complex or onesided is False or self.shape[-3] != n_fft // 2 + 1:
        g.refuse("the inverse of two-sided spectra is not supported")
    x = self if self.rank == 4 else g.reshape(self, (1, *self.shape))
    x = g.transpose(x, (0, 2, 1, 3))
    frames = g("DFT", x, axis=2, dft_length=n_fft, inverse=1, onesided=1)
    frames = g.reshape(frames, frames.shape[:-1])
    frames = _scaled(g, frames, sqrt(n_fft) if normalized else 1)
    held = _window(g, window, win_length or n_fft, n_fft, frames)
    held = g.constant(np.ones(n_fft, x.dtype.numpy), "window") if held is None else held
    frames = g("Mul", frames, held)
    count = frames.shape[1]
    squares = g.expand(g.reshape(g("Mul", held, held), (1, 1, n_fft)), (1, count, n_fft))
    whole = n_fft + step * (count - 1)
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else whole - start
    if stop > whole:
        g.refuse("a signal that is longer than its frames is not supported")
    made, envelope = (
        g.slice(g("OverlapAdd", each, step=step), 1, start, stop) for each in (frames, squares)
    )
    return g.reshape(g("Div", made, envelope), g.result.dims)
