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
    Kernel,
    Kind,
    Load,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.plan.work import PART_WORK, cycles, parts_of, ranges_of, work_of

F32, I64 = DType.F32, DType.I64


def over(var: str, extent: int, *body: Stmt, kind: Kind = Kind.PARALLEL) -> For:
    return For(var, Const(0, I64), Const(extent, I64), body, kind)


def kernel(*body: Stmt, size: int = 4, access: Access = Access.WRITE) -> Kernel:
    names = {name: Buffer(name, F32, (size,)) for name in "xy"}
    names["y"] = Buffer("y", F32, (size,), access)
    return Kernel("k", tuple(names.values()), body)


def copy(to: str, source: str, index: Expr | None = None) -> Store:
    return Store(to, (Var("i"),), Load(source, (index or Var("i"),), F32))


def extents(made: Kernel) -> dict[int, tuple[int, ...]]:
    return {place: found.extents for place, found in ranges_of(made).items()}


HEAVY = over("k", 2000, copy("y", "x"), kind=Kind.SERIAL)


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
    triangle = For("j", Const(0, I64), Var("i"), (store,), Kind.PARALLEL)
    assert extents(kernel(over("i", 3, triangle))) == {0: (3,)}
    assert extents(kernel(over("i", 3, over("j", 4, store), kind=Kind.SERIAL))) == {}
    assert extents(kernel(store)) == {}
    assert extents(kernel(over("i", 0, store))) == {}


def test_statements_that_wait_for_others_are_not_cut() -> None:
    first, other = over("i", 8, copy("y", "x")), over("i", 8, copy("z", "x"))
    back = Binary("sub", Const(7, I64), Var("i"))
    assert set(extents(kernel(first, other))) == {0, 1}
    assert extents(kernel(first, over("i", 8, copy("z", "y")))) == {}
    assert extents(kernel(first, over("i", 8, copy("y", "y", back)))) == {}
    # In place: every element by itself.
    assert set(extents(kernel(first, over("i", 8, copy("y", "y"))))) == {0, 1}
    # One statement alone may read what it writes.
    assert set(extents(kernel(over("i", 8, copy("y", "y", back))))) == {0}


def test_scratch_is_every_parts_own() -> None:
    fill, use = over("i", 8, copy("y", "x")), over("i", 8, copy("z", "y"))
    assert extents(kernel(fill, use)) == {}
    assert set(extents(kernel(fill, use, access=Access.SCRATCH))) == {0, 1}


def test_more_trips_are_more_work() -> None:
    store = copy("y", "x")
    one, ten = cycles((over("i", 1, store),)), cycles((over("i", 10, store),))
    assert ten == pytest.approx(10 * one)
    lanes = over("i", 16, store, kind=Kind.VECTOR)
    assert cycles((lanes,)) == pytest.approx(one)
    hard = Store("y", (Var("i"),), Unary("exp", Load("x", (Var("i"),), F32)))
    assert cycles((over("i", 10, hard),)) > 5 * ten


def test_bounds_that_vary_count_in_the_middle() -> None:
    store = copy("y", "x")
    triangle = For("j", Const(0, I64), Var("i"), (store,))
    half = cycles((over("i", 101, triangle),))
    full = cycles((over("i", 101, over("j", 100, store)),))
    assert half == pytest.approx(full / 2)


def test_shared_expressions_count_once() -> None:
    value: Expr = Load("x", (Var("i"),), F32)
    for _ in range(60):
        value = Binary("add", value, value)
    assert cycles((Store("y", (Var("i"),), value),)) < 100


def test_moving_data_is_work() -> None:
    small, large = (kernel(over("i", 4, copy("y", "x")), size=size) for size in (4, 1 << 20))
    assert work_of(small) < 100
    assert work_of(large) > 100_000


def test_parts() -> None:
    busy = kernel(over("i", 6, HEAVY))
    share = work_of(busy) // PART_WORK
    assert share == 0
    assert parts_of(busy, 8) == 1
    heavier = kernel(over("i", 6, over("j", 100, HEAVY, kind=Kind.SERIAL)))
    assert work_of(heavier) > 8 * PART_WORK
    assert parts_of(heavier, 1) == 1
    assert parts_of(heavier, 4) == 4
    # No more parts than there are iterations.
    assert parts_of(heavier, 100) == 6
    # And no more than it is worth.
    middling = kernel(over("i", 1000, over("j", 4, copy("y", "x"), kind=Kind.SERIAL)))
    many = kernel(over("i", 30000, over("j", 4, copy("y", "x"), kind=Kind.SERIAL)))
    assert parts_of(middling, 64) == 1
    assert 1 < parts_of(many, 64) < 64
