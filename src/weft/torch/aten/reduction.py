# pyright: basic
"""Reductions, and sums and products along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product

from weft.dtypes import DType
from weft.frontends.emit import Number, Tensor
from weft.torch.aten.record import Emit, Row, aten

Dims = Sequence[int] | int | None


def reduced(g: Emit, op: str, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """A reduction over some axes, over all if none is named."""
    return g(op, x, axes=g.axes(x, dim), keepdims=int(keepdim)) if x.rank else x


def _sums(op: str) -> Row:
    def row(g: Emit, self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        return reduced(g, op, g.cast(self, g.dtype), dim, keepdim)

    return row


aten("sum.default", "sum.dim_IntList")(_sums("ReduceSum"))
aten("mean.default", "mean.dim")(_sums("ReduceMean"))
aten("prod.default", "prod.dim_int")(_sums("ReduceProd"))
aten("amax.default", "max.default")(_sums("ReduceMax"))
aten("amin.default", "min.default")(_sums("ReduceMin"))
aten("logsumexp.default")(_sums("ReduceLogSumExp"))


@aten("aminmax.default")
def aminmax(g: Emit, self: Tensor, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    low, high = (reduced(g, op, self, dim, keepdim) for op in ("ReduceMin", "ReduceMax"))
    return low, high


def _truths(op: str) -> Row:
    def row(g: Emit, self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        return g.cast(reduced(g, op, g.cast(self, DType.BOOL), dim, keepdim), g.dtype)

    return row


aten("any.default", "any.dim", "any.dims")(_truths("ReduceMax"))
aten("all.default", "all.dim", "all.dims")(_truths("ReduceMin"))


@aten("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(g: Emit, self: Tensor, dim: Dims = None) -> Tensor:
    return reduced(g, "ReduceSum", g.cast(g.cast(self, DType.BOOL), DType.I64), dim, False)


# --- extremes and where they are --------------------------------------------------------------


def _place(g: Emit, op: str, x: Tensor, dim: int, keepdim: bool) -> Tensor:
    if not x.rank:
        return g.number(0, DType.I64)
    x = g.cast(x, DType.U8) if x.dtype is DType.BOOL else x
    return g(op, x, axis=g.axis(x, dim), keepdims=int(keepdim))


def _extreme(kind: str) -> tuple[Row, Row]:
    def both(g: Emit, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
        place = _place(g, f"Arg{kind}", self, dim, keepdim)
        return reduced(g, f"Reduce{kind}", self, dim, keepdim), place

    def place(g: Emit, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
        if dim is None:
            flat = g.reshape(self, (product(self.shape),))
            return g.reshape(_place(g, f"Arg{kind}", flat, 0, True), g.result.dims)
        return _place(g, f"Arg{kind}", self, dim, keepdim)

    return both, place


for _name in ("max", "min"):
    _both, _where = _extreme(_name.capitalize())
    aten(f"{_name}.dim")(_both)
    aten(f"arg{_name}.default")(_where)


# --- variance ---------------------------------------------------------------------------------


def _variance(
    g: Emit, x: Tensor, dim: Dims, correction: Number | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    axes = g.axes(x, dim)
    count = product(x.shape[axis] for axis in axes)
    mean = g("ReduceMean", x, axes=axes, keepdims=1) if x.rank else x
    apart = g("Sub", x, mean)
    total = reduced(g, "ReduceSum", g("Mul", apart, apart), axes, keepdim)
    freedom = max(0, count - (1 if correction is None else correction))
    found = g("Div", total, g.number(freedom, x.dtype))
    return found, g.reshape(mean, total.shape)


def _unbiased(row: Row) -> Row:
    def older(
        g: Emit, self: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False
    ) -> object:
        return row(g, self, dim, int(unbiased), keepdim)

    return older  # pyright: ignore[reportReturnType]


def _moments(root: bool, with_mean: bool) -> Row:
    def row(
        g: Emit,
        self: Tensor,
        dim: Dims = None,
        correction: Number | None = None,
        keepdim: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        found, mean = _variance(g, self, dim, correction, keepdim)
        found = g("Sqrt", found) if root else found
        return (found, mean) if with_mean else found

    return row


for _name in ("var", "std", "var_mean", "std_mean"):
    _row = _moments(_name.startswith("std"), _name.endswith("mean"))
    aten(f"{_name}.correction")(_row)
    aten(f"{_name}.default", f"{_name}.dim")(_unbiased(_row))


# --- along an axis ----------------------------------------------------------------------------


def _along(op: str) -> Row:
    def row(g: Emit, self: Tensor, dim: int) -> Tensor:
        x = g.cast(self, g.dtype)
        return g(op, x, axis=g.axis(x, dim)) if x.rank else x

    return row


aten("cumsum.default")(_along("CumSum"))
aten("cumprod.default")(_along("CumProd"))


@aten("diff.default")
def diff(g: Emit, self: Tensor, n: int, dim: int) -> Tensor:
    x = self
    for _ in range(n):
        axis = g.axis(x, dim)
        length = x.shape[axis]
        if length < 2:
            g.refuse("differences of less than two elements are not supported")
        later, sooner = g.slice(x, axis, 1, length), g.slice(x, axis, 0, length - 1)
        x = g("Xor" if x.dtype is DType.BOOL else "Sub", later, sooner)
    return x
