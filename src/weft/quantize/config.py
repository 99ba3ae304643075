"""What a quantized network is to be: schemes, calibration, corrections, and exceptions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from dataclasses import replace as changed
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from weft.errors import UserError, nearest_or_all
from weft.quantize.scheme import ACTIVATIONS, WEIGHTS, QuantizationScheme
from weft.records import dataclass

CalibrationMethod: TypeAlias = Literal["min-max", "moving-average", "percentile", "mse", "kl"]
METHODS: tuple[str, ...] = get_args(CalibrationMethod)


@dataclass(frozen=True)
class QuantizationConfig:
    """The options of post-training quantization and of quantization-aware training.

    Attributes:
        activations: scheme of values that a network computes.
        weights: scheme of weights; layers set its axis.
        per_channel: one scale for each output of a layer; one for each weight otherwise.
        calibration: how the range of an activation is chosen.
        weight_calibration: how the range of a weight is chosen: ``min-max`` or ``mse``.
        percentile: of ``percentile``: the share of elements within the range, in percent.
        momentum: of ``moving-average``: the weight of what came before each sample.
        equalize: whether cross-layer equalization comes first.
        bias_correction: whether biases make up for the mean error of rounded weights.
        adaptive_rounding: whether weights are rounded up or down as the output is best.
        integer_io: whether inputs and outputs of the network are integers, too.
        keep_float: names of nodes that stay in floating point; ``*`` and ``?`` stand for anything.
        weight_bits: by name of nodes, likewise, bits of their weights that differ from the
            scheme's.
    """

    activations: QuantizationScheme = ACTIVATIONS
    weights: QuantizationScheme = WEIGHTS
    per_channel: bool = True
    calibration: CalibrationMethod = "min-max"
    weight_calibration: Literal["min-max", "mse"] = "min-max"
    percentile: float = 99.99
    momentum: float = 0.9
    equalize: bool = False
    bias_correction: bool = False
    adaptive_rounding: bool = False
    integer_io: bool = False
    keep_float: tuple[str, ...] = ()
    weight_bits: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        if self.calibration not in METHODS:
            rule = f"quantize: calibration is one of {', '.join(METHODS)}"
            raise UserError(rule, got=str(self.calibration))
        if self.weight_calibration not in ("min-max", "mse"):
            raise UserError(
                "quantize: weight_calibration is min-max or mse", got=str(self.weight_calibration)
            )
        if self.activations.bits not in (8, 16):
            got = f"{self.activations.bits} bits"
            raise UserError("quantize: activations have 8 or 16 bits", got=got)
        if self.weights.bits > 8 or any(not 2 <= n <= 8 for n in self.weight_bits.values()):
            given = {self.weights.bits, *self.weight_bits.values()}
            got = ", ".join(map(str, sorted(given)))
            raise UserError("quantize: weights have 2 to 8 bits", got=got)
        if not 50 < self.percentile <= 100:
            raise UserError(
                "quantize: percentile must be above 50 and at most 100", got=f"{self.percentile:g}"
            )
        if not 0 <= self.momentum < 1:
            raise UserError("quantize: momentum must be within [0, 1)", got=f"{self.momentum:g}")

    def weight_scheme(self, bits: int, axis: int | None) -> QuantizationScheme:
        """The scheme of a layer's weight.

        Args:
            bits: of its integers.
            axis: of the weight along which its outputs lie.
        """
        return changed(self.weights, bits=bits, axis=axis if self.per_channel else None)


class QuantizeKeywords(TypedDict, total=False):
    """Keywords of ``quantize``, as ``QuantizationConfig`` documents them, schemes by their bits.

    ``weights`` is the number of bits of weights, 2 to 8; ``activations`` that of activations, 8 or
    16 (which are symmetric, as LiteRT's are). ``symmetric`` makes 8-bit activations symmetric, too,
    and ``signed=False`` unsigned.
    """

    weights: int
    activations: int
    symmetric: bool
    signed: bool
    per_channel: bool
    calibration: CalibrationMethod
    weight_calibration: Literal["min-max", "mse"]
    percentile: float
    momentum: float
    equalize: bool
    bias_correction: bool
    adaptive_rounding: bool
    integer_io: bool
    keep_float: Collection[str]
    weight_bits: Mapping[str, int]


def config_of(keywords: QuantizeKeywords) -> QuantizationConfig:
    """The record that keywords stand for.

    Raises:
        UserError: there is no such keyword, or a value is not possible.
    """
    known = QuantizeKeywords.__annotations__
    for name in keywords:
        if name not in known:
            raise UserError(f"quantize: there is no option {name}", fix=nearest_or_all(name, known))
    given: dict[str, Any] = dict(keywords)
    bits = given.pop("activations", 8)
    symmetric, signed = given.pop("symmetric", False), given.pop("signed", True)
    activations = changed(
        ACTIVATIONS, bits=bits, signed=signed, symmetric=bool(symmetric) or bits == 16
    )
    weights = changed(WEIGHTS, bits=given.pop("weights", WEIGHTS.bits))
    patterns = given.pop("keep_float", ())
    names: tuple[str, ...] = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    return QuantizationConfig(activations, weights, keep_float=names, **given)


def chosen_nodes(patterns: Collection[str], names: Collection[str], what: str) -> frozenset[str]:
    """The names that patterns fit.

    Args:
        patterns: names, in which ``*`` and ``?`` may stand for anything.
        names: that there are.
        what: the option that has the patterns, for errors.

    Raises:
        UserError: a pattern fits none.
    """
    found: set[str] = set()
    for pattern in patterns:
        fitting = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        if not fitting:
            raise UserError(
                f"quantize: {what} names no layer {pattern}", fix=nearest_or_all(pattern, names)
            )
        found |= fitting
    return frozenset(found)
