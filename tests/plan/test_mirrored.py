"""Kernels that read their weights from the end: which, and that they compute the same."""

import numpy as np
import pytest

from weft.dtypes import DType
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    For,
    Kernel,
    Load,
    LoopKind,
    Prefetch,
    Store,
    Var,
)
from weft.loops.text import show
from weft.plan.mirrored import alternates, mirrored


def doubled(kind: LoopKind) -> Kernel:
    at = (Var("i"),)
    ahead = (Binary("min", Binary("add", Var("i"), Const(1, DType.I64)), Const(3, DType.I64)),)
    value = Binary("add", Load("w", at, DType.F32), Load("w", at, DType.F32))
    body = (Prefetch("w", ahead), Store("out", at, value))
    loop = For("i", Const(0, DType.I64), Const(4, DType.I64), body, kind)
    params = (Buffer("w", DType.F32, (4,)), Buffer("out", DType.F32, (4,), Access.WRITE))
    return Kernel("doubled", params, (loop,))


def test_blocks_of_weights_are_walked_from_the_end_and_nothing_is_fetched_ahead():
    turned = mirrored(doubled(LoopKind.PARALLEL), {"w"})
    assert "w[3 - i]" in show(turned)
    assert "prefetch" not in show(turned)
    memory = {"w": np.arange(4, dtype=np.float32), "out": np.zeros(4, np.float32)}
    run(turned, memory)
    assert memory["out"].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("kind", "weights"), [(LoopKind.SERIAL, {"w"}), (LoopKind.PARALLEL, {"other"})]
)
def test_other_loops_stay(kind, weights):
    kernel = doubled(kind)
    assert mirrored(kernel, weights) is kernel


@pytest.mark.parametrize(
    ("weights", "caches", "wanted"),
    [
        (1 << 20, (48 << 10, 1 << 20), True),
        (20 << 10, (48 << 10, 1 << 20), False),
        (64 << 20, (48 << 10, 1 << 20), False),
        (1 << 20, (), False),
    ],
)
def test_what_a_cache_almost_holds_is_read_in_turns(weights, caches, wanted):
    assert alternates(weights, caches) is wanted
