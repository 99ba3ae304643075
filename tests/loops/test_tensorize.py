"""Widened locals, other layouts and instructions in the place of loops; or a refusal."""

from __future__ import annotations

import numpy as np
import pytest

from weft.loops.instruction import Instruction
from weft.loops.interpret import run
from weft.loops.nodes import Binary, Instruct, Kernel
from weft.loops.schedule import ScheduleError, reorder, split
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import walk_stmts
from weft.loops.tensorize import relayout, tensorize, widen
from weft.loops.text import parse, show
from weft.loops.verify import verify
from weft.loops.walk import index

DOTS = """
kernel dots(x: i16[6] read, w: i16[4, 6] read, y: i32[4] write) {
  for c in 0..4 {
    local acc: i32[] {
      acc[] = 7:i32
      for k in 0..6 { acc[] = acc[] + i32(x[k]) * i32(w[c, k]) }
      y[c] = acc[]
    }
  }
}
"""


def results(kernel: Kernel) -> np.ndarray:
    rng = np.random.default_rng(1)
    arrays = {
        each.name: rng.integers(-32768, 32767, each.shape, np.int16, endpoint=True)
        for each in kernel.params[:-1]
    }
    arrays["y"] = np.zeros(4, np.int32)
    verify(kernel)
    run(kernel, arrays)
    return arrays["y"]


def test_widen_cuts_a_nest_apart() -> None:
    wide = widen(parse(DOTS), "acc", ("c",))
    assert show(simplify_kernel(wide)) == (
        "kernel dots(x: i16[6] read, w: i16[4, 6] read, y: i32[4] write) {\n"
        "  local acc: i32[4] {\n"
        "    for c in 0..4 {\n"
        "      acc[c] = 7:i32\n"
        "    }\n"
        "    for c_1 in 0..4 {\n"
        "      for k in 0..6 {\n"
        "        acc[c_1] = acc[c_1] + i32(x[k]) * i32(w[c_1, k])\n"
        "      }\n"
        "    }\n"
        "    for c_2 in 0..4 {\n"
        "      y[c_2] = acc[c_2]\n"
        "    }\n"
        "  }\n"
        "}\n"
    )
    np.testing.assert_array_equal(results(wide), results(parse(DOTS)))


def test_widen_refuses_what_iterations_share() -> None:
    shared = parse(DOTS.replace("y[c] = acc[]", "y[0] = acc[]"))
    with pytest.raises(ScheduleError, match="may touch the same element of y"):
        widen(shared, "acc", ("c",))


def test_from_naive_loops_to_an_instruction() -> None:
    kernel = widen(parse(DOTS), "acc", ("c",))
    kernel = split(kernel, "k", 2)
    kernel = reorder(kernel, ("k_outer", "c_1", "k_inner"))
    kernel = tensorize(kernel, "k_inner", "smlad")
    used = [each for each in walk_stmts(kernel.body) if isinstance(each, Instruct)]
    assert len(used) == 1
    assert "smlad(acc[c_1], x[k_outer * 2], w[c_1, k_outer * 2])" in show(kernel)
    np.testing.assert_array_equal(results(kernel), results(parse(DOTS)))
    assert parse(show(kernel)) == kernel


def test_an_instruction_of_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    meaning = parse(
        "kernel once(sum: i32[] write, a: i16[1] read, b: i16[1] read) {\n"
        "  for k in 0..1 { sum[] = sum[] + i32(a[k]) * i32(b[k]) }\n}"
    )
    row = Instruction(meaning, "", 1, "0", "", "One product.")
    monkeypatch.setattr("weft.loops.instruction.instructions", lambda: {"once": row})
    kernel = tensorize(split(parse(DOTS), "k", 1), "k_inner", "once")
    assert "once(acc[], x[k_outer], w[c, k_outer])" in show(kernel)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("0..6", "0..5"), "has not the row's extent"),
        (("* i32(w[c, k])", "+ i32(w[c, k])"), "arithmetic is not the instruction's"),
        (("i32(x[k])", "i32(x[5 - k])"), "x.* is not read as a"),
        (("i32(w[c, k])", "i32(w[k % 4, 0])"), "w.* is not read as b"),
    ],
)
def test_tensorize_refuses_other_loops(change: tuple[str, str], message: str) -> None:
    kernel = parse(DOTS.replace(*change).replace("0..6", "0..2"))
    with pytest.raises(ScheduleError, match=message):
        tensorize(kernel, "k", "smlad")


def test_tensorize_refuses_strides() -> None:
    kernel = parse(
        DOTS.replace("x: i16[6] read", "x: i16[6] strides(2) read").replace("0..6", "0..2")
    )
    with pytest.raises(ScheduleError, match="operand a of smlad has strides"):
        tensorize(kernel, "k", "smlad")


def test_relayout_moves_every_load() -> None:
    kernel = parse(DOTS)
    turned = relayout(
        kernel,
        "w",
        (3, 4, 2),
        lambda at: (
            Binary("floordiv", at[1], index(2)),
            at[0],
            Binary("mod", at[1], index(2)),
        ),
    )
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-99, 99, shape, np.int16) for shape in ((6,), (4, 6)))
    one, other = np.zeros(4, np.int32), np.zeros(4, np.int32)
    run(kernel, {"x": x, "w": w, "y": one})
    packed = np.ascontiguousarray(w.reshape(4, 3, 2).transpose(1, 0, 2))
    run(turned, {"x": x, "w": packed, "y": other})
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ScheduleError, match="y is not only read"):
        relayout(kernel, "y", (4,), lambda at: at)
