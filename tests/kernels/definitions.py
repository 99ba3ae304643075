"""What a definition says, evaluated for all points at once by NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import erf, erfc
from typing import assert_never

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.dtypes import DType
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Axis,
    Binary,
    Bits,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.walk import dtype_of


def _truncated(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    if lhs.dtype.kind == "f":
        return lhs / rhs
    quotient = np.abs(lhs) // np.maximum(np.abs(rhs), 1)
    return np.where((lhs < 0) == (rhs < 0), quotient, -quotient)


_UNARY: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "not": np.invert,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": np.vectorize(erf, [float]),
    "erfc": np.vectorize(erfc, [float]),
    "expm1": np.expm1,
    "log1p": np.log1p,
    "exp2": np.exp2,
    "log2": np.log2,
    "log10": np.log10,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "isnan": np.isnan,
    "isinf": np.isinf,
}
_BINARY: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _truncated,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": np.power,
    "min": lambda lhs, rhs: np.where(rhs < lhs, rhs, lhs),
    "max": lambda lhs, rhs: np.where(lhs < rhs, rhs, lhs),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_REDUCE: Mapping[str, Callable[..., np.ndarray]] = {
    "sum": np.sum,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
    "and": np.all,
    "or": np.any,
}


def _wide(dtype: DType) -> np.dtype:
    """The type that stands for an element type: doubles for all floats."""
    return np.dtype(np.float64) if dtype.is_float else dtype.numpy


@dataclass
class _Scope:
    """Values of the axes around an expression.

    Every axis is a dimension of its own, the innermost the first, so that an array has only
    the dimensions up to the innermost axis that it depends on.
    """

    memory: Mapping[str, np.ndarray]
    axes: tuple[Axis, ...]
    sums: list[float]
    known: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])

    def of(self, expr: Expr) -> np.ndarray:
        found = self.known.get(id(expr))
        if found is None:
            found = self.known[id(expr)] = self.fresh(expr)
        return found

    def fresh(self, expr: Expr) -> np.ndarray:
        match expr:
            case Const(value, dtype):
                return np.array(value, _wide(dtype))
            case Var(name):
                return self.axis(name)
            case Load(buffer, index, _):
                return self.load(self.memory[buffer], index)
            case Unary(op, x):
                return _UNARY[op](self.of(x))
            case Binary(op, lhs, rhs):
                return _BINARY[op](self.of(lhs), self.of(rhs))
            case Select(condition, then, otherwise):
                return np.where(self.of(condition), self.of(then), self.of(otherwise))
            case Cast(dtype, x):
                return self.of(x).astype(_wide(dtype))
            case Bits(dtype, x):
                narrow = self.of(x).astype(dtype_of(x).numpy)
                return narrow.view(dtype.numpy).astype(_wide(dtype))
            case Reduce(op, axes, value):
                return self.reduce(op, axes, value)
            case _:
                assert_never(expr)

    def axis(self, name: str) -> np.ndarray:
        """The innermost axis of a name."""
        for place in reversed(range(len(self.axes))):
            if self.axes[place].var == name:
                return np.arange(self.axes[place].extent).reshape(-1, *(1,) * place)
        raise KeyError(name)

    def load(self, array: np.ndarray, index: Sequence[Expr]) -> np.ndarray:
        # Both sides of a selection are computed here, so what is not chosen may lie outside.
        places = [
            np.clip(self.of(part), 0, extent - 1)
            for part, extent in zip(index, array.shape, strict=True)
        ]
        return array[tuple(places)] if places else array[()]

    def reduce(self, op: str, axes: tuple[Axis, ...], value: Expr) -> np.ndarray:
        inner = _Scope(self.memory, (*self.axes, *axes), self.sums)
        found = inner.of(value)
        shape = [axis.extent for axis in reversed(axes)]
        around = found.shape[-len(self.axes) :] if self.axes else ()
        around = (*(1,) * (len(self.axes) - len(around)), *around)
        whole = np.broadcast_to(found, (*shape, *around))
        reduced = _REDUCE[op](whole, axis=tuple(range(len(axes))))
        finite = np.abs(reduced[np.isfinite(reduced)])
        self.sums.append(float(finite.max(initial=0.0)))
        return reduced


def evaluate(
    compute: Compute, inputs: Sequence[Buffer], memory: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, float]:
    """The output of a definition, in the order of its axes, and how large sums in it become.

    Args:
        compute: the definition.
        inputs: what it loads.
        memory: the flat memory of every input.
    """
    views = {
        buffer.name: as_strided(
            memory[buffer.name],
            buffer.shape,
            [step * buffer.dtype.bytes for step in buffer.steps],
        ).astype(_wide(buffer.dtype))
        for buffer in inputs
    }
    sums = [0.0]
    with np.errstate(all="ignore"):
        found = _Scope(views, compute.axes, sums).of(compute.value)
    extents = [axis.extent for axis in reversed(compute.axes)]
    return np.ascontiguousarray(np.broadcast_to(found, extents).T), max(sums)
