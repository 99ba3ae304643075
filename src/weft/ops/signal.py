"""Fourier transforms, windows and the mel filter bank."""

from __future__ import annotations

from math import pi, prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import binary, cast, const, unary
from weft.ops.indexing import GatherAttributes
from weft.ops.ordering import TransposeAttributes
from weft.ops.record import Builder, Call, Define, Expand, NoGrad, Op, Param
from weft.ops.shape import ReshapeAttributes
from weft.ops.support import axis_of, check_table, each_point, known
from weft.records import dataclass

NO_INPUT = NoGrad("there is no input")


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


@dataclass(frozen=True, slots=True)
class WindowAttributes(Attributes):
    """``size`` of a window, ``periodic`` or symmetric."""

    size: int
    periodic: int = 1
    output_datatype: DType = DType.F32


@dataclass(frozen=True, slots=True)
class MelAttributes(Attributes):
    """Filters between two frequencies for spectra of ``dft_length // 2 + 1`` bins."""

    num_mel_bins: int
    dft_length: int
    sample_rate: int
    lower_edge_hertz: float
    upper_edge_hertz: float
    output_datatype: DType = DType.F32


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


def _expand_dft(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    """A product with the matrix of the transform: its columns are transformed unit vectors."""
    dims, target = call.type(0).dims, _infer_dft(call)[0].dims
    rank = len(dims)
    axis = axis_of(call, call.attributes.axis, rank)
    rows, columns = dims[axis] * dims[-1], target[axis] * target[-1]
    check_table(call, rows * max(rows, columns))
    units = np.eye(rows).reshape(rows, dims[axis], dims[-1])
    matrix = _transform(call, units, 1).reshape(rows, columns)
    rest = [place for place in range(rank - 1) if place != axis]
    perm = (*rest, axis, rank - 1)
    kept = tuple(dims[place] for place in rest)
    x = inputs[0]
    if perm != tuple(range(rank)):
        x = build.op("Transpose", x, attributes=TransposeAttributes(perm))
    flat = ReshapeAttributes((prod(kept), rows), allowzero=1)
    product = build.op(
        "MatMul",
        build.op("Reshape", x, attributes=flat),
        build.constant(matrix.astype(call.type(0).dtype.numpy), "transform"),
    )
    parted = ReshapeAttributes((*kept, target[axis], target[-1]), allowzero=1)
    y = build.op("Reshape", product, attributes=parted)
    if perm != tuple(range(rank)):
        back = tuple(perm.index(place) for place in range(rank))
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
    check_table(call, _frames(call).count * _frames(call).length)
    places = build.constant(_frame_places(call).astype(np.int64), "places")
    framed = build.op("Gather", inputs[0], places, attributes=GatherAttributes(1))
    if call.has(1):
        shape = ReshapeAttributes((_frames(call).length, 1))
        framed = build.op("Mul", framed, build.op("Reshape", inputs[1], attributes=shape))
    onesided = call.attributes.onesided
    return (build.op("DFT", framed, attributes=DFTAttributes(axis=2, onesided=onesided)),)


# --- windows ------------------------------------------------------------------------------


def _infer_window(call: Call) -> tuple[TensorType, ...]:
    asked: WindowAttributes = call.attributes
    if asked.size < 0:
        raise call.error("size must be 0 or more", got=str(asked.size))
    return (TensorType(asked.output_datatype, (asked.size,)),)


def _period(asked: WindowAttributes) -> int:
    return max(1, asked.size if asked.periodic else asked.size - 1)


def _window_op(name: str, terms: tuple[float, ...], doc: str) -> Op:
    """A sum of cosines: ``terms[k] * cos(2 * pi * k * n / period)``."""

    def reference(call: Call) -> tuple[np.ndarray, ...]:
        asked: WindowAttributes = call.attributes
        angle = 2 * pi / _period(asked) * np.arange(asked.size)
        found = np.zeros(asked.size)
        for k, term in enumerate(terms):
            found += term * np.cos(k * angle)
        return (found.astype(asked.output_datatype.numpy),)

    def define(call: Call) -> tuple[Compute, ...]:
        def value(point: tuple[Expr, ...]) -> Expr:
            found: Expr = const(terms[0], DType.F64)
            for k, term in enumerate(terms[1:], 1):
                step = const(2 * pi * k / _period(call.attributes), DType.F64)
                wave = unary("cos", binary("mul", cast(DType.F64, point[0]), step))
                found = binary("add", found, binary("mul", const(term, DType.F64), wave))
            return cast(call.attributes.output_datatype, found)

        return each_point((call.attributes.size,), value)

    return Op(
        name=name,
        inputs=(),
        infer=_infer_window,
        reference=reference,
        compute=Define(define),
        grad=NO_INPUT,
        attributes=WindowAttributes,
        doc=doc,
    )


# --- mel filters --------------------------------------------------------------------------


def _infer_mel(call: Call) -> tuple[TensorType, ...]:
    asked: MelAttributes = call.attributes
    bins = asked.dft_length // 2 + 1
    edges = (asked.lower_edge_hertz, asked.upper_edge_hertz)
    counts = (asked.num_mel_bins, asked.dft_length, asked.sample_rate)
    if min(counts) < 1:
        raise call.error(
            "num_mel_bins, dft_length and sample_rate must be at least 1", got=str(list(counts))
        )
    if not 0 <= edges[0] <= edges[1] <= asked.sample_rate / 2:
        raise call.error(
            f"the edges must be in order and within [0, {asked.sample_rate / 2}]",
            got=f"{edges[0]} and {edges[1]}",
        )
    check_table(call, bins * asked.num_mel_bins)
    return (TensorType(asked.output_datatype, (bins, asked.num_mel_bins)),)


def _reference_mel(call: Call) -> tuple[np.ndarray, ...]:
    asked: MelAttributes = call.attributes
    low, high = (
        2595 * np.log10(1 + edge / 700) for edge in (asked.lower_edge_hertz, asked.upper_edge_hertz)
    )
    mels = low + np.arange(asked.num_mel_bins + 2) * (high - low) / (asked.num_mel_bins + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    bins = np.floor((asked.dft_length + 1) * hertz / asked.sample_rate)
    left, centre, right = bins[:-2], bins[1:-1], bins[2:]
    place = np.arange(asked.dft_length // 2 + 1)[:, None]
    rising = (place - left) / np.where(centre == left, 1, centre - left)
    falling = (right - place) / np.where(right == centre, 1, right - centre)
    found = np.where((place >= left) & (place <= centre) & (centre > left), rising, 0.0)
    found = np.where((place >= centre) & (place < right), falling, found)
    found = np.where((place == centre) & (centre == left), 1.0, found)
    return (found.astype(asked.output_datatype.numpy),)


def _expand_mel(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    return (build.constant(_reference_mel(call)[0], "filters"),)


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
    _window_op("HannWindow", (0.5, -0.5), "The Hann window."),
    _window_op("HammingWindow", (25 / 46, -21 / 46), "The Hamming window."),
    _window_op("BlackmanWindow", (0.42, -0.5, 0.08), "The Blackman window."),
    Op(
        name="MelWeightMatrix",
        inputs=(),
        infer=_infer_mel,
        reference=_reference_mel,
        compute=Expand(_expand_mel),
        grad=NO_INPUT,
        attributes=MelAttributes,
        doc="Triangular filters that turn a spectrum into mel bins.",
    ),
)
