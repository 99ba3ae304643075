# pyright: basic
"""Products of matrices."""

from __future__ import annotations

from weft.torch.aten.record import Emit, Tensor, aten


@aten("linear.default")
def linear(g: Emit, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if input.rank == 2:
        return g("Gemm", input, weight, bias, transB=1)
    made = g("MatMul", input, g.transpose(weight, (1, 0)))
    return made if bias is None else g("Add", made, bias)
