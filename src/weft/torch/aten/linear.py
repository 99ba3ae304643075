# pyright: basic
"""Products of matrices, norms and distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np

from weft.frontends.emit import Number, Tensor
from weft.torch.aten.arithmetic import scaled
from weft.torch.aten.record import Emit, aten

# --- products ---------------------------------------------------------------------------------


@aten("linear.default")
def linear(g: Emit, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if input.rank == 2 and weight.rank == 2:
        return g("Gemm", input, weight, bias, transB=1)
    made = g("MatMul", input, g.transpose(weight, tuple(range(weight.rank))[::-1]))
    return made if bias is None else g("Add", made, bias)


@aten("mm.default", "bmm.default", "matmul.default", "__matmul__.default", "mv.default")
@aten("dot.default", "vdot.default")
def matmul(
    g: Emit,
    self: Tensor,
    other: Tensor | None = None,
    mat2: Tensor | None = None,
    vec: Tensor | None = None,
    tensor: Tensor | None = None,
) -> Tensor:
    # The schemas call the second factor by these names.
    return g("MatMul", self, other or mat2 or vec or tensor)


@aten("addmm.default", "addmv.default", "addbmm.default", "baddbmm.default")
def addmm(
    g: Emit,
    self: Tensor,
    mat1: Tensor | None = None,
    mat2: Tensor | None = None,
    mat: Tensor | None = None,
    vec: Tensor | None = None,
    batch1: Tensor | None = None,
    batch2: Tensor | None = None,
    beta: Number = 1,
    alpha: Number = 1,
) -> Tensor:
    left, right = mat1 or mat or batch1, mat2 or vec or batch2
    assert left is not None
    assert right is not None
    if (left.rank, right.rank) == (2, 2):
        added = self if beta != 0 else None
        return g("Gemm", left, right, added, alpha=float(alpha), beta=float(beta))
    made = scaled(g, g("MatMul", left, right), alpha)
    if made.rank > len(g.result.shape):
        made = g("ReduceSum", made, axes=(0,), keepdims=0)
    return made if beta == 0 else g("Add", made, scaled(g, self, beta))


@aten("outer.default", "ger.default")
def outer(g: Emit, self: Tensor, vec2: Tensor) -> Tensor:
    left, right = g.cast(self, g.dtype), g.cast(vec2, g.dtype)
    return g("Mul", g.reshape(left, (*left.shape, 1)), right)


@aten("addr.default")
def addr(
    g: Emit, self: Tensor, vec1: Tensor, vec2: Tensor, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    made = scaled(g, outer(g, vec1, vec2), alpha)
    return made if beta == 0 else g("Add", made, scaled(g, self, beta))


@aten("einsum.default")
def einsum(g: Emit, equation: str, tensors: Sequence[Tensor]) -> Tensor:
    return g("Einsum", *tensors, equation=equation.replace(" ", ""))


@aten("tensordot.default")
def tensordot(
    g: Emit, self: Tensor, other: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]
) -> Tensor:
    letters = ascii_lowercase[: self.rank + other.rank]
    left, right = letters[: self.rank], list(letters[self.rank :])
    summed = [left[dim] for dim in dims_self]
    for letter, dim in zip(summed, dims_other, strict=True):
        right[dim] = letter
    kept = [letter for letter in (*left, *right) if letter not in summed]
    return g("Einsum", self, other, equation=f"{left},{''.join(right)}->{''.join(kept)}")


@aten("inner.default")
def inner(g: Emit, self: Tensor, other: Tensor) -> Tensor:
    if not self.rank or not other.rank:
        return g("Mul", self, other)
    return tensordot(g, self, other, [-1], [-1])


@aten("bilinear.default")
def bilinear(
    g: Emit, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    made = g("Einsum", input1, weight, input2, equation="...i,oij,...j->...o")
    return made if bias is None else g("Add", made, bias)


@aten("linalg_cross.default", "cross.default")
def cross(g: Emit, self: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    dim = -1 if dim is None else dim
    axis = dim % len(g.result.shape)

    def rolled(x: Tensor, by: int) -> Tensor:
        return g("Gather", x, g.constant(np.roll(np.arange(3), -by)), axis=axis - x.rank)

    first = g("Mul", rolled(self, 1), rolled(other, 2))
    return g("Sub", first, g("Mul", rolled(self, 2), rolled(other, 1)))


# --- norms ------------------------------------------------------------------------------------


def norm(g: Emit, x: Tensor, p: float, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    """The p-norm of a tensor of a floating-point type over axes."""
    over = {"axes": axes, "keepdims": int(keepdim)}
    if not axes:
        return g("Abs", x)
    if p in (1, 2):
        return g("ReduceL1" if p == 1 else "ReduceL2", x, **over)
    if math.isinf(p):
        return g("ReduceMax" if p > 0 else "ReduceMin", g("Abs", x), **over)
    if p == 0:
        other = g("Not", g("Equal", x, g.number(0, x.dtype)))
        return g("ReduceSum", g("Cast", other, to=x.dtype), **over)
    powers = g("Pow", g("Abs", x), g.number(p, x.dtype))
    return g("Pow", g("ReduceSum", powers, **over), g.number(1 / p, x.dtype))


@aten("linalg_vector_norm.default")
def vector_norm(
    g: Emit,
    self: Tensor,
    ord: Number = 2,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
) -> Tensor:
    return norm(g, g.cast(self, g.dtype), float(ord), g.axes(self, dim), keepdim)


@aten("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype")
def norm_p(
    g: Emit,
    self: Tensor,
    p: Number | None = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    return vector_norm(g, self, 2 if p is None else p, dim, keepdim)


@aten("frobenius_norm.dim")
def frobenius_norm(g: Emit, self: Tensor, dim: Sequence[int], keepdim: bool = False) -> Tensor:
    return vector_norm(g, self, 2, dim, keepdim)


@aten("linalg_norm.default")
def linalg_norm(
    g: Emit,
    self: Tensor,
    ord: Number | None = None,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    if ord is not None and len(g.axes(self, dim)) != 1:
        g.refuse("norms of matrices other than Frobenius's are not supported")
    return vector_norm(g, self, 2 if ord is None else ord, dim, keepdim)


# --- distances --------------------------------------------------------------------------------


@aten("cosine_similarity.default")
def cosine_similarity(g: Emit, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    axis = dim if dim < 0 else dim - max(x1.rank, x2.rank)

    def unit(x: Tensor) -> Tensor:
        x = g.cast(x, g.dtype)
        length = norm(g, x, 2, (axis,), keepdim=True)
        return g("Div", x, g("Clip", length, min=eps))

    return g("ReduceSum", g("Mul", unit(x1), unit(x2)), axes=(axis,), keepdims=0)


@aten("pairwise_distance.default")
def pairwise_distance(
    g: Emit, x1: Tensor, x2: Tensor, p: float = 2, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    apart = g("Add", g("Sub", x1, x2), g.number(eps, g.dtype))
    return norm(g, apart, float(p), (apart.rank - 1,), keepdim)


@aten("dist.default")
def dist(g: Emit, self: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    apart = g("Sub", self, other)
    return norm(g, apart, float(p), tuple(range(apart.rank)), keepdim=False)


@aten("pdist.default", "_pdist_forward.default")
def pdist(g: Emit, self: Tensor, p: float = 2) -> Tensor:
    rows = np.triu_indices(self.shape[0], 1)
    left, right = (g("Gather", self, g.constant(each, "rows"), axis=0) for each in rows)
    return norm(g, g("Sub", left, right), float(p), (1,), keepdim=False)


@aten("cdist.default", "_cdist_forward.default")
def cdist(g: Emit, x1: Tensor, x2: Tensor, p: float = 2, **_: object) -> Tensor:
    # compute_mode says how, not what.
    left = g.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    right = g.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))
    apart = g("Sub", left, right)
    return norm(g, apart, float(p), (apart.rank - 1,), keepdim=False)
