"""What kernels take, and how they are cut."""

from __future__ import annotations

import pytest

from weft.dtypes import DType
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Instruct,
    Kernel,
    Load,
    Local,
    LoopKind,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.plan.work import (
    MOST_STAGES,
    cycles,
    parts_of,
    shared_scratch,
    stages_of,
    work_of,
)
from weft.targets.target import DESKTOP, Costs

F32, I64 = DType.F32, DType.I64
ZERO = Const(0, I64)


def over(var: str, extent: int, *body: Stmt, kind: LoopKind = LoopKind.PARALLEL) -> For:
    return For(var, Const(0, I64), Const(extent, I64), body, kind)


def kernel(*body: Stmt, size: int = 4, access: Access = Access.WRITE) -> Kernel:
    kinds = {"x": Access.READ, "y": access, "z": Access.WRITE, "w": Access.WRITE}
    params = tuple(Buffer(name, F32, (size,), kind) for name, kind in kinds.items())
    return Kernel("k", params, body)


def copy(to: str, source: str, index: Expr | None = None) -> Store:
    return Store(to, (Var("i"),), Load(source, (index or Var("i"),), F32))


def extents(made: Kernel) -> dict[int, tuple[int, ...]]:
    """Of the ranges of the first stage, by place."""
    return {place: found.extents for place, found in stages_of(made)[0].ranges.items()}


def stages(made: Kernel) -> list[int]:
    """How many statements each stage has."""
    return [len(stage.stmts) for stage in stages_of(made)]


HEAVY = over("k", 2000, copy("y", "x"), kind=LoopKind.SERIAL)


def test_nested_loops_are_one_range_as_far_as_that_is_worth_it() -> None:
    store = copy("y", "x")
    assert extents(kernel(over("i", 9, store))) == {0: (9,)}
    assert extents(kernel(over("i", 9, over("j", 5, store)))) == {0: (9, 5)}
    # Enough iterations to share: divisions would cost more than the stores.
    assert extents(kernel(over("i", 200, over("j", 50, store)))) == {0: (200,)}
    assert extents(kernel(over("i", 9, over("j", 50, over("k", 70, store))))) == {0: (9, 50)}
    assert extents(kernel(over("i", 200, over("j", 50, HEAVY)))) == {0: (200, 50)}


def test_only_perfect_nests_with_constant_bounds_are_cut() -> None:
    store = copy("y", "x")
    two = over("i", 3, over("j", 4, store), over("j", 2, store))
    assert extents(kernel(two)) == {0: (3,)}
    triangle = For("j", Const(0, I64), Var("i"), (store,), LoopKind.PARALLEL)
    assert extents(kernel(over("i", 3, triangle))) == {0: (3,)}
    assert extents(kernel(over("i", 3, over("j", 4, store), kind=LoopKind.SERIAL))) == {}
    assert extents(kernel(store)) == {}
    assert extents(kernel(over("i", 0, store))) == {}


def test_statements_wait_for_what_they_read() -> None:
    first, other = over("i", 8, copy("y", "x")), over("i", 8, copy("z", "x"))
    back = Binary("sub", Const(7, I64), Var("i"))
    assert stages(kernel(first, other)) == [2]
    assert stages(kernel(first, first)) == [2]
    assert stages(kernel(first, over("i", 8, copy("z", "y")))) == [1, 1]
    assert stages(kernel(first, over("i", 8, copy("y", "y")))) == [1, 1]
    # And with what others read yet.
    assert stages(kernel(over("i", 8, copy("z", "y")), first)) == [1, 1]
    assert stages(kernel(first, other, over("i", 8, copy("w", "y")), other)) == [2, 2]
    # One statement alone may read what it writes.
    assert stages(kernel(over("i", 8, copy("y", "y", back)))) == [1]


def test_locals_are_nobody_elses() -> None:
    total = Buffer("total", F32, (), Access.LOCAL)
    start = Store("total", (), Const(0.0, F32))
    end = Store("y", (Var("i"),), Load("total", (), F32))
    nest = over("i", 8, Local(total, (start, end)))
    assert stages(kernel(nest, nest)) == [2]


def test_serial_statements_do_not_wait_for_one_another() -> None:
    first, then = (over("i", 8, copy(*names), kind=LoopKind.SERIAL) for names in ("yx", "zy"))
    last = over("i", 8, copy("w", "z"))
    assert stages(kernel(first, then)) == [2]
    assert stages(kernel(first, then, last)) == [2, 1]
    cut = over("i", 8, copy("w", "x"))
    assert stages(kernel(first, cut, then)) == [3]


def test_scratch_of_one_statement_is_every_parts_own() -> None:
    nest = over("i", 8, copy("y", "x"), copy("z", "y"))
    one = kernel(nest, over("i", 8, copy("z", "x")), access=Access.SCRATCH)
    assert shared_scratch(one) == frozenset()
    assert stages(one) == [2]


def test_scratch_of_several_statements_is_shared() -> None:
    fill, use = over("i", 8, copy("y", "x")), over("i", 8, copy("z", "y"))
    both = kernel(fill, use, access=Access.SCRATCH)
    assert shared_scratch(both) == {"y"}
    assert stages(both) == [1, 1]
    serial = (over("i", 8, copy(*names), kind=LoopKind.SERIAL) for names in ("yx", "zy"))
    first_parts = kernel(over("i", 8, copy("z", "x")), *serial, access=Access.SCRATCH)
    assert shared_scratch(first_parts) == frozenset()
    assert stages(first_parts) == [3]
    plain = kernel(fill, use, use)
    assert shared_scratch(plain) == frozenset()
    assert stages(plain) == [1, 2]


def test_more_trips_are_more_work() -> None:
    store = copy("y", "x")
    one, ten = cycles((over("i", 1, store),)), cycles((over("i", 10, store),))
    assert ten == pytest.approx(10 * one)
    lanes = over("i", 16, store, kind=LoopKind.VECTOR)
    assert cycles((lanes,)) == pytest.approx(one)
    hard = Store("y", (Var("i"),), Unary("exp", Load("x", (Var("i"),), F32)))
    assert cycles((over("i", 10, hard),)) > 5 * ten


def test_bounds_that_vary_count_in_the_middle() -> None:
    store = copy("y", "x")
    triangle = For("j", Const(0, I64), Var("i"), (store,))
    half = cycles((over("i", 101, triangle),))
    full = cycles((over("i", 101, over("j", 100, store)),))
    assert half == pytest.approx(full / 2)


def test_instructions_take_what_their_rows_say() -> None:
    """Not what their meaning would take in plain loops."""
    sums, a = Load("y", (ZERO,), DType.I32), Load("x", (ZERO,), DType.U8)
    step = Instruct("vpdpbusd", (sums, a, Load("w", (ZERO, ZERO), DType.I8)))
    assert cycles((over("i", 10, step),)) == pytest.approx(10 * 0.5)  # two pipes
    slow = Costs(instructions=(("vpdpbusd", 6.0),))
    assert cycles((step,), slow) == pytest.approx(3)


def test_shared_expressions_count_once() -> None:
    value: Expr = Load("x", (Var("i"),), F32)
    for _ in range(60):
        value = Binary("add", value, value)
    assert cycles((Store("y", (Var("i"),), value),)) < 100


def test_moving_data_is_work() -> None:
    """Lanes are computed at once, but all come from memory; what is not read does not come."""
    size = 1 << 20
    lanes = over("i", 16, copy("y", "x"), kind=LoopKind.VECTOR)
    streamed = kernel(over("k", size // 16, lanes), size=size)
    assert work_of(streamed) > 4 * cycles(streamed.body)
    assert work_of(kernel(lanes, size=size)) < 100


def test_parts() -> None:
    busy = kernel(over("i", 6, HEAVY))
    share = work_of(busy) // DESKTOP.part
    assert share == 0
    assert parts_of(busy, 8) == (1,)
    heavier = kernel(over("i", 6, over("j", 100, HEAVY, kind=LoopKind.SERIAL)))
    assert work_of(heavier) > 8 * DESKTOP.part
    assert parts_of(heavier, 1) == (1,)
    assert parts_of(heavier, 4) == (4,)
    # No more parts than there are iterations.
    assert parts_of(heavier, 100) == (6,)
    # And no more than it is worth.
    middling = kernel(over("i", 1000, over("j", 4, copy("y", "x"), kind=LoopKind.SERIAL)))
    many = kernel(over("i", 80000, over("j", 4, copy("y", "x"), kind=LoopKind.SERIAL)))
    assert parts_of(middling, 64) == (1,)
    assert 1 < parts_of(many, 64)[0] < 64


def test_parts_of_stages() -> None:
    """Each as it is worth it."""
    slow = over("i", 6, over("j", 100, HEAVY, kind=LoopKind.SERIAL))
    light = over("i", 6, copy("z", "y"))
    assert parts_of(kernel(slow, light), 4) == (4, 1)
    assert parts_of(kernel(light, light), 4) == (1,)
    again = over("i", 6, over("j", 100, over("k", 2000, copy("y", "y")), kind=LoopKind.SERIAL))
    assert parts_of(kernel(*[again] * MOST_STAGES), 4) == (4,) * MOST_STAGES
    assert parts_of(kernel(*[again] * (MOST_STAGES + 1)), 4) == (1,)


def layer(channels: int, pixels: int, read: int) -> Kernel:
    """Blocks of channels of all pixels, each of a weight and so many numbers of a pixel."""
    block, pixel, k = Var("block"), Var("pixel"), Var("k")
    product = Binary("mul", Load("x", (pixel, k), F32), Load("w", (block, k), F32))
    store = Store("y", (pixel, block), product)
    inner = over("pixel", pixels, over("k", read, store, kind=LoopKind.SERIAL))
    params = (
        Buffer("x", F32, (pixels, read)),
        Buffer("w", F32, (channels, read)),
        Buffer("y", F32, (pixels, channels), Access.WRITE),
    )
    return Kernel("layer", params, (over("block", channels, inner),))


def along(made: Kernel) -> int:
    return stages_of(made)[0].ranges[0].along


def test_parts_own_pixels_unless_weights_outweigh_what_pixels_have() -> None:
    assert along(layer(6, 8, 10)) == 1  # 60 weights; 80 and 48 numbers of pixels
    assert along(layer(20, 8, 10)) == 1  # 200 weights; 80 and 160 numbers
    assert along(layer(90, 2, 10)) == 0  # 900 weights; 20 and 180 numbers
    assert along(kernel(over("i", 9, over("j", 5, copy("y", "x"))))) == 0
