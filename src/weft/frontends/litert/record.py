"""What rows of the LiteRT table are written with.

A row is a function under the names of the builtin operators that it imports.  Its first parameter
is ``g``, which makes nodes of Weft; positional ones are the operator's inputs, in order, and
keyword-only ones its options *by the names of the schema*::

    @litert("SOFTMAX")
    def softmax(g: Emit, x: Tensor, *, beta: float) -> Tensor:
        return g("Softmax", g.scaled(x, beta), axis=-1)

Most rows compute with numbers: quantized inputs come dequantized, and what they make is quantized
as the file says.  ``Kind.STORED`` rows move elements, and take integers as they are stored where
all inputs and outputs are quantized alike.  ``Kind.RAW`` rows always take integers as stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from enum import Enum, auto
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends import emit
from weft.frontends.emit import Tensor
from weft.frontends.litert.model import OperatorInfo, Quantization, TensorInfo
from weft.ir.types import TensorType
from weft.ops.evaluate import evaluate_node
from weft.ops.table import OPS
from weft.records import dataclass


@dataclass(frozen=True)
class Resource:
    """A variable as a value: what ``VAR_HANDLE`` gives."""

    name: str


@dataclass(frozen=True)
class Complex:
    """Complex numbers as a value: pairs along a last axis."""

    pairs: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes, as LiteRT has them."""
        return self.pairs.shape[:-1]


Value: TypeAlias = "Tensor | Resource | Complex"
Made: TypeAlias = "Value | Sequence[Value] | None"
Function: TypeAlias = Callable[..., Made]
F = TypeVar("F", bound=Function)

FOLDED = 4096
"""Constants with more elements are not computed with at import."""
MOST_NODES = 100_000
_SHORT = {"DequantizeLinear": "dequantize", "QuantizeLinear": "quantize"}


class Kind(Enum):
    """How a row takes quantized tensors."""

    NUMBERS = auto()
    STORED = auto()
    RAW = auto()


@dataclass(frozen=True)
class Row:
    """What imports an operator."""

    function: Function
    kind: Kind


TABLE: dict[str, Row] = {}
"""Rows by the builtin operator's name."""
COMPLEX: dict[str, Row] = {}
"""Rows of operators that take complex numbers."""


def litert(*names: str, kind: Kind = Kind.NUMBERS) -> Callable[[F], F]:
    """Enters a row into the table under names of builtin operators."""

    def enter(function: F) -> F:
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = Row(function, kind)
        return function

    return enter


def complex_row(name: str) -> Callable[[F], F]:
    """Enters a row of complex numbers into the table under the name of a builtin operator."""

    def enter(function: F) -> F:
        COMPLEX[name] = Row(function, Kind.NUMBERS)
        return function

    return enter


@dataclass
class Emit(emit.Emit):
    """Makes the nodes of one operator.

    Attributes:
        base: name of the operator; its nodes' names begin with it.
        operator: the operator.
        taken: what the file says about its inputs; ``None`` where absent.
        given: what it says about its outputs.
        inside: what it says about values inside of it.
        raw: the inputs as they are stored.
        stored: integers and their meaning for constants that were dequantized, by name.
        float_activations: whether layers whose weights alone are integers compute in float.
        limit: bytes that constants may have in all; a file may name one buffer many times.
    """

    base: str = ""
    operator: OperatorInfo | None = None
    taken: tuple[TensorInfo | None, ...] = ()
    given: tuple[TensorInfo, ...] = ()
    inside: tuple[TensorInfo, ...] = ()
    raw: tuple[Tensor | None, ...] = ()
    stored: dict[str, tuple[np.ndarray, Quantization]] = field(
        default_factory=dict[str, tuple[np.ndarray, Quantization]]
    )
    float_activations: bool = False
    limit: int = 1 << 62
    importer: Any = None
    _made: dict[Any, Tensor] = field(default_factory=dict[Any, Tensor])

    def several(
        self, op: str, *inputs: Tensor | None, outputs: int, **attributes: Any
    ) -> tuple[Tensor, ...]:
        """Adds a node, or computes it if its inputs are small constants."""
        self.name = f"{self.base}/{_SHORT.get(op, op.removesuffix('ChannelsLast').lower())}"
        if len(self.builder.nodes) >= MOST_NODES:
            raise UserError(f"litert: a model becomes at most {MOST_NODES:,} nodes")
        made = super().several(op, *inputs, outputs=outputs, **attributes)
        for each in made:
            if prod(each.shape) * each.dtype.bytes > 1 << 40:
                self.refuse(f"a result of {each.type} is too large")
        return self._folded(inputs, made)

    def _folded(
        self, inputs: Sequence[Tensor | None], made: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        given = [each for each in inputs if each is not None]
        known = all(each.name in self.arrays for each in given)
        if not known or sum(each.type.size for each in (*given, *made)) > FOLDED:
            return made
        node = self.builder.nodes[-1]
        found = evaluate_node(node, OPS[node.op], self.builder.types, self.arrays)
        del self.builder.nodes[-1]
        for each in made:
            del self.builder.types[each.name]
        return tuple(self.constant(np.asarray(found[each.name]), each.name) for each in made)

    def constant(self, array: np.ndarray, name: str = "") -> Tensor:
        """A constant that the code may depend on."""
        self.limit -= array.nbytes
        if self.limit < 0:
            raise UserError("litert: the operators' constants must not outgrow the file by far")
        return super().constant(array, name or f"{self.base}/constant")

    # --- options and constants that decide shapes -----------------------------------------

    def known(self, x: Tensor | None, what: str) -> np.ndarray:
        """The elements of an input that must be a constant."""
        found = self.array(x) if x is not None else None
        if found is None:
            self.refuse(f"{what} must be known before the model runs")
        return found

    def ints(self, x: Tensor | None, what: str) -> tuple[int, ...]:
        """The integers of an input that must be a constant."""
        found = self.known(x, what)
        if found.dtype.kind not in "iu":
            self.refuse(f"{what} must be integers")
        if found.size > FOLDED:
            self.refuse(f"{what} must be few")
        return tuple(int(each) for each in found.reshape(-1))

    def axis(self, x: Tensor, dim: int) -> int:
        """An axis counted from the front; it must exist."""
        if not -x.rank <= dim < max(x.rank, 1):
            self.refuse(f"axis {dim} must be one of {x.type}")
        return super().axis(x, dim)

    def require_rank(self, x: Tensor, *ranks: int) -> None:
        """Refuses tensors of other ranks."""
        if x.rank not in ranks:
            text = " or ".join(map(str, ranks))
            self.refuse(f"an input must have {text} axes, but is {x.type}")

    # --- quantized tensors ----------------------------------------------------------------

    def shared(self, key: Any, array: np.ndarray, name: str) -> Tensor:
        """A constant that is made once."""
        if key not in self._made:
            self._made[key] = self.constant(array, name)
        return self._made[key]

    def _scale_of(self, meaning: Quantization, dtype: DType) -> tuple[Tensor, Tensor | None]:
        single = meaning.scale.size == 1
        scale = meaning.scale.reshape(()) if single else meaning.scale
        zero = meaning.zero_point.astype(dtype.numpy)
        zero = zero.reshape(()) if single else zero
        return (
            self.shared(("scale", scale.tobytes(), single), scale, "scale"),
            self.shared(("zero", zero.tobytes(), single, dtype), zero, "zero_point"),
        )

    def dequantized(self, x: Tensor, meaning: Quantization) -> Tensor:
        """The numbers that stored integers stand for."""
        array = self.array(x)
        if x.dtype is DType.I64 and array is None:
            self.refuse("quantized INT64 values must be constants")
        scale, zero = self._scale_of(meaning, x.dtype)
        # Left a node, however small: integer kernels need the integers.
        arrays = self.arrays
        self.arrays = {}
        try:
            given = zero if meaning.zero_point.any() else None
            made = self("DequantizeLinear", x, scale, given, axis=meaning.axis)
        finally:
            self.arrays = arrays
        if array is not None:
            self.stored[made.name] = (array, meaning)
        return made

    def quantized(self, y: Tensor, info: TensorInfo) -> Tensor:
        """Numbers as the integers that an output stores."""
        meaning = info.quantization
        if meaning is None or info.dtype is None or y.dtype == info.dtype:
            return y
        if info.dtype not in (DType.I8, DType.U8, DType.I16):
            self.refuse(f"outputs quantized to {info.kind} are not supported")
        scale, zero = self._scale_of(meaning, info.dtype)
        return self("QuantizeLinear", self.cast(y, DType.F32), scale, zero, axis=meaning.axis)

    def stored_zero(self, x: Tensor) -> Tensor:
        """What stands for 0 in the elements of the first input: a constant of rank 0."""
        info = self.taken[0]
        meaning = info.quantization if info is not None and x.dtype == info.dtype else None
        value = int(meaning.zero_point[0]) if meaning is not None else 0
        return self.number(value, x.dtype)

    def rearranged(
        self, x: Tensor, perm: Sequence[int], shape: Sequence[int] | None = None
    ) -> Tensor:
        """A tensor under another shape, then its axes in another order; constants at import.

        A shape must keep the axis of several scales.
        """
        shape = tuple(x.shape if shape is None else shape)
        if x.name in self.stored:
            array, meaning = self.stored[x.name]
            key = ("stored", x.name, tuple(perm), shape)
            if key not in self._made:
                integers = self.constant(_moved(array, shape, perm), f"{self.base}/weight")
                axis = tuple(perm).index(meaning.axis) if meaning.scale.size > 1 else 0
                self._made[key] = self.dequantized(
                    integers, Quantization(meaning.scale, meaning.zero_point, axis)
                )
            return self._made[key]
        array = self.array(x)
        if array is not None:
            key = ("moved", x.name, tuple(perm), shape)
            return self.shared(key, _moved(array, shape, perm), f"{self.base}/weight")
        return self.transpose(self.reshape(x, shape), perm)

    def bias(self, bias: Tensor | None, place: int) -> Tensor | None:
        """The bias of a product of the inputs x and w: integers count their scales' product.

        Args:
            bias: dequantized, if the file says how.
            place: of the bias among the inputs; x and w are those before it.
        """
        if bias is None:
            return None
        info, raw = self.taken[place], self.raw[place]
        x, w = (self.taken[each] for each in (0, 1))
        meanings = [each.quantization if each is not None else None for each in (x, w)]
        if info is None or raw is None or info.dtype not in (DType.I32, DType.I64):
            return bias
        if meanings[0] is None or meanings[1] is None:
            return bias if bias.dtype.is_float else self.cast(bias, DType.F32)
        scale = (meanings[0].scale * meanings[1].scale).astype(np.float32)
        return self.dequantized(raw, Quantization(scale, np.zeros(scale.size, np.int64), 0))

    def assign(self, place: int, value: Tensor) -> None:
        """Gives a variable among the inputs its value for the next run."""
        info = self.taken[place]
        if info is None or not info.variable:
            self.refuse(f"input {place} must be a variable")
        self.importer.assign(info.name or "state", self.quantized(value, info))

    # --- what many rows need --------------------------------------------------------------

    def scaled(self, x: Tensor, factor: float) -> Tensor:
        """A tensor times a number."""
        return x if factor == 1 else self("Mul", x, self.number(factor, x.dtype))

    def activated(self, y: Tensor, code: int) -> Tensor:
        """The activation that an operator is fused with."""
        if code not in _ACTIVATIONS:
            self.refuse(f"fused activation {code} is not supported")
        op, attributes = _ACTIVATIONS[code]
        return self(op, y, **attributes) if op else y

    @property
    def result(self) -> TensorInfo:
        """What the file says about the first output."""
        if not self.given:
            self.refuse("it has no output")
        return self.given[0]

    @property
    def result_type(self) -> TensorType:
        """The type of the first output, if numbers are computed with."""
        info = self.result
        dtype = DType.F32 if info.quantization is not None else self.result_dtype
        return TensorType(dtype, info.shape)

    @property
    def result_dtype(self) -> DType:
        """The element type of the first output as it is stored."""
        found = self.result.dtype
        if found is None:
            self.refuse(f"an output of {self.result.kind} is not supported")
        return found


_ACTIVATIONS: dict[int, tuple[str, dict[str, Any]]] = {
    0: ("", {}),
    1: ("Relu", {}),
    2: ("Clip", {"min": -1.0, "max": 1.0}),
    3: ("Clip", {"min": 0.0, "max": 6.0}),
    4: ("Tanh", {}),
}


def numbers(array: np.ndarray, meaning: Quantization | None) -> np.ndarray:
    """The numbers that integers stand for."""
    if meaning is None:
        return array
    spread = [1] * array.ndim
    if meaning.scale.size > 1:
        spread[meaning.axis] = -1
    zero, scale = meaning.zero_point.reshape(spread), meaning.scale.reshape(spread)
    return ((array - zero) * scale.astype(np.float64)).astype(np.float32).reshape(array.shape)


def _moved(array: np.ndarray, shape: Sequence[int], perm: Sequence[int]) -> np.ndarray:
    return np.ascontiguousarray(array.reshape(shape).transpose(perm))
