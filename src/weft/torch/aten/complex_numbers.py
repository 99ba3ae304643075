# pyright: basic
"""Complex numbers: pairs of real and imaginary part along a last axis of length 2.

That is how PyTorch keeps them, too, so that ``view_as_real`` and ``view_as_complex`` do nothing.
Rows of this table import nodes that take or give complex tensors; complex arguments come with
their last axis, and results have one.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from torch import fx

from weft.frontends.emit import Tensor
from weft.torch.aten import creation, padding, scattering, shape, slicing
from weft.torch.aten.record import TABLE, Emit, Row, complex_aten
from weft.torch.tensors import gives_complex

SHARED = creation, padding, scattering, shape, slicing
"""Where rows of real numbers stand that do for complex ones, too."""
Operand: TypeAlias = "Tensor | complex | float"
Dims: TypeAlias = "Sequence[int] | int | None"


def is_complex(g: Emit, name: str) -> bool:
    """Whether an argument is a complex tensor."""
    node = g.nodes.get(name)
    return isinstance(node, fx.Node) and gives_complex(node)


# --- parts ------------------------------------------------------------------------------------


def part(g: Emit, x: Tensor, which: int) -> Tensor:
    """Real (0) or imaginary parts (1), without the last axis."""
    return g.reshape(kept_part(g, x, which), x.shape[:-1])


def kept_part(g: Emit, x: Tensor, which: int) -> Tensor:
    """Real (0) or imaginary parts (1), as a last axis of length 1."""
    return g.slice(x, x.rank - 1, which, which + 1)


def paired(g: Emit, real: Tensor, imaginary: Tensor) -> Tensor:
    """Complex numbers of their parts."""
    wide = [g.reshape(each, (*each.shape, 1)) for each in (real, imaginary)]
    return g("Concat", *wide, axis=real.rank)


def _signed(g: Emit, x: Tensor, signs: Sequence[float]) -> Tensor:
    """Real and imaginary parts times a number each."""
    return g("Mul", x, g.constant(np.asarray(signs, x.dtype.numpy), "signs"))


def _swapped(g: Emit, x: Tensor) -> Tensor:
    last = x.rank - 1
    return g("Slice", x, starts=(1,), ends=(-3,), axes=(last,), steps=(-1,))


def widened(g: Emit, x: Operand, complex_given: bool) -> Tensor:
    """An operand as complex numbers of the result's type."""
    if not isinstance(x, Tensor):
        value = complex(x)
        return g.constant(np.asarray([value.real, value.imag], g.dtype.numpy), "number")
    x = g.cast(x, g.dtype)
    if complex_given:
        return x
    wide = g.reshape(x, (*x.shape, 1))
    return g("Pad", wide, pads=(*(0,) * (x.rank + 1), *(0,) * x.rank, 1))


def product(g: Emit, x: Tensor, y: Tensor) -> Tensor:
    """Products of complex numbers."""
    crossed = g("Mul", _swapped(g, x), _signed(g, kept_part(g, y, 1), (-1, 1)))
    return g("Add", g("Mul", x, kept_part(g, y, 0)), crossed)


def squares(g: Emit, x: Tensor) -> Tensor:
    """Squared absolute values, without the last axis."""
    return g("ReduceSum", g("Mul", x, x), axes=(x.rank - 1,), keepdims=0)


@complex_aten("view_as_complex.default", "view_as_real.default")
def same(g: Emit, self: Tensor) -> Tensor:
    return self


@complex_aten("real.default")
def real(g: Emit, self: Tensor) -> Tensor:
    return part(g, self, 0)


@complex_aten("imag.default")
def imag(g: Emit, self: Tensor) -> Tensor:
    return part(g, self, 1)


@complex_aten("complex.default")
def joined(g: Emit, real: Tensor, imag: Tensor) -> Tensor:
    shape = g.result.dims[:-1]
    return paired(g, g.expand(real, shape), g.expand(imag, shape))


@complex_aten("polar.default")
def polar(g: Emit, abs: Tensor, angle: Tensor) -> Tensor:
    parts = [g("Mul", abs, g(op, angle)) for op in ("Cos", "Sin")]
    return paired(g, parts[0], parts[1])


# --- functions --------------------------------------------------------------------------------


@complex_aten("abs.default")
def absolute(g: Emit, self: Tensor) -> Tensor:
    return g("Sqrt", squares(g, self))


@complex_aten("angle.default")
def angle(g: Emit, self: Tensor) -> Tensor:
    return g("Atan2", part(g, self, 1), part(g, self, 0))


@complex_aten("conj.default", "_conj.default", "conj_physical.default", "_conj_physical.default")
def conjugate(g: Emit, self: Tensor) -> Tensor:
    return _signed(g, self, (1, -1))


@complex_aten("resolve_conj.default", "resolve_neg.default")
def resolved(g: Emit, self: Tensor) -> Tensor:
    return self


@complex_aten("neg.default", "_neg_view.default")
def negative(g: Emit, self: Tensor) -> Tensor:
    return g("Neg", self)


@complex_aten("exp.default")
def exponential(g: Emit, self: Tensor) -> Tensor:
    size = g("Exp", part(g, self, 0))
    parts = [g("Mul", size, g(op, part(g, self, 1))) for op in ("Cos", "Sin")]
    return paired(g, parts[0], parts[1])


def _reciprocal(g: Emit, x: Tensor) -> Tensor:
    total = squares(g, x)
    return g("Div", _signed(g, x, (1, -1)), g.reshape(total, (*total.shape, 1)))


@complex_aten("reciprocal.default")
def reciprocal(g: Emit, self: Tensor) -> Tensor:
    return _reciprocal(g, self)


@complex_aten("pow.Tensor_Scalar")
def power(g: Emit, self: Tensor, exponent: float) -> Tensor:
    if exponent not in (1, 2, 3):
        g.refuse(f"a power of complex numbers by {exponent} is not supported")
    made = self
    for _ in range(int(exponent) - 1):
        made = product(g, made, self)
    return made


# --- functions of two -------------------------------------------------------------------------


def _both(g: Emit, self: Operand, other: Operand) -> tuple[Tensor, Tensor]:
    x = widened(g, self, is_complex(g, "self"))
    return x, widened(g, other, is_complex(g, "other"))


def _sum(op: str) -> Row:
    def row(g: Emit, self: Operand, other: Operand, alpha: complex = 1) -> Tensor:
        x, y = _both(g, self, other)
        return g(op, x, y if alpha == 1 else product(g, y, widened(g, alpha, False)))

    return row


complex_aten("add.Tensor", "add.Scalar")(_sum("Add"))
complex_aten("sub.Tensor", "sub.Scalar")(_sum("Sub"))


def _is_real(g: Emit, name: str, x: Operand) -> bool:
    return not is_complex(g, name) if isinstance(x, Tensor) else not isinstance(x, complex)


def _for_both(g: Emit, x: Operand) -> Tensor:
    """Real numbers as factors of real and imaginary parts."""
    if not isinstance(x, Tensor):
        return g.number(x, g.dtype)  # pyright: ignore[reportArgumentType]
    return g.reshape(g.cast(x, g.dtype), (*x.shape, 1))


@complex_aten("mul.Tensor", "mul.Scalar")
def multiplied(g: Emit, self: Operand, other: Operand) -> Tensor:
    if _is_real(g, "other", other):
        return g("Mul", widened(g, self, True), _for_both(g, other))
    if _is_real(g, "self", self):
        return g("Mul", _for_both(g, self), widened(g, other, True))
    return product(g, *_both(g, self, other))


@complex_aten("div.Tensor", "div.Scalar")
def divided(g: Emit, self: Operand, other: Operand) -> Tensor:
    if _is_real(g, "other", other):
        return g("Div", widened(g, self, True), _for_both(g, other))
    x, y = _both(g, self, other)
    return product(g, x, _reciprocal(g, y))


@complex_aten("where.self")
def where(g: Emit, condition: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return g("Where", g.reshape(condition, (*condition.shape, 1)), *_both(g, self, other))


def _reduced(op: str) -> Row:
    def row(g: Emit, self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
        given = (dim,) if isinstance(dim, int) else dim or range(self.rank - 1)
        axes = _counted(self, given)
        return g(op, self, axes=axes, keepdims=int(keepdim)) if axes else self

    return row


complex_aten("sum.default", "sum.dim_IntList")(_reduced("ReduceSum"))
complex_aten("mean.default", "mean.dim")(_reduced("ReduceMean"))


# --- products of matrices ---------------------------------------------------------------------


def _matrix(g: Emit, x: Tensor) -> Tensor:
    """Complex matrices as real ones of twice the rows and columns.

    Parts of a row's values follow one another, so that the product with complex rows as they
    lie gives complex rows as they lie.
    """
    *outer, rows, columns, _ = x.shape
    turned = _signed(g, _swapped(g, x), (-1, 1))
    wide = [g.reshape(each, (*outer, rows, 1, columns, 2)) for each in (x, turned)]
    both = g("Concat", *wide, axis=len(outer) + 1)
    return g.reshape(both, (*outer, 2 * rows, 2 * columns))


@complex_aten("mm.default", "bmm.default", "matmul.default")
def matrix_product(
    g: Emit, self: Tensor, other: Tensor | None = None, mat2: Tensor | None = None
) -> Tensor:
    right = other if other is not None else mat2
    assert right is not None
    name = "other" if other is not None else "mat2"
    x, y = widened(g, self, is_complex(g, "self")), widened(g, right, is_complex(g, name))
    if x.rank < 3 or y.rank < 3:
        g.refuse("a product of complex vectors is not supported")
    rows = g.reshape(x, (*x.shape[:-2], 2 * x.shape[-2]))
    made = g("MatMul", rows, _matrix(g, y))
    return g.reshape(made, (*made.shape[:-1], made.shape[-1] // 2, 2))


# --- the same elements elsewhere --------------------------------------------------------------


def _counted(x: Tensor, dims: Sequence[int] | int) -> tuple[int, ...]:
    """Axes of complex numbers, counted from the front."""
    given = (dims,) if isinstance(dims, int) else dims
    return tuple(dim % (x.rank - 1) for dim in given) if x.rank > 1 else ()


def _moved(name: str, more: int = 0) -> Row:
    """A row of real numbers that leaves the last axis alone.

    Args:
        name: of the row.
        more: axes that the result has more than the argument.
    """
    row = TABLE[name]

    def moved(g: Emit, **arguments: Any) -> Any:
        first: Any = arguments.get("self", arguments.get("tensors"))
        one = first[0] if isinstance(first, list | tuple) else first
        rank = one.rank - 1 + more if one is not None else 0
        for each in {"dim", "dims", "dim0", "dim1", "axis0", "axis1"} & arguments.keys():
            given = arguments[each]
            if given is not None and rank:
                counted = [dim % rank for dim in ([given] if isinstance(given, int) else given)]
                arguments[each] = counted[0] if isinstance(given, int) else counted
        return row(g, **arguments)

    moved.__signature__ = inspect.signature(row)  # pyright: ignore[reportFunctionMemberAccess]
    return moved


for _name in (
    "view.default", "reshape.default", "_unsafe_view.default", "_reshape_alias.default",
    "flatten.using_ints", "unflatten.int", "unsqueeze.default", "squeeze.default", "squeeze.dim",
    "squeeze.dims", "alias.default", "clone.default", "contiguous.default", "detach.default",
    "lift_fresh_copy.default", "transpose.int", "swapaxes.default", "swapdims.default",
    "expand.default", "expand_as.default", "broadcast_to.default", "slice.Tensor", "select.int",
    "unbind.int", "split.Tensor", "split_with_sizes.default", "chunk.default", "flip.default",
    "zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format",
    "empty_like.default", "new_empty.default", "zero.default",
):  # fmt: skip
    complex_aten(_name)(_moved(_name))
_cat, _stack, _roll = _moved("cat.default"), _moved("stack.default", 1), _moved("roll.default")
_slice_scatter = _moved("slice_scatter.default")
_select_scatter = _moved("select_scatter.default")


def _all_complex(g: Emit, tensors: Sequence[Tensor]) -> None:
    if not all(map(gives_complex, g.nodes["tensors"])):
        g.refuse("real and complex tensors one after another are not supported")


@complex_aten("cat.default", "concat.default", "concatenate.default")
def cat(g: Emit, tensors: Sequence[Tensor], dim: int) -> Any:
    _all_complex(g, tensors)
    return _cat(g, tensors=tensors, dim=dim)


@complex_aten("stack.default")
def stack(g: Emit, tensors: Sequence[Tensor], dim: int) -> Any:
    _all_complex(g, tensors)
    return _stack(g, tensors=tensors, dim=dim)


@complex_aten("roll.default")
def roll(g: Emit, self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Any:
    if not dims:
        flat = g.reshape(self, (prod(self.shape[:-1]), 2))
        return g.reshape(slicing.roll(g, flat, shifts, (0,)), self.shape)
    return _roll(g, self=self, shifts=shifts, dims=dims)


@complex_aten("permute.default")
def permute(g: Emit, self: Tensor, dims: Sequence[int]) -> Tensor:
    return g.transpose(self, (*_counted(self, dims), self.rank - 1))


@complex_aten("t.default")
def transposed(g: Emit, self: Tensor) -> Tensor:
    return g.transpose(self, (1, 0, 2)) if self.rank == 3 else self


@complex_aten("mT.default")
def matrix_transposed(g: Emit, self: Tensor) -> Tensor:
    first = self.rank - 3
    return g.transpose(self, (*range(first), first + 1, first, first + 2))


@complex_aten("repeat.default")
def repeat(g: Emit, self: Tensor, repeats: Sequence[int]) -> Any:
    return TABLE["repeat.default"](g, self, (*repeats, 1))


@complex_aten("constant_pad_nd.default", "pad.default")
def padded(
    g: Emit, self: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None
) -> Any:
    if mode != "constant" or value:
        g.refuse("complex numbers are padded with zeros only")
    return TABLE["constant_pad_nd.default"](g, self, (0, 0, *pad))


@complex_aten("full.default", "full_like.default", "new_full.default", "fill.Scalar")
def full(g: Emit, fill_value: complex = 0, value: complex = 0, **_: Any) -> Tensor:
    return g.expand(widened(g, fill_value or value, False), g.result.dims)


@complex_aten("ones.default", "ones_like.default", "new_ones.default")
def ones(g: Emit, **_: Any) -> Tensor:
    return g.expand(widened(g, 1, False), g.result.dims)


@complex_aten(
    "to.dtype", "to.dtype_layout", "to.device", "_to_copy.default", "to.other", "type_as.default"
)
def to(g: Emit, self: Tensor, **_: object) -> Tensor:
    if not is_complex(g, "self"):
        return widened(g, self, False)
    if self.rank == len(g.result.dims):
        return g.cast(self, g.dtype)
    return g.cast(part(g, self, 0), g.dtype)  # what is imaginary is lost, as in PyTorch


# --- copies with some elements replaced -------------------------------------------------------


@complex_aten("copy.default")
def copy(g: Emit, self: Tensor, src: Tensor) -> Tensor:
    if not is_complex(g, "self"):
        g.refuse("complex numbers are not written into real tensors")
    return g.expand(widened(g, src, is_complex(g, "src")), self.shape)


@complex_aten("slice_scatter.default")
def slice_scatter(
    g: Emit, self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Any:
    part = widened(g, src, is_complex(g, "src"))
    return _slice_scatter(g, self=self, src=part, dim=dim, start=start, end=end, step=step)


@complex_aten("select_scatter.default")
def select_scatter(g: Emit, self: Tensor, src: Tensor, dim: int, index: int) -> Any:
    part = widened(g, src, is_complex(g, "src"))
    return _select_scatter(g, self=self, src=part, dim=dim, index=index)
