# pyright: basic
"""Functions of TensorFlow whose arguments are not those of Keras's operations.

Each row has the function's parameters, by their names in TensorFlow.  Sizes that ``tf.shape``
gives are arrays here, since the batch is a number when a model is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import RefusalError
from weft.frontends.keras.operations import tensor
from weft.frontends.keras.record import OPERATIONS, Emit, Tensor

Function: TypeAlias = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {}
"""By name in TensorFlow; they give tensors, or arrays that are known."""
KERAS: Mapping[str, Callable[..., Any]] = OPERATIONS
OF_SIZES = frozenset({"unstack", "range", "zeros", "ones", "fill"})
"""Those whose first argument may be sizes; of others it is a tensor."""
MOST_NUMBERS = 1 << 20
"""Of a range, at most."""


def function(*names: str, of_v1: bool = False) -> Callable[[Function], Function]:
    """Enters a row under names of functions, and those of TensorFlow 1 if it has the same there."""

    def enter(row: Function) -> Function:
        for name in names:
            for each in (name, *([f"compat.v1.{name}"] if of_v1 else [])):
                assert each not in FUNCTIONS, each
                FUNCTIONS[each] = row
        return row

    return enter


def whole(value: Any) -> Any:
    """Whole numbers that were computed from sizes as Python's, in nested lists, too."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iu":
        return value.tolist()
    if isinstance(value, list | tuple):
        return [whole(each) for each in value]
    return value


def element_type(name: Any) -> np.dtype[Any]:
    """The element type of a name; an error for one that is not of numbers."""
    return DType.of(np.dtype(str(name))).numpy


def integers(value: Any) -> list[int]:
    """Sizes, axes or places: a number, a list or an array of them."""
    found = np.asarray(whole(value))
    if found.dtype.kind not in "iu":
        raise RefusalError(f"its argument {str(value)[:40]} must be whole numbers")
    return found.reshape(-1).tolist()


# --- shapes -----------------------------------------------------------------------------------


@function("shape", of_v1=True)
def shape(g: Emit, input: Tensor, out_type: Any = "int32") -> np.ndarray:
    return np.asarray(input.shape, element_type(out_type or "int32"))


@function("size", of_v1=True)
def size(g: Emit, input: Tensor, out_type: Any = "int32") -> np.ndarray:
    return np.asarray(input.type.size, element_type(out_type or "int32"))


@function("rank", of_v1=True)
def rank(g: Emit, input: Tensor) -> np.ndarray:
    return np.asarray(input.rank, np.int32)


@function("range")
def numbers(
    g: Emit, start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None
) -> np.ndarray:
    begin, end = (0, start) if limit is None else (start, limit)
    if any(isinstance(each, Tensor) for each in (begin, end, delta)):
        g.refuse("a range whose ends are computed is not supported")
    if (end - begin) / delta > MOST_NUMBERS:
        g.refuse(f"it has more than {MOST_NUMBERS:,} numbers")
    made = np.arange(begin, end, delta)
    kind = dtype or ("int32" if made.dtype.kind in "iu" else "float32")
    return made.astype(element_type(kind))


def _constant(value: float) -> Function:
    def row(g: Emit, shape: Any, dtype: Any = "float32") -> Tensor:
        one = tensor(g, np.asarray(value, element_type(dtype or "float32")))
        return g.expand(one, integers(shape))

    return row


function("zeros", of_v1=True)(_constant(0.0))
function("ones", of_v1=True)(_constant(1.0))


@function("fill", of_v1=True)
def fill(g: Emit, dims: Any, value: Any) -> Tensor:
    return g.expand(tensor(g, value), integers(dims))


@function("reshape", of_v1=True)
def reshape(g: Emit, tensor: Tensor, shape: Any) -> Tensor:
    return KERAS["Reshape"](g, tensor, integers(shape))


@function("broadcast_to", of_v1=True)
def broadcast_to(g: Emit, input: Tensor, shape: Any) -> Tensor:
    return KERAS["BroadcastTo"](g, input, integers(shape))


@function("transpose", of_v1=True)
def transpose(g: Emit, a: Tensor, perm: Any = None) -> Tensor:
    return KERAS["Transpose"](g, a, None if perm is None else integers(perm))


@function("squeeze", of_v1=True)
def squeeze(g: Emit, input: Tensor, axis: Any = None, squeeze_dims: Any = None) -> Tensor:
    given = axis if axis is not None else squeeze_dims
    # An empty list stands for all axes of size 1, as none does.
    return KERAS["Squeeze"](g, input, None if given is None else integers(given) or None)


@function("expand_dims", of_v1=True)
def expand_dims(g: Emit, input: Tensor, axis: Any = None, dim: Any = None) -> Tensor:
    return KERAS["ExpandDims"](g, input, integers(axis if axis is not None else dim))


@function("keras.backend.batch_flatten")
def batch_flatten(g: Emit, x: Tensor) -> Tensor:
    return KERAS["Reshape"](g, x, [x.shape[0], x.type.size // max(x.shape[0], 1)])


# --- parts and repetitions --------------------------------------------------------------------


@function("split", of_v1=True)
def split(g: Emit, value: Tensor, num_or_size_splits: Any, axis: int = 0) -> Any:
    count = value.shape[g.axis(value, axis)]
    given = whole(num_or_size_splits)
    if isinstance(given, int):
        if given < 1 or count % given:
            g.refuse(f"{count} elements cannot be split into {given} equal parts")
        return KERAS["Split"](g, value, given, axis)
    sizes = integers(given)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = count - sum(sizes) - 1
    if min(sizes, default=0) < 0 or sum(sizes) != count:
        g.refuse(f"{count} elements cannot be split into parts of {given}")
    return KERAS["Split"](g, value, np.cumsum(sizes)[:-1].tolist(), axis)


@function("unstack", of_v1=True)
def unstack(g: Emit, value: Any, num: Any = None, axis: int = 0) -> Any:
    if isinstance(value, np.ndarray):
        return [np.asarray(each) for each in value]
    return KERAS["Unstack"](g, value, num, axis)


@function("slice", of_v1=True)
def part(g: Emit, input_: Tensor, begin: Any, size: Any) -> Tensor:
    ends = [
        (None if length == -1 else start + length)
        for start, length in zip(integers(begin), integers(size), strict=True)
    ]
    return KERAS["GetItem"](g, input_, [*map(slice, integers(begin), ends)])


@function("strided_slice", of_v1=True)
def strided_slice(
    g: Emit,
    input_: Tensor,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    starts, ends = integers(begin), integers(end)
    steps = [1] * len(starts) if strides is None else integers(strides)
    key: list[Any] = []
    for at, (start, stop, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if shrink_axis_mask >> at & 1:
            key.append(start)
            continue
        key.append(
            slice(
                None if begin_mask >> at & 1 else start, None if end_mask >> at & 1 else stop, step
            )
        )
    return KERAS["GetItem"](g, input_, key)


@function("gather", of_v1=True)
def gather(g: Emit, params: Any, indices: Any, axis: Any = None, batch_dims: Any = 0) -> Tensor:
    if batch_dims:
        g.refuse("batch_dims is not supported")
    return KERAS["Take"](g, params, indices, 0 if axis is None else axis)


@function("tile", of_v1=True)
def tile(g: Emit, input: Tensor, multiples: Any) -> Tensor:
    return KERAS["Tile"](g, input, integers(multiples))


@function("repeat")
def repeat(g: Emit, input: Tensor, repeats: Any, axis: int | None = None) -> Tensor:
    return KERAS["Repeat"](g, input, whole(repeats), axis)


@function("reverse", of_v1=True)
def reverse(g: Emit, tensor: Tensor, axis: Any) -> Tensor:
    return KERAS["Flip"](g, tensor, integers(axis))


@function("roll")
def roll(g: Emit, input: Tensor, shift: Any, axis: Any) -> Tensor:
    return KERAS["Roll"](g, input, integers(shift), integers(axis))


@function("pad", of_v1=True)
def pad(
    g: Emit, tensor: Tensor, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0
) -> Tensor:
    return KERAS["Pad"](g, tensor, constant_values, whole(paddings), str(mode).lower())


@function("linalg.band_part")
def band_part(g: Emit, input: Tensor, num_lower: int, num_upper: int) -> Tensor:
    made = input
    if num_lower >= 0:
        made = KERAS["Triu"](g, made, -num_lower)
    if num_upper >= 0:
        made = KERAS["Tril"](g, made, num_upper)
    return made


# --- arithmetic -------------------------------------------------------------------------------


@function("math.add_n")
def add_n(g: Emit, inputs: Any) -> Tensor:
    made, *rest = inputs if isinstance(inputs, list | tuple) else [inputs]
    for each in rest:
        made = g("Add", made, each)
    return made


@function("math.squared_difference", of_v1=True)
def squared_difference(g: Emit, x: Any, y: Any) -> Tensor:
    return KERAS["Square"](g, KERAS["Subtract"](g, x, y))


@function("linalg.matmul", "matmul")
def matmul(g: Emit, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    def turned(x: Any, turn: bool) -> Any:
        if not turn:
            return x
        if isinstance(x, Tensor):
            return KERAS["Swapaxes"](g, x, -1, -2)
        return np.swapaxes(np.asarray(x), -1, -2)

    return KERAS["Matmul"](g, turned(a, transpose_a), turned(b, transpose_b))


@function("math.cumsum", "cumsum")
def cumsum(
    g: Emit, x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    return g("CumSum", x, axis=g.axis(x, axis), exclusive=int(exclusive), reverse=int(reverse))


@function("norm", "linalg.norm", "compat.v1.norm")
def norm(
    g: Emit, tensor: Tensor, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None
) -> Tensor:
    return KERAS["Norm"](g, tensor, ord, axis, bool(keepdims))


@function("math.reduce_euclidean_norm")
def euclidean_norm(g: Emit, input_tensor: Tensor, axis: Any = None, keepdims: Any = None) -> Tensor:
    return KERAS["Norm"](g, input_tensor, None, axis, bool(keepdims))


def _extreme(kind: str) -> Function:
    def row(
        g: Emit, input: Tensor, axis: Any = None, output_type: Any = "int64", dimension: Any = None
    ) -> Tensor:
        given = axis if axis is not None else dimension
        made = KERAS[kind](g, input, 0 if given is None else int(given))
        return KERAS["Cast"](g, made, output_type or "int64")

    return row


function("math.argmax", "argmax", "compat.v1.argmax")(_extreme("Argmax"))
function("math.argmin", "argmin", "compat.v1.argmin")(_extreme("Argmin"))


@function("math.top_k", "nn.top_k")
def top_k(
    g: Emit, input: Tensor, k: int = 1, sorted: bool = True, index_type: Any = "int32"
) -> Any:
    values, places = KERAS["TopK"](g, input, int(k), bool(sorted))
    return [values, KERAS["Cast"](g, places, index_type or "int32")]


@function("sort")
def sort(g: Emit, values: Tensor, axis: int = -1, direction: str = "ASCENDING") -> Tensor:
    made = KERAS["Sort"](g, values, axis)
    return g.flip(made, g.axis(made, axis)) if direction == "DESCENDING" else made


@function("one_hot")
def one_hot(
    g: Emit,
    indices: Tensor,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
) -> Tensor:
    place = -1 if axis is None else axis
    if on_value is None and off_value is None:
        return KERAS["OneHot"](g, indices, int(depth), place, dtype)
    is_one = KERAS["OneHot"](g, indices, int(depth), place, "bool")
    on, off = (1 if on_value is None else on_value), (0 if off_value is None else off_value)
    made = KERAS["Where"](g, is_one, on, off)
    return KERAS["Cast"](g, made, dtype or "float32")
