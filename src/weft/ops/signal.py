"""Windows and the mel filter bank."""

from __future__ import annotations

from math import pi

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import binary, cast, const, unary
from weft.ops.record import Builder, Call, Define, Expand, NoGrad, Op
from weft.ops.support import check_table, each_point
from weft.records import dataclass

NO_INPUT = NoGrad("there is no input")


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
