"""Arrays of which only the type is known yet: parameters, and what is computed of them.

Code that makes constants of constants is NumPy: it folds a batch normalization into weights, packs
weights for a kernel.  Given an ``Unknown`` in place of an array the same code runs and records
ops, which ``weft.ops.recorded`` turns into a graph.  There are no elements that it could look at:
asking for one raises ``ValueUnknown``, which rules and kernels are refused with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.records import dataclass

Array: TypeAlias = "np.ndarray | Unknown"

IN_PLACE_BYTES = 16 << 20
"""From so many bytes on a dense layer of one row may read a parameter where it lies.

What a core reads of it then comes from memory or a shared cache, packed or not.
"""


class ValueUnknown(Exception):
    """Elements were asked for that are only known at run time."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it depends on the values of the parameter {name}")


@dataclass(frozen=True, eq=False)
class Recorded:
    """One op on arrays.

    Attributes:
        op: name in the op table.
        operands: what it reads; ``None`` where absent.
        attributes: the op's record, or its fields by name.
        outputs: how many it has.
    """

    op: str
    operands: tuple[Array | None, ...]
    attributes: Any = None
    outputs: int = 1

    @cached_property
    def digest(self) -> str:
        """A short hash, equal for equal operations on equal arrays."""
        parts = ["" if each is None else digest(each) for each in self.operands]
        text = " ".join([self.op, repr(self.attributes), *parts])
        return blake2b(text.encode(), digest_size=8).hexdigest()


class Unknown(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without elements: NumPy's interface as far as ops can say what it does.

    Args:
        dtype: of the elements.
        shape: as an array's.
        origin: the name of a parameter, or the op that makes it.
        place: among the op's outputs.
    """

    def __init__(
        self, dtype: np.dtype, shape: Sequence[int], origin: str | Recorded, place: int = 0
    ) -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.origin = origin
        self.place = place
        self.ndim = len(self.shape)
        self.size = prod(self.shape)
        self.itemsize = dtype.itemsize
        self.nbytes = self.size * dtype.itemsize

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return id(self)

    def __repr__(self) -> str:
        return f"Unknown({self.dtype}{list(self.shape)} of {self.parameter})"

    @property
    def parameter(self) -> str:
        """A parameter that it depends on."""
        found: Any = self
        while not isinstance(found.origin, str):
            found = next(each for each in found.origin.operands if isinstance(each, Unknown))
        return found.origin

    @cached_property
    def digest(self) -> str:
        """A short hash of how it is computed, equal for equal computations."""
        made = self.origin if isinstance(self.origin, str) else self.origin.digest
        text = f"{self.dtype.name} {self.shape} {self.place} {made}"
        return blake2b(text.encode(), digest_size=8).hexdigest()

    # --- what has no answer ---------------------------------------------------------------

    def unknown(self, *_: Any, **__: Any) -> Any:
        """Refuses."""
        raise ValueUnknown(self.parameter)

    __array__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = unknown
    __iter__ = __contains__ = __setitem__ = unknown

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueUnknown(self.parameter)

    def __len__(self) -> int:
        return self.shape[0]

    # --- what is recorded -----------------------------------------------------------------

    def made(
        self,
        op: str,
        shape: Sequence[int],
        attributes: Mapping[str, Any] | None = None,
        dtype: np.dtype | None = None,
    ) -> Unknown:
        """What an op of this array alone makes."""
        return Unknown(dtype or self.dtype, shape, Recorded(op, (self,), attributes))

    def astype(self, dtype: Any) -> Unknown:
        """Elements of another type."""
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        return self.made("Cast", self.shape, {"to": DType.of(wanted)}, wanted)

    def reshape(self, *shape: Any) -> Unknown:
        """The same elements in another shape, of which one size may be -1."""
        given: Sequence[int] = shape[0] if len(shape) == 1 and not _is_int(shape[0]) else shape
        sizes = [int(each) for each in given]
        if -1 in sizes:
            sizes[sizes.index(-1)] = self.size // max(1, -prod(sizes))
        if tuple(sizes) == self.shape:
            return self
        # Of two reshapes in a row only the last one counts.
        source: Any = self
        while isinstance(source.origin, Recorded) and source.origin.op == "Reshape":
            source = source.origin.operands[0]
        if source.shape == tuple(sizes):
            return source
        return source.made("Reshape", sizes, {"shape": tuple(sizes), "allowzero": 1})

    def transpose(self, *axes: Any) -> Unknown:
        """The dimensions in another order, by default reversed."""
        given = tuple(axes[0] if len(axes) == 1 and not _is_int(axes[0]) else axes)
        order = tuple(int(axis) % self.ndim for axis in given or reversed(range(self.ndim)))
        if order == tuple(range(self.ndim)):
            return self
        return self.made("Transpose", [self.shape[axis] for axis in order], {"perm": order})

    @property
    def T(self) -> Unknown:
        """The dimensions reversed."""
        return self.transpose()

    def swapaxes(self, one: int, other: int) -> Unknown:
        """Two dimensions exchanged."""
        order = list(range(self.ndim))
        order[one], order[other] = order[other], order[one]
        return self.transpose(order)

    def sum(self, axis: int | Sequence[int] | None = None) -> Unknown:
        """Sums over some dimensions, by default over all."""
        given = range(self.ndim) if axis is None else (axis,) if _is_int(axis) else axis
        axes = tuple(sorted(int(each) % self.ndim for each in cast(Sequence[int], given)))
        if not axes:
            return self
        shape = [size for place, size in enumerate(self.shape) if place not in axes]
        return self.made("ReduceSum", shape, {"axes": axes, "keepdims": 0})

    def __getitem__(self, key: Any) -> Unknown:
        """A part by slices, single places, new dimensions and an ellipsis."""
        parts = list(cast(tuple[Any, ...], key)) if isinstance(key, tuple) else [key]
        if any(isinstance(each, np.ndarray | Unknown | list) for each in parts):
            raise ValueUnknown(self.parameter)
        taken = sum(each is not None and each is not Ellipsis for each in parts)
        place = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
        parts[place : place + 1] = [slice(None)] * (self.ndim - taken)
        cuts: list[slice] = []
        shape: list[int] = []
        for part in parts:
            if part is None:
                shape.append(1)
                continue
            size = self.shape[len(cuts)]
            if _is_int(part):
                cuts.append(slice(int(part) % size, int(part) % size + 1, 1))
                continue
            first, last, step = part.indices(size)
            shape.append(len(range(first, last, step)))
            cuts.append(slice(first, last if last >= 0 else -size - 1, step))
        return self._cut(cuts).reshape(shape)

    def _cut(self, cuts: Sequence[slice]) -> Unknown:
        axes = [a for a, cut in enumerate(cuts) if cut != slice(0, self.shape[a], 1)]
        if not axes:
            return self
        shape = list(self.shape)
        for axis in axes:
            shape[axis] = len(range(*cuts[axis].indices(self.shape[axis])))
        fields = {
            "starts": tuple(cuts[axis].start for axis in axes),
            "ends": tuple(cuts[axis].stop for axis in axes),
            "axes": tuple(axes),
            "steps": tuple(cuts[axis].step for axis in axes),
        }
        return self.made("Slice", shape, fields)

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        op = _UFUNCS.get(function)
        if op is None or method != "__call__" or options:
            raise ValueUnknown(self.parameter)
        return recorded(op, *operands)

    def __array_function__(
        self, function: Any, types: object, given: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Any:
        own = _FUNCTIONS.get(function)
        if own is None:
            raise ValueUnknown(self.parameter)
        return own(*given, **options)


def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer)


def digest(array: Array) -> str:
    """A short hash of an array's element type, shape and bytes, or of how it is computed."""
    if isinstance(array, Unknown):
        return array.digest
    found = blake2b(f"{array.dtype.name}{list(array.shape)}".encode(), digest_size=8)
    found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


_UFUNCS: Mapping[Any, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.divide: "Div",
    np.negative: "Neg",
    np.sqrt: "Sqrt",
    np.matmul: "MatMul",
}


def recorded(op: str, *operands: Any) -> Unknown:
    """What an elementwise op or a product makes, its operands promoted as NumPy does."""
    dtype = np.result_type(*(each.dtype if hasattr(each, "dtype") else each for each in operands))
    same: list[Array] = [
        each.astype(dtype) if isinstance(each, Unknown) else np.asarray(each, dtype)
        for each in operands
    ]
    shapes = [each.shape for each in same]
    if op == "MatMul":
        outer = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
        shape = (*outer, shapes[0][-2], shapes[1][-1])
    else:
        shape = np.broadcast_shapes(*shapes)
    return Unknown(dtype, shape, Recorded(op, tuple(same)))


def _pad(array: Unknown, widths: Any) -> Unknown:
    """Zeros around, as ``numpy.pad`` has them."""
    pairs = [(int(before), int(after)) for before, after in widths]
    if not any(map(any, pairs)):
        return array
    pads = (*(before for before, _ in pairs), *(after for _, after in pairs))
    shape = [size + sum(pair) for size, pair in zip(array.shape, pairs, strict=True)]
    return array.made("Pad", shape, {"pads": pads})


def _moveaxis(array: Unknown, source: int, target: int) -> Unknown:
    order = [axis for axis in range(array.ndim) if axis != source % array.ndim]
    order.insert(target % array.ndim, source % array.ndim)
    return array.transpose(order)


def _broadcast_to(array: Unknown, shape: Sequence[int]) -> Unknown:
    wanted = tuple(shape)
    return array if wanted == array.shape else array.made("Expand", wanted, {"shape": wanted})


def _tile(array: Unknown, count: int) -> Unknown:
    if array.ndim != 1:
        raise ValueUnknown(array.parameter)
    return _broadcast_to(array[None], (count, array.size)).reshape(-1)


def _concatenate(arrays: Sequence[Array], axis: int = 0) -> Unknown:
    first = next(each for each in arrays if isinstance(each, Unknown))
    axis %= first.ndim
    shape = list(first.shape)
    shape[axis] = sum(each.shape[axis] for each in arrays)
    return Unknown(first.dtype, shape, Recorded("Concat", tuple(arrays), {"axis": axis}))


_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.broadcast_to: _broadcast_to,
    np.concatenate: _concatenate,
    np.moveaxis: _moveaxis,
    np.pad: _pad,
    np.reshape: Unknown.reshape,
    np.sum: Unknown.sum,
    np.swapaxes: Unknown.swapaxes,
    np.tile: _tile,
    np.transpose: Unknown.transpose,
}


def is_known(array: object) -> bool:
    """Whether an array has elements."""
    return not isinstance(array, Unknown)


def as_array(array: Unknown) -> np.ndarray:
    """The same for code that is written for arrays, whether they are known or not."""
    return cast(np.ndarray, array)


def unshaped(array: np.ndarray) -> np.ndarray:
    """The same bytes without the reshapes that were recorded last."""
    found: Any = array
    while isinstance(found, Unknown):
        made = found.origin
        if isinstance(made, str) or made.op != "Reshape":
            break
        found = made.operands[0]
    return cast(np.ndarray, found)


def contiguous(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """``numpy.ascontiguousarray`` for either kind of array."""
    given: Any = array
    if isinstance(given, Unknown):
        return as_array(given if dtype is None else given.astype(dtype))
    return np.ascontiguousarray(array, dtype)


def all_finite(array: np.ndarray) -> bool:
    """Whether no element is infinite or NaN; of parameters that is taken for granted."""
    return isinstance(array, Unknown) or bool(np.isfinite(array).all())


def same_array(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays have one element type, one shape and the same bytes."""
    if left is right:
        return True
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return is_known(left) == is_known(right) and digest(left) == digest(right)
    return np.array_equal(_bytes(left), _bytes(right))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
