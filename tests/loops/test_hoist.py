"""Large locals become scratch memory: same results, and what lives at once lies apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.turns import examples
from weft.dtypes import DType
from weft.loops.hoist import LEAST_BYTES, Hoisted, hoist
from weft.loops.interpret import run, span
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import walk_stmts
from weft.loops.text import parse
from weft.loops.verify import verify
from weft.loops.walk import index

LARGE = LEAST_BYTES // 4
SMALL = LARGE - 1
OUT = Buffer("out", DType.F32, (4,), Access.WRITE)
X = Buffer("x", DType.F32, (4,))


def local(name: str, size: int, *body: Stmt) -> Local:
    return Local(Buffer(name, DType.F32, (size,), Access.LOCAL), body)


def put(buffer: str, place: Expr | int, value: Expr) -> Store:
    return Store(buffer, (index(place) if isinstance(place, int) else place,), value)


def get(buffer: str, place: Expr | int) -> Load:
    return Load(buffer, (index(place) if isinstance(place, int) else place,), DType.F32)


def through(name: str, size: int, place: int) -> Local:
    """``out[place] = x[place]`` by way of a local."""
    copied = (put(name, size - 1, get("x", place)), put("out", place, get(name, size - 1)))
    return local(name, size, *copied)


def kernel(*body: Stmt) -> Kernel:
    made = Kernel("k", (X, OUT), body)
    verify(made)
    return made


def scratch(hoisted: Hoisted) -> list[Buffer]:
    return [each for each in hoisted.kernel.params if each.access is Access.SCRATCH]


def results(made: Kernel, hoisted: Hoisted | None = None) -> np.ndarray:
    """What a kernel writes; scratch buffers hold rubbish before."""
    arrays = {"x": np.arange(1, 5, dtype=np.float32), "out": np.zeros(4, np.float32)}
    for each in scratch(hoisted) if hoisted else ():
        arrays[each.name] = np.full(span(each), np.nan, np.float32)
    run(hoisted.kernel if hoisted else made, arrays)
    return arrays["out"]


def test_small_locals_stay() -> None:
    made = kernel(through("held", SMALL, 0))
    assert hoist(made, 64) == Hoisted(made, (), 0)


def test_a_large_local_becomes_a_parameter_before_the_output() -> None:
    made = kernel(through("held", LARGE, 0))
    hoisted = hoist(made, 64)
    verify(hoisted.kernel)
    assert [each.name for each in hoisted.kernel.params] == ["x", "held", "out"]
    assert (hoisted.offsets, hoisted.bytes) == ((0,), LEAST_BYTES)
    assert not any(isinstance(each, Local) for each in walk_stmts(hoisted.kernel.body))
    np.testing.assert_array_equal(results(made, hoisted), results(made))


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    inner = through("inner", LARGE, 0)
    hoisted = hoist(kernel(local("outer", LARGE + 1, inner)), 256)
    assert (hoisted.offsets, hoisted.bytes) == ((0, LEAST_BYTES + 256), 2 * LEAST_BYTES + 256)


def test_locals_that_are_not_live_at_once_share_memory() -> None:
    made = kernel(through("first", LARGE, 0), through("second", LARGE + 16, 1))
    hoisted = hoist(made, 64)
    assert (hoisted.offsets, hoisted.bytes) == ((0, 0), LEAST_BYTES + 64)
    np.testing.assert_array_equal(results(made, hoisted), results(made))


def test_locals_of_one_name_get_names_of_their_own() -> None:
    made = kernel(through("held", LARGE, 0), through("held", LARGE, 1), through("held", SMALL, 2))
    hoisted = hoist(made, 64)
    verify(hoisted.kernel)
    names = [each.name for each in scratch(hoisted)]
    assert len({*names, "held"}) == 3
    np.testing.assert_array_equal(results(made, hoisted), results(made))


def test_large_locals_inside_small_ones_loops_and_conditions() -> None:
    def body(place: Expr) -> tuple[Stmt, ...]:
        kept = (put("a", 0, get("x", place)), put("b", 0, get("x", place)))
        total = put("out", place, Binary("add", get("a", 0), get("b", 0)))
        return (local("small", 2, local("a", LARGE, local("b", LARGE, *kept, total))),)

    condition = Binary("lt", Var("i"), index(2))
    chosen = If(condition, body(Var("i")), (through("c", LARGE, 3),))
    made = kernel(For("i", index(0), index(4), (chosen,)))
    hoisted = hoist(made, 64)
    verify(hoisted.kernel)
    assert (hoisted.offsets, hoisted.bytes) == ((0, LEAST_BYTES, 0), 2 * LEAST_BYTES)
    np.testing.assert_array_equal(results(made, hoisted), [2, 4, 0, 4])


@st.composite
def nested(draw: st.DrawFn, depth: int = 0) -> tuple[Stmt, ...]:
    """Locals inside and beside one another, each read after all that it holds has run."""
    found: list[Stmt] = []
    for _ in range(draw(st.integers(1, 2 if depth < 3 else 1))):
        name = draw(st.sampled_from(["a", "b", "c"])) + str(depth)
        size = draw(st.sampled_from([SMALL, LARGE, LARGE + 7]))
        place = draw(st.integers(0, 3))
        inside = draw(nested(depth + 1)) if depth < 3 and draw(st.booleans()) else ()
        value = Binary("add", get("out", place), get(name, 0))
        body = (put(name, 0, get("x", place)), *inside, put("out", place, value))
        found.append(local(name, size, *body))
    return tuple(found)


@settings(max_examples=examples(60), deadline=None)
@given(nested())
def test_results_stay_where_all_scratch_lies_in_one_block(body: tuple[Stmt, ...]) -> None:
    clear = For(
        "i", index(0), index(4), (put("out", Var("i"), Binary("mul", get("x", 0), get("x", 1))),)
    )
    made = kernel(clear, *body)
    hoisted = hoist(made, 64)
    verify(hoisted.kernel)
    memory = np.full(hoisted.bytes // 4, np.nan, np.float32)
    arrays = {"x": np.arange(1, 5, dtype=np.float32), "out": np.zeros(4, np.float32)}
    for each, offset in zip(scratch(hoisted), hoisted.offsets, strict=True):
        assert offset % 64 == 0
        arrays[each.name] = memory[offset // 4 : offset // 4 + span(each)]
        assert arrays[each.name].size == span(each)
    np.testing.assert_array_equal(results(made, hoisted), results(made))
    assert_apart(hoisted)


def assert_apart(hoisted: Hoisted) -> None:
    """A buffer used between the first and last use of another does not lie on it."""
    buffers = scratch(hoisted)
    places = {
        each.name: range(offset, offset + span(each) * 4)
        for each, offset in zip(buffers, hoisted.offsets, strict=True)
    }
    uses: dict[str, list[int]] = {}
    for when, stmt in enumerate(walk_stmts(hoisted.kernel.body)):
        if isinstance(stmt, Store):
            names = {stmt.buffer, *(node.buffer for node in _loads(stmt.value))}
            for name in names & places.keys():
                uses.setdefault(name, []).append(when)
    for one, when in uses.items():
        for other, then in uses.items():
            if one != other and any(min(when) < each < max(when) for each in then):
                assert places[one].stop <= places[other].start or (
                    places[other].stop <= places[one].start
                )


def _loads(value: Expr) -> list[Load]:
    match value:
        case Load():
            return [value]
        case Binary(_, lhs, rhs):
            return [*_loads(lhs), *_loads(rhs)]
        case _:
            return []


def test_a_target_says_what_stays() -> None:
    made = kernel(through("held", SMALL, 0))
    assert hoist(made, 64, 4 * SMALL + 1) == Hoisted(made, (), 0)
    hoisted = hoist(made, 64, 4 * SMALL)
    assert (hoisted.offsets, hoisted.bytes) == ((0,), LEAST_BYTES)
    np.testing.assert_array_equal(results(made, hoisted), results(made))


def test_what_instructions_alone_work_on():
    """On machines short of stack, arrays go where there are no loops and nothing else."""
    source = """
kernel k(x: i8[8] read, stream: i32[1, 24] read, out: i8[4] write) {
  local patch: i32[2, 1, 2] {
    patch_row_1_2_0_2_8_0(patch[0, 0, 0], x[0])
    bytes_4x1b_2_1_24_0(out[0], patch[0, 0, 0], stream[0, 0])
  }
}"""
    made = parse(source)
    assert hoist(made, 64, 128).bytes == 64
    assert hoist(made, 64).bytes == 0
    looped = replace(made, body=(For("i", index(0), index(2), made.body),))
    assert hoist(looped, 64, 128).bytes == 0
