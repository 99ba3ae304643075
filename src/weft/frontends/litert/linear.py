"""Products of matrices."""

from __future__ import annotations

from math import prod

from weft.frontends.emit import Tensor
from weft.frontends.litert.hybrid import Weights, rows_product, scaled_product, stored_weights
from weft.frontends.litert.record import Emit, Kind, litert


@litert("FULLY_CONNECTED")
def fully_connected(
    g: Emit,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    fused_activation_function: int,
    weights_format: int = 0,
    keep_num_dims: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> Tensor:
    if weights_format:
        g.refuse("shuffled weights are not supported")
    g.require_rank(w, 2)
    outputs, inputs = w.shape
    if not inputs or prod(x.shape) % inputs or (keep_num_dims and x.shape[-1] != inputs):
        g.refuse(f"weights {w.type} do not fit the input {x.type}")
    rows = g.reshape(x, (prod(x.shape) // inputs, inputs))
    stored = stored_weights(g, rows, 1)
    if stored is not None:
        y = rows_product(g, rows, stored, b, asymmetric_quantize_inputs)
    else:
        y = g("Gemm", rows, w, g.bias(b, 2), transB=1)
    y = g.activated(y, fused_activation_function)
    return g.reshape(y, (*x.shape[:-1], outputs)) if keep_num_dims else y


@litert("BATCH_MATMUL")
def batch_matmul(
    g: Emit,
    x: Tensor,
    y: Tensor,
    *,
    adj_x: bool = False,
    adj_y: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> Tensor:
    stored = stored_weights(g, x, 1)
    if stored is not None and stored.uniform:
        integers = _adjoint(g, stored.integers, adj_y)
        return scaled_product(
            g, _adjoint(g, x, adj_x), Weights(integers, stored.scale), asymmetric_quantize_inputs
        )
    return g("MatMul", _adjoint(g, x, adj_x), _adjoint(g, y, adj_y))


def _adjoint(g: Emit, x: Tensor, wanted: bool) -> Tensor:
    if not wanted:
        return x
    if x.rank < 2:
        g.refuse(f"a matrix is needed, but {x.type} was given")
    perm = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return g.rearranged(x, perm)


@litert("EMBEDDING_LOOKUP", kind=Kind.STORED)
def embedding_lookup(g: Emit, ids: Tensor, table: Tensor) -> Tensor:
    return g("Gather", table, ids, axis=0)
