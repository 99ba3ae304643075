"""Fourier transforms."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.fast_fourier import Transform
from weft.ops.framing import FramesAttributes
from weft.ops.ordering import TransposeAttributes
from weft.ops.record import Builder, Call, Expand, Op, Param
from weft.ops.shape import ReshapeAttributes
from weft.ops.support import axis_of, check_table, known
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class DFTAttributes(Attributes):
    """``dft_length``: crop or pad to it (``None``: as long as it is); ``onesided``: the
    spectrum of real values without its mirrored half.
    """

    dft_length: int | None = None
    axis: int = -2
    inverse: int = 0
    onesided: int = 0


@dataclass(frozen=True, slots=True)
class STFTAttributes(Attributes):
    """``frame_length`` (``None``: the window's, or the signal's) every ``frame_step``."""

    frame_step: int
    frame_length: int | None = None
    onesided: int = 1


# --- discrete Fourier transform -------------------------------------------------------------


def _length(call: Call, extent: int) -> int:
    asked: DFTAttributes = call.attributes
    if asked.dft_length is not None:
        return asked.dft_length
    return 2 * (extent - 1) if asked.inverse and asked.onesided else extent


def _infer_dft(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    asked: DFTAttributes = call.attributes
    rank = len(source.shape)
    if rank < 2 or source.shape[-1] not in (1, 2) or not source.dtype.is_float:
        raise call.error("the input must hold floating-point values, 1 or 2 (complex) at the end")
    axis = axis_of(call, asked.axis, rank)
    if axis == rank - 1:
        raise call.error("axis must not be the last one", got=str(asked.axis))
    length = _length(call, known(call, source.shape[axis]))
    if length < 1:
        raise call.error("the length must be at least 1", got=str(length))
    bins = length // 2 + 1 if asked.onesided and not asked.inverse else length
    parts = 1 if asked.onesided and asked.inverse else 2
    shape = (*source.shape[:axis], bins, *source.shape[axis + 1 : -1], parts)
    return (TensorType(source.dtype, shape),)


def _transform(call: Call, x: np.ndarray, axis: int) -> np.ndarray:
    """The transform of real and imaginary parts, in double precision."""
    asked: DFTAttributes = call.attributes
    wide = x.astype(np.float64)
    values = wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]
    length = _length(call, x.shape[axis])
    if asked.inverse and asked.onesided:
        return np.fft.irfft(values, length, axis)[..., None]
    found = (np.fft.ifft if asked.inverse else np.fft.fft)(values, length, axis)
    if asked.onesided:
        found = np.take(found, range(length // 2 + 1), axis)
    return np.stack([found.real, found.imag], -1)


def _reference_dft(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (_transform(call, x, call.attributes.axis % x.ndim).astype(x.dtype),)


def _shape(*dims: int) -> ReshapeAttributes:
    return ReshapeAttributes(dims, allowzero=1)


def _expand_dft(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    asked: DFTAttributes = call.attributes
    source, target = call.type(0).dims, _infer_dft(call)[0].dims
    rank = len(source)
    axis = axis_of(call, asked.axis, rank)
    rest = [place for place in range(rank - 1) if place != axis]
    perm = (*rest, rank - 1, axis)
    kept = tuple(source[place] for place in rest)
    x = inputs[0]
    if perm != tuple(range(rank)):
        x = build.op("Transpose", x, attributes=TransposeAttributes(perm))
    x = build.op("Reshape", x, attributes=_shape(prod(kept), source[-1], source[axis]))
    plan = Transform(
        length=_length(call, source[axis]),
        parts=source[-1],
        given=source[axis],
        inverse=bool(asked.inverse),
        onesided=bool(asked.onesided),
    )
    check_table(call, plan.length)  # before it is looked at for factors
    check_table(call, plan.table)
    y = build.op(
        "Reshape", plan.nodes(build, x), attributes=_shape(*kept, target[-1], target[axis])
    )
    back = tuple(perm.index(place) for place in range(rank))
    if back != tuple(range(rank)):
        y = build.op("Transpose", y, attributes=TransposeAttributes(back))
    return (y,)


# --- short-time Fourier transform -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Frames:
    """Frames of a signal: how many, and how long."""

    count: int
    length: int


def _frames(call: Call) -> _Frames:
    source = call.type(0)
    asked: STFTAttributes = call.attributes
    if len(source.shape) != 3 or source.shape[-1] not in (1, 2) or not source.dtype.is_float:
        raise call.error("the signal must be [batch, length, 1 or 2] of floating-point values")
    extent = known(call, source.shape[1])
    window = call.type(1) if call.has(1) else None
    length = asked.frame_length
    if window is not None:
        if len(window.shape) != 1 or window.dtype != source.dtype:
            raise call.error("the window must be a vector of the signal's type")
        length = known(call, window.shape[0]) if length is None else length
        if window.shape[0] != length:
            raise call.error(f"the window must have {length} elements")
    length = extent if length is None else length
    if asked.frame_step < 1 or not 1 <= length <= extent:
        raise call.error(
            f"frame_step must be at least 1 and the frames within [1, {extent}] long",
            got=f"{asked.frame_step} and {length}",
        )
    return _Frames((extent - length) // asked.frame_step + 1, length)


def _infer_stft(call: Call) -> tuple[TensorType, ...]:
    found, source = _frames(call), call.type(0)
    bins = found.length // 2 + 1 if call.attributes.onesided else found.length
    return (TensorType(source.dtype, (source.shape[0], found.count, bins, 2)),)


def _frame_places(call: Call) -> np.ndarray:
    found = _frames(call)
    starts = np.arange(found.count)[:, None] * call.attributes.frame_step
    return starts + np.arange(found.length)


def _reference_stft(
    call: Call, x: np.ndarray, window: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    values = x[..., 0].astype(np.float64) if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    framed = values[:, _frame_places(call)]
    found = np.fft.fft(framed if window is None else framed * window, axis=-1)
    if call.attributes.onesided:
        found = found[..., : found.shape[-1] // 2 + 1]
    return (np.stack([found.real, found.imag], -1).astype(x.dtype),)


def _expand_stft(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    found, (batch, _, parts) = _frames(call), call.type(0).dims
    asked: STFTAttributes = call.attributes
    frames = FramesAttributes(found.length, asked.frame_step, axis=1)
    x = build.op("Frames", inputs[0], attributes=frames)
    if call.has(1):
        x = build.op("Mul", x, inputs[1])
    plan = Transform(found.length, parts, found.length, False, bool(asked.onesided))
    check_table(call, plan.table)
    x = build.op("Reshape", x, attributes=_shape(batch * found.count, parts, found.length))
    y = build.op(
        "Reshape", plan.nodes(build, x), attributes=_shape(batch, found.count, 2, plan.bins)
    )
    return (build.op("Transpose", y, attributes=TransposeAttributes((0, 1, 3, 2))),)


OPS: tuple[Op, ...] = (
    Op(
        name="DFT",
        infer=_infer_dft,
        reference=_reference_dft,
        compute=Expand(_expand_dft),
        attributes=DFTAttributes,
        doc="The discrete Fourier transform along an axis, or its inverse.",
    ),
    Op(
        name="STFT",
        inputs=(Param("signal"), Param("window", optional=True)),
        infer=_infer_stft,
        reference=_reference_stft,
        compute=Expand(_expand_stft),
        attributes=STFTAttributes,
        doc="Fourier transforms of overlapping frames of a signal.",
    ),
)
