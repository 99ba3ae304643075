"""Samples of the matrix products."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.linear import EinsumAttributes, GemmAttributes

CLOSE = 1e-5


def matmul(*inputs: str, tolerance: float = CLOSE) -> Sample:
    return Sample("MatMul", inputs, tolerance=tolerance)


def gemm(*inputs: str, tolerance: float = CLOSE, **attributes: object) -> Sample:
    return Sample("Gemm", inputs, GemmAttributes(**attributes), tolerance)


def einsum(equation: str, *inputs: str, tolerance: float = CLOSE) -> Sample:
    return Sample("Einsum", inputs, EinsumAttributes(equation), tolerance)


SAMPLES = [
    Sample(
        "MatMul",
        (np.array([[1, 2], [3, 4]], np.int32), np.array([[1, 10], [100, 1000]], np.int32)),
        expected=([[201, 2010], [403, 4030]],),
    ),
    matmul("f32[3,4]", "f32[4,5]"),
    matmul("f32[2,3,4]", "f32[4,5]"),
    matmul("f32[2,1,3,4]", "f32[5,4,2]"),
    matmul("f32[4]", "f32[2,4,3]"),
    matmul("f32[2,3,4]", "f32[4]"),
    matmul("f32[4]", "f32[4]"),
    matmul("f16[3,20]", "f16[20,5]", tolerance=2e-3),
    matmul("bf16[3,20]", "bf16[20,5]", tolerance=2e-2),
    matmul("f64[3,4]", "f64[4,5]", tolerance=1e-12),
    gemm("f32[3,4]", "f32[4,5]"),
    gemm("f32[3,4]", "f32[4,5]", "f32[5]"),
    gemm("f32[4,3]", "f32[5,4]", "f32[3,1]", transA=1, transB=1),
    gemm("f32[4,3]", "f32[4,5]", "f32[]", transA=1, alpha=0.5),
    gemm("f32[3,4]", "f32[5,4]", "f32[1,5]", transB=1, alpha=0.25, beta=0.5),
    gemm("f16[3,4]", "f16[4,5]", "f16[5]", tolerance=2e-3),
    einsum("ij->ji", "f32[3,4]"),
    einsum("ij", "f32[3,4]"),
    einsum("ji", "f32[3,4]"),
    einsum("ij->i", "f32[3,4]"),
    einsum("...ii->...i", "f32[2,3,3]"),
    einsum("i,i", "f32[5]", "f32[5]"),
    einsum("bij, bjk -> bik", "f32[2,3,4]", "f32[2,4,5]"),
    einsum("...ij,...jk", "f32[2,3,4]", "f32[1,4,5]"),
    einsum("bhqd,bhkd->bhqk", "f32[2,2,3,4]", "f32[2,1,5,4]"),
    einsum("ij,jk,kl->il", "f32[2,3]", "f32[3,4]", "f32[4,2]"),
    einsum("a...b,b->a...", "f32[2,3,4,5]", "f32[5]"),
    einsum("->", "f32[]"),
    einsum("ij,jk->ik", "f16[3,4]", "f16[4,5]", tolerance=2e-3),
]
BAD: list[Bad] = [
    Bad(
        "MatMul",
        ("f32[2,3]", "f32[4,5]"),
        "matmul: a has 3 columns, b has 4 rows; they must be equal; "
        "got a f32[2,3], b f32[4,5] (node bad)",
    ),
    Bad(
        "MatMul",
        ("f32[2,2,3]", "f32[4,3,5]"),
        "matmul: batch dimensions cannot be broadcast; got a f32[2,2,3], b f32[4,3,5] (node bad)",
    ),
    Bad(
        "MatMul",
        ("f32[]", "f32[3]"),
        "matmul: both factors must have at least one dimension; got a f32[], b f32[3] (node bad)",
    ),
    Bad(
        "MatMul",
        ("f32[2,3]", "f16[3,5]"),
        "matmul: inputs must have one element type; got a f32[2,3], b f16[3,5] (node bad)",
    ),
    Bad(
        "Gemm",
        ("f32[3,4]", "f32[4,5]", "f32[4]"),
        "gemm: c cannot be broadcast to [3,5]; got a f32[3,4], b f32[4,5], c f32[4] (node bad)",
        GemmAttributes(),
    ),
    Bad(
        "Gemm",
        ("f32[3,4]", "f32[4,5]"),
        "gemm: a has 3 columns, b has 4 rows; they must be equal; "
        "got a f32[3,4], b f32[4,5] (node bad)",
        GemmAttributes(transA=1),
    ),
    Bad(
        "Gemm",
        ("f32[2,3,4]", "f32[4,5]"),
        "gemm: both factors must be matrices; got a f32[2,3,4], b f32[4,5] (node bad)",
        GemmAttributes(),
    ),
    Bad(
        "Einsum",
        ("f32[3,4]", "f32[5,6]"),
        "einsum: 'j' is both 4 and 5; got f32[3,4], f32[5,6] (node bad)",
        EinsumAttributes("ij,jk->ik"),
    ),
    Bad(
        "Einsum",
        ("f32[3,4]",),
        "einsum: the output's letters must each stand once and in some input; "
        "got 'ij->ik' (node bad)",
        EinsumAttributes("ij->ik"),
    ),
    Bad(
        "Einsum",
        ("f32[3,4]",),
        "einsum: term 'ijk' does not fit an input of rank 2; got f32[3,4] (node bad)",
        EinsumAttributes("ijk->k"),
    ),
    Bad(
        "Einsum",
        ("f32[3,4]",),
        "einsum: equation 'i,j->ij' has 2 inputs; got f32[3,4] (node bad)",
        EinsumAttributes("i,j->ij"),
    ),
]
TYPES: list[Typed] = [
    Typed("MatMul", ("f32[N,4]", "f32[4,5]"), ("f32[N,5]",)),
    Typed("MatMul", ("f32[N,2,3,4]", "f32[N,2,4,5]"), ("f32[N,2,3,5]",)),
    Typed("MatMul", ("f32[N,2,3,4]", "f32[4,5]"), ("f32[N,2,3,5]",)),
    Typed("Gemm", ("f32[N,4]", "f32[5,4]", "f32[5]"), ("f32[N,5]",), GemmAttributes(transB=1)),
    Typed(
        "Einsum",
        ("f32[N,3,4]", "f32[4,5]"),
        ("f32[N,3,5]",),
        EinsumAttributes("bij,jk->bik"),
    ),
]
