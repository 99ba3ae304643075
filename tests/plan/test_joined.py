"""Kernels that run block by block with the one before them."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.turns import a_few
from weft.dtypes import DType
from weft.loops.interpret import run
from weft.loops.nodes import Access, Binary, Buffer, Const, For, Kernel, Load, LoopKind, Store, Var
from weft.plan.interpret import run as run_program
from weft.plan.joined import joined


def blocked(name: str, shift: int = 0, blocks: int = 2, lanes: int = 4) -> Kernel:
    """``out[i] = in0[i] + in0[i]`` in blocks of lanes, or of ``in0[i + shift]``."""
    at = Binary("add", Binary("mul", Var("block"), Const(lanes, DType.I64)), Var("lane"))
    read = Binary("add", at, Const(shift, DType.I64))
    load = Load("in0", (read,), DType.F32)
    store = Store("out", (at,), Binary("add", load, load))
    whole = For("lane", Const(0, DType.I64), Const(lanes, DType.I64), (store,), LoopKind.VECTOR)
    loop = For("block", Const(0, DType.I64), Const(blocks, DType.I64), (whole,), LoopKind.PARALLEL)
    params = (Buffer("in0", DType.F32, (12,)), Buffer("out", DType.F32, (12,), Access.WRITE))
    return Kernel(name, params, (loop,))


def test_both_run_in_one_loop_over_blocks():
    both = joined(blocked("one"), blocked("other"), "in0")
    assert both is not None
    assert [each.name for each in both.params] == ["in0", "out", "out2"]
    assert len(both.body) == 1
    memory = {"in0": np.arange(12, dtype=np.float32)}
    memory |= {name: np.zeros(12, np.float32) for name in ("out", "out2")}
    run(both, memory)
    assert memory["out"].tolist() == [0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0]
    assert memory["out2"].tolist() == [0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0]


def test_several_blocks_of_one_go_with_a_block_of_the_other():
    loops = (blocked("one", blocks=3), blocked("wide", lanes=12, blocks=1))
    for first, second in (loops, loops[::-1]):
        both = joined(first, second, "in0")
        assert both is not None
        assert all(isinstance(each, For) and each.stop == Const(1, DType.I64) for each in both.body)
        memory = {"in0": np.arange(12, dtype=np.float32)}
        memory |= {name: np.zeros(12, np.float32) for name in ("out", "out2")}
        run(both, memory)
        assert memory["out2"].tolist() == list(range(0, 48, 4))


@pytest.mark.parametrize("other", [blocked("other", shift=1), blocked("other", blocks=3)])
def test_what_reads_other_blocks_stays_apart(other):
    assert joined(blocked("one"), other, "in0") is None


def layer(units: int, steps: int) -> weft.Net:
    """A bidirectional LSTM whose directions start from states that are given."""
    rng = np.random.default_rng(units)
    x, h, c = (
        weft.input(name, f"f32[{shape}]")
        for name, shape in (
            ("x", f"{steps},1,8"),
            ("h", f"2,1,{units}"),
            ("c", f"2,1,{units}"),
        )
    )
    w, r = (rng.normal(0, 0.3, (2, 4 * units, k)).astype(np.float32) for k in (8, units))
    b = rng.normal(0, 0.3, (2, 8 * units)).astype(np.float32)
    made = weft.ops.lstm(
        x, w, r, b, None, h, c, hidden_size=units, direction="bidirectional", outputs=3
    )
    return weft.net([x, h, c], list(made))


@pytest.mark.parametrize("steps", a_few([1, 4, 5], 1))
def test_a_cell_of_several_blocks_is_one_kernel_and_right(steps):
    net = layer(128, steps)
    rng = np.random.default_rng(steps)
    inputs = {
        name: rng.normal(size=net.graph.types[name].dims).astype(np.float32)
        for name in net.graph.inputs
    }
    wanted = net.reference(inputs)
    program = net.program("x86-avx2")
    told = [line for _, lines in program.function_comments for line in lines]
    assert any("; then " in line for line in told)
    interpreted = tuple(run_program(program, inputs).values())
    found = [interpreted, *(net.compile(threads=threads)(inputs) for threads in (1, 2))]
    for each in found:
        for got, exact in zip(each, wanted, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)
